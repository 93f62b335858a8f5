"""What brokers and MirrorMaker 2 are told fits the number of brokers."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from kit.load import Load, chunks
from mmtool.errors import UsageError
from mmtool.lab import ports
from mmtool.lab.cluster import Cluster, Node, Shape, new_cluster_id, server_properties
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import TlsFiles
from mmtool.lab.security.kinds import Secure, SecurityKind
from mmtool.lab.session import LabRequest
from mmtool.lab.state import BrokerState, LabState, StateDirectory

NODES = [Node(i, 20_000 + i, 30_000 + i) for i in range(3)]


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2")])
def test_internal_topics_have_as_many_replicas_as_there_are_brokers(brokers, replicas, in_sync):
    settings = server_properties(NODES[0], NODES[:brokers], Path("data"), {})
    told = {
        settings[f"{topic}.replication.factor"]
        for topic in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    }
    assert (told, settings["min.insync.replicas"]) == ({replicas}, in_sync)


def test_a_mirror_maker_file_enables_its_flows_and_fits_the_smallest_cluster(tmp_path):
    fleet = Fleet([Cluster("a", tmp_path, Shape(brokers=3)), Cluster("b", tmp_path, Shape(brokers=2))])
    lines = fleet.properties([("b", "a")], **{"b->a.topics": "orders"}).splitlines()
    assert {"clusters=a, b", "b->a.enabled=true", "b->a.topics=orders", "replication.factor=2"} <= set(lines)


def test_a_lab_of_one_cluster_or_of_equal_names_is_refused():
    for names in (("a",), ("a", "a"), ("a", "../b")):
        with pytest.raises(UsageError):
            LabRequest(names)


EAST_WEST = LabState(
    7, "4.1.0", 3, tuple(BrokerState(name, 0, "127.0.0.1:1", 1, 1, "id", "log") for name in ("east", "west"))
)


def test_a_lab_that_is_asked_for_without_a_word_is_the_one_that_was_here():
    assert LabRequest.of(EAST_WEST) == LabRequest(("east", "west"), 3, "4.1.0")
    assert LabRequest.of(None) == LabRequest.of(LabState(7, "4.1.0", 3, (), "no port")) == LabRequest()


def test_a_failed_start_does_not_make_the_lab_forget_what_it_was():
    assert LabRequest.of(replace(EAST_WEST, error="no port")) == LabRequest.of(EAST_WEST)


def test_what_is_said_of_a_lab_wins_over_what_was_here():
    assert LabRequest.of(EAST_WEST, brokers=1) == LabRequest(("east", "west"), 1, "4.1.0")


def test_a_lab_is_secured_as_last_time_until_another_kind_is_asked_for():
    before = replace(EAST_WEST, secure=SecurityKind.SCRAM)
    asked = [LabRequest.of(before, secure=kind).secure for kind in (None, Secure.NONE, Secure.MTLS)]
    assert asked == [SecurityKind.SCRAM, None, SecurityKind.MTLS]


def test_a_secured_lab_has_no_cluster_named_as_the_folder_of_its_users():
    assert LabRequest(("security", "b")).clusters == ("security", "b")
    with pytest.raises(UsageError, match="no cluster can have the alias security"):
        LabRequest(("security", "b"), secure=SecurityKind.MTLS)


def test_a_stored_state_is_read_as_it_was_written(tmp_path):
    broker = BrokerState("a", 0, "127.0.0.1:1", 1, 2, "id", "log", 3, TlsFiles("ca.pem", "broker.pem"))
    state = replace(EAST_WEST, brokers=(broker,), secure=SecurityKind.OAUTH)
    StateDirectory(tmp_path).write(state)
    assert StateDirectory(tmp_path).read() == state
    assert LabRequest.of(EAST_WEST, ("a", "b"), kafka_version="4.3.1") == LabRequest(("a", "b"), 3, "4.3.1")


def test_no_aliases_at_all_are_no_lab_either():
    with pytest.raises(UsageError, match="--clusters: '' is not a cluster alias"):
        LabRequest.of(EAST_WEST, ("",))


def test_cluster_ids_are_uuids_as_kafka_writes_them():
    ids = {new_cluster_id() for _ in range(500)}
    assert {len(text) for text in ids} == {22}
    assert not any(text.startswith("-") for text in ids)


def test_something_that_listens_but_never_answers_is_not_ready():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert ports.ask(silent.getsockname()[1], timeout=0.2) is None


def test_a_load_is_dealt_out_evenly_and_goes_on_where_it_is_told():
    dealt = [(0, 10), (1, 10), (0, 510), (1, 510), (0, 1010)]
    expected = [(partition, range(first, first + 500)) for partition, first in dealt]
    assert list(chunks(Load("t", count=2_500, partitions=2, first_sequence=10), 500)) == expected
