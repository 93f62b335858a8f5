"""Canaries where topics keep their names: they go one hop, both ways and around a ring, and no further."""

from __future__ import annotations

import time

import pytest

from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.fleet import Fleet
from mmtool.lab.load import Load, produce
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CANARY = "mmtool-canary"
_SETTINGS = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "refresh.topics.interval.seconds": "1",
    "heartbeats.replication.enabled": "false",
}
_PATIENCE_SECONDS = 90.0
_STILL_SECONDS = 5.0


@pytest.fixture
def ring(tmp_path):
    fleet = Fleet.of(tmp_path / "fleet", "a", "b", "c")
    with fleet:
        for cluster in fleet:
            create_topic(cluster.bootstrap, f"orders-{cluster.name}", 1, 1)
            produce(cluster.bootstrap, Load(f"orders-{cluster.name}", 10, 1, 100))
        yield fleet
    fleet.remove_data()


def canaries(fleet):
    """How many records each cluster's canary topic has."""
    return {cluster.name: sum(end_offsets(cluster.bootstrap, CANARY).values()) for cluster in fleet}


@pytest.mark.chaos
def test_canaries_do_not_circulate_both_ways_nor_around_a_ring_of_flows_in_two_files(ring, tmp_path):
    """No start sees the ring whole, and no other topic goes all the way around."""
    pair, rest = tmp_path / "pair.properties", tmp_path / "rest.properties"
    pair.write_text(ring.properties([("a", "b"), ("b", "a")], **_SETTINGS, topics="orders-[ab]"))
    rest.write_text(ring.properties([("b", "c"), ("c", "a")], **_SETTINGS, topics="orders-c"))
    flows = {("a", "b"): pair, ("b", "a"): pair, ("b", "c"): rest, ("c", "a"): rest}

    def running(name, properties):
        return MmtoolProcess(tmp_path / name, "replicate", "-c", str(properties), "--every", "1")

    with running("pair", pair) as first, running("rest", rest) as second:
        for process in (first, second):
            process.wait_line("caught_up", _PATIENCE_SECONDS)
        for (source, target), properties in flows.items():
            words = ("smoke", "-c", str(properties), "-s", source, "-t", target, "-o", "json")
            answer = run_mmtool(tmp_path / f"smoke-{source}{target}", *words)
            assert answer.code == 0, answer.stdout + answer.stderr
        # two at a, four at b and two at c were written, and each flow carries those of its source
        expected = {"a": 2 + 4 + 2, "b": 4 + 2, "c": 2 + 4}
        wait_until(lambda: canaries(ring) == expected, f"{expected}, not {canaries(ring)}", _PATIENCE_SECONDS)
        time.sleep(_STILL_SECONDS)
        assert canaries(ring) == expected
