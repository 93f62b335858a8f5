"""Identical names both ways: two clusters share topics, both are written to, and each record crosses once."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from mmtool.lab.checker import compare_histories, histories
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.lab.waiting import wait_until
from mmtool.testing.processes import MmtoolProcess
from mmtool.testing.writers import RunningWriter

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_BYTES = {"source": 300, "target": 310}  # tells where a record was born
_PARTITIONS = 2
_RATE = 150.0
_PATIENCE_SECONDS = 60.0


class Pair:
    """Topics of one name on both clusters, with a writer on each side, and one process that mirrors both ways."""

    def __init__(self, fleet, directory):
        self.fleet, self.directory = fleet, directory
        prefix = f"pair-{os.getpid()}"
        self.topics = {f"{prefix}-plain": {}, f"{prefix}-repacked": {"compression.type": "gzip"}}
        self.transactional = f"{prefix}-tx"
        self.topics[self.transactional] = {}
        self.properties = directory / "mm2.properties"
        self.properties.write_text(
            fleet.properties(
                [("source", "target"), ("target", "source")],
                **{
                    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
                    "topics": f"{prefix}-.*",
                    "heartbeats.replication.enabled": "false",
                    "refresh.topics.interval.seconds": "2",
                },
            )
        )
        self._processes = 0

    def create_topics(self):
        for side, (topic, configs) in ((s, t) for s in _BYTES for t in self.topics.items()):
            create_topic(self.fleet[side].bootstrap, topic, _PARTITIONS, **configs)

    def writers(self):
        with ExitStack() as writing:
            found = [self._writer(side, topic) for side in _BYTES for topic in self.topics]
            for writer in found:
                writing.enter_context(writer)
            return writing.pop_all()

    def _writer(self, side, topic):
        transactions = 7 if (topic, side) == (self.transactional, "source") else 0
        rate = _RATE / 3 if transactions else _RATE
        bootstrap = self.fleet[side].bootstrap
        return RunningWriter(bootstrap, topic, _PARTITIONS, rate, transactions, record_bytes=_BYTES[side])

    def replicate(self):
        self._processes += 1
        arguments = ("replicate", "-c", str(self.properties), "--every", "1")
        return MmtoolProcess(self.directory / f"run-{self._processes}", *arguments)

    def ends(self):
        return {side: {t: end_offsets(self.fleet[side].bootstrap, t) for t in self.topics} for side in _BYTES}

    def wait_for_crossings(self):
        """Until each partition of each topic has got longer on both sides by more than its own writer writes."""
        before = self.ends()

        def moved():
            now = self.ends()
            return all(
                now[side][topic][p] > before[side][topic][p] + 50
                for side in _BYTES
                for topic in self.topics
                for p in range(_PARTITIONS)
            )

        wait_until(moved, "records of both sides on both sides", _PATIENCE_SECONDS)

    def differences(self):
        """Partitions where records of one birthplace are not the same, in the same order, on both sides."""
        found = {}
        for topic in self.topics:
            read = {side: read_topic(self.fleet[side].bootstrap, topic) for side in _BYTES}
            for home, away in (("source", "target"), ("target", "source")):
                here, there = (
                    histories(r for r in read[side] if len(r.value) == _BYTES[home]) for side in (home, away)
                )
                found |= {
                    f"{topic}-{p}, born at {home}": str(verdict)
                    for p, verdict in compare_histories(here, there).items()
                    if not verdict.is_identical
                }
        return found


@pytest.fixture(scope="module")
def pair(fleet, tmp_path_factory):
    """A pair that was written to on both sides, whose mirrors were killed at once and started again."""
    pair = Pair(fleet, tmp_path_factory.mktemp("pair"))
    pair.create_topics()
    writing = pair.writers()
    with writing:
        with pair.replicate() as first:
            pair.wait_for_crossings()
            first.kill_all()
        with pair.replicate() as second:
            pair.wait_for_crossings()
            writing.close()
            wait_until(lambda: not pair.differences(), "both sides to hold the same", _PATIENCE_SECONDS)
            answer = second.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
    return pair


def test_every_record_is_on_both_sides_once_and_in_order(pair):
    assert pair.differences() == {}
