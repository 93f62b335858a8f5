"""Requests and answers byte by byte, written by hand from Kafka's protocol guide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.protocol import raw, read
from mmtool.kafka.wire.fetch import Diverging, FetchAnswer, FetchedPartition, FetchPartition, FetchRequest
from mmtool.kafka.wire.metadata import (
    EARLIEST,
    LATEST,
    BrokerAddress,
    ListedOffset,
    ListOffsetsRequest,
    MetadataAnswer,
    MetadataRequest,
    PartitionLeader,
    TopicMetadata,
)
from mmtool.kafka.wire.produce import ProducedPartition, ProducePartition, ProduceRequest
from mmtool.kafka.wire.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProducerIdentity,
)
from mmtool.translation.types import TopicPartition

ID = "AAECAwQFBgcICQoLDA0ODw"
ID_RAW = "000102030405060708090a0b0c0d0e0f"
CLIENT_NULL = "ffff"
NO_LEADER_EPOCH = "ffffffff"


PRODUCE = ProduceRequest(
    [
        ProducePartition("a", ID, 0, b"\xaa\xbb"),
        ProducePartition("a", ID, 2, b"\xcc"),
    ],
    timeout_ms=15_000,
)
FETCH = FetchRequest([FetchPartition("a", ID, 1, 42, 1 << 20)], 500, 1, 8 << 20)


@pytest.mark.parametrize("version", [7, 8])
def test_produce_by_name(version):
    head = CLIENT_NULL + "ffff" + "00003a98" + "00000001" + "0001 61" + "00000002"
    parts = "00000000 00000002 aabb" + "00000002 00000001 cc"
    assert PRODUCE.body(version) == raw(head, parts)


_OFFSETS = "0000000000000007" + "ffffffffffffffff" + "0000000000000003"


def test_produce_groups_neighbours_of_one_topic():
    two = ProduceRequest([ProducePartition(t, ID, 0, b"\xaa") for t in ("a", "b")], 1)
    topics = "0001 61 00000001 00000000 00000001 aa" + "0001 62 00000001 00000000 00000001 aa"
    assert two.body(8) == raw("ffff ffff 00000001 00000002", topics)


def test_a_produce_answer_of_version_7():
    got, left = read(PRODUCE, 7, "00000001 0001 61 00000001", "00000002 0000", _OFFSETS, "00000000")
    assert got == ([ProducedPartition("a", "", 2, 0, 7, 3, "")], 0)
    assert left == 0


def test_a_produce_answer_of_version_8_carries_a_message():
    errors = "00000001 00000000 0001 78"
    got, _ = read(
        PRODUCE, 8, "00000001 0001 61 00000001", "00000002 0057", _OFFSETS, errors, "0003 6e6f70", "00000000"
    )
    assert got == ([ProducedPartition("a", "", 2, 87, 7, 3, "nop")], 0)


def test_a_produce_answer_by_id_passes_over_the_current_leader():
    current_leader = "01 00 09 00000001 00000002 00"
    got, left = read(
        PRODUCE,
        13,
        "02",
        ID_RAW,
        "02",
        "00000002 0006",
        _OFFSETS,
        "02 00000000 02 78 00",
        "04 6e6f70",
        current_leader,
        "00",
        "00000000 00",
    )
    assert got == ([ProducedPartition("", ID, 2, 6, 7, 3, "nop")], 0)
    assert left == 1


@pytest.mark.parametrize(("version", "rack"), [(10, ""), (11, "0000")])
def test_fetch_by_name(version, rack):
    head = "ffffffff 000001f4 00000001 00800000" + "01" + "00000000 ffffffff"
    partition = "00000001" + NO_LEADER_EPOCH + "000000000000002a" + "ffffffffffffffff" + "00100000"
    expected = raw(head, "00000001 0001 61 00000001", partition, "00000000", rack)
    assert FETCH.body(version) == expected


_BOUNDS = "0000000000000009" + "0000000000000008" + "0000000000000002"
_ABORTED = "0000000000000011" + "0000000000000003"


@pytest.mark.parametrize(("version", "replica"), [(10, ""), (11, "ffffffff")])
def test_a_fetch_answer_by_name(version, replica):
    parts = "00000001 0000", _BOUNDS, "00000001", _ABORTED, replica, "00000002 abcd"
    got, left = read(FETCH, version, "00000005 0000 00000000", "00000001 0001 61 00000001", *parts)
    partition = FetchedPartition("a", "", 1, 0, 9, 8, 2, [(17, 3)], memoryview(b"\xab\xcd"))
    assert (got, left) == (FetchAnswer(5, 0, [partition]), 0)


def test_fetch_in_a_session_names_it_and_what_is_forgotten():
    session = replace(FETCH, session_id=7, session_epoch=3, forgotten=[FetchPartition("a", ID, 9, 0, 0)])
    head = "ffffffff 000001f4 00000001 00800000 01 00000007 00000003"
    assert session.body(13).startswith(raw(head))
    assert session.body(13).endswith(raw("02", ID_RAW, "02 00000009 00", "01", "00"))
    assert session.body(10).endswith(raw("00000001 0001 61 00000001 00000009"))


def test_a_fetch_by_id_names_the_leader_epoch_of_what_was_read():
    place = FETCH.partitions[0]._replace(read_epoch=7)
    asked = raw("00000001", NO_LEADER_EPOCH, "000000000000002a", "00000007")
    assert asked in replace(FETCH, partitions=[place]).body(13)


def test_a_fetch_answer_tells_from_where_on_the_log_holds_something_else():
    diverging = "01 00 0d 00000005 0000000000000028 00"
    parts = "00000001 0000", _BOUNDS, "00", "ffffffff", "01", diverging
    got, left = read(FETCH, 13, "00000005 0000 00000000", "02", ID_RAW, "02", *parts, "00", "00")
    assert (got.partitions[0].diverging, left) == (Diverging(5, 40), 1)


def test_a_fetch_answer_by_id_passes_over_tags():
    unknown = "01 07 02 ffff"
    parts = "00000001 0000", _BOUNDS, "02", _ABORTED, "00", "ffffffff", "03 abcd", unknown
    got, left = read(FETCH, 13, "00000005 0000 00000000", "02", ID_RAW, "02", *parts, "00", "00")
    partition = FetchedPartition("", ID, 1, 0, 9, 8, 2, [(17, 3)], memoryview(b"\xab\xcd"))
    assert (got, left) == (FetchAnswer(5, 0, [partition]), 1)


@pytest.mark.parametrize(
    ("topics", "version", "body"),
    [
        (None, 7, "ffffffff 00"),
        ((), 7, "00000000 00"),
        (["ab"], 7, "00000001 0002 6162 00"),
        (None, 12, "00 00 00 00"),
        (["ab"], 11, "02" + "00" * 16 + "03 6162 00" + "00 00 00"),
        ((), 12, "01 00 00 00"),
        (["ab"], 12, "02" + "00" * 16 + "03 6162 00" + "00 00 00"),
    ],
)
def test_metadata_of_all_of_none_and_of_some(topics, version, body):
    assert MetadataRequest(topics).body(version) == raw(body)


def test_a_metadata_answer_of_version_7_has_the_name_for_an_id():
    brokers = "00000001" + "00000001 0001 68 00002384 ffff"
    partition = "0000 00000000 00000001 00000006" + "00000001 00000001" * 2 + "00000000"
    topic = "00000001" + "0000 0001 61 00" + "00000001" + partition
    got, left = read(MetadataRequest(None), 7, "00000000", brokers, "0002 6964", "00000001", topic)
    leader = PartitionLeader(0, 0, 1, 6, (1,), (1,))
    expected = MetadataAnswer("id", [BrokerAddress(1, "h", 9092)], [TopicMetadata("a", "a", 0, [leader])])
    assert (got, left) == (expected, 0)


@pytest.mark.parametrize("version", [11, 12])
def test_a_metadata_answer_has_ids_from_kafka_2_8_on(version):
    brokers = "02" + "00000001 02 68 00002384 02 72 00"
    partition = "0000 00000000 00000001 00000006" + "02 00000001" * 2 + "01" + "00"
    topic = "02" + "0000 02 61" + ID_RAW + "00" + "02" + partition + "80000000 00"
    got, left = read(MetadataRequest(None), version, "00000000", brokers, "03 6964", "00000001", topic, "00")
    leader = PartitionLeader(0, 0, 1, 6, (1,), (1,))
    expected = MetadataAnswer("id", [BrokerAddress(1, "h", 9092)], [TopicMetadata("a", ID, 0, [leader])])
    assert (got, left) == (expected, 0)


@pytest.mark.parametrize("version", [4, 5])
def test_list_offsets(version):
    places = {TopicPartition("b", 0): EARLIEST, TopicPartition("a", 1): LATEST, TopicPartition("a", 0): 5}
    request = ListOffsetsRequest(places, read_committed=True)
    a = "0001 61 00000002" + "00000000 ffffffff 0000000000000005" + "00000001 ffffffff ffffffffffffffff"
    b = "0001 62 00000001" + "00000000 ffffffff fffffffffffffffe"
    assert request.body(version) == raw("ffffffff 01 00000002", a, b)
    answer = "00000000 00000001 0001 61 00000001 00000001 0000 ffffffffffffffff 0000000000000009 00000003"
    assert read(request, version, answer) == ({TopicPartition("a", 1): ListedOffset(0, 9)}, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_init_producer_id(version):
    request = InitProducerIdRequest("tx", 60_000)
    assert request.body(version) == raw("0002 7478 0000ea60")
    assert read(request, version, "00000000 0000 0000000000000011 0003") == (ProducerIdentity(0, 17, 3), 0)


@pytest.mark.parametrize("version", [0, 1])
def test_add_partitions_to_txn(version):
    places = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
    request = AddPartitionsToTxnRequest("tx", 17, 3, places)
    topics = "00000002 0001 61 00000002 00000000 00000001" + "0001 62 00000001 00000000"
    assert request.body(version) == raw("0002 7478 0000000000000011 0003", topics)
    answer = (
        "00000000 00000002 0001 61 00000002 00000000 0000 00000001 0003" + "0001 62 00000001 00000000 0037"
    )
    assert read(request, version, answer) == (dict(zip(places, (0, 3, 55), strict=True)), 0)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("commit", "flag"), [(False, "00"), (True, "01")])
def test_end_txn(version, commit, flag):
    request = EndTxnRequest("tx", 17, 3, commit=commit)
    assert request.body(version) == raw("0002 7478 0000000000000011 0003", flag)
    assert read(request, version, "00000000 0033") == (51, 0)


def test_describe_producers_of_several_topics():
    request = DescribeProducersRequest(
        [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]
    )
    assert request.body(0) == raw("03 0261 02 00000000 00" + "0262 03 00000001 00000002 00 00")
