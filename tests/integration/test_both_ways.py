"""Identical names both ways: two clusters share topics, both are written to, and each record crosses once."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import timedelta

import numpy as np
import pytest

from mmtool.commands._wiring import connect
from mmtool.config import load_settings
from mmtool.insight.translation import look, partition_facts
from mmtool.lab.checker import compare_histories, histories
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.lab.waiting import wait_until
from mmtool.plan.offsets import Direction, answer_forward
from mmtool.testing.processes import MmtoolProcess
from mmtool.testing.writers import RunningWriter
from mmtool.translation.answers import Bounded, Exact
from mmtool.translation.types import TopicPartition, UpstreamOffset

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

    def facts(self, here, there):
        """What translate-offsets knows of each partition of a flow."""
        settings = load_settings(self.properties, {})
        (flow,) = settings.select(here, there)
        return partition_facts(look(connect(flow, timedelta(seconds=20)), self.topics), Direction.FORWARD)


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


@pytest.mark.parametrize(("here", "there"), [("source", "target"), ("target", "source")])
def test_no_commit_of_either_side_skips_a_record_or_re_reads_more_than_is_said(pair, here, there):
    """Every offset of every partition, by what translate-offsets asks, held against the records themselves."""
    wrong, exact, asked = [], 0, 0
    facts = pair.facts(here, there)
    for topic in pair.topics:
        ours, theirs = (by_partition(read_topic(pair.fleet[s].bootstrap, topic)) for s in (here, there))
        for partition in range(_PARTITIONS):
            place = TopicPartition(topic, partition)
            known, over_there = facts[place], {value: offset for offset, value in theirs[partition]}
            offsets = np.array([offset for offset, _ in ours[partition]])
            places = np.array([over_there[value] for _, value in ours[partition]])
            for commit in range(known.source_log.log_end + 1):
                answer = answer_forward(known, UpstreamOffset(commit), known.target_log)
                most = answer.reread_max if isinstance(answer, Bounded) else 0
                skipped = (places[offsets >= commit] < answer.offset).sum()
                again = (places[offsets < commit] >= answer.offset).sum()
                asked, exact = asked + 1, exact + isinstance(answer, Exact)
                if skipped or again > most:
                    wrong.append((place, commit, answer, skipped, again))
    assert not wrong, f"{len(wrong)} of {asked}: {wrong[:3]}"
    assert exact > 0


def test_a_group_that_has_read_all_of_one_side_re_reads_nothing_on_the_other(pair):
    for here, there in (("source", "target"), ("target", "source")):
        for known in pair.facts(here, there).values():
            end = UpstreamOffset(known.source_log.log_end)
            answer = answer_forward(known, end, known.target_log)
            assert isinstance(answer, Exact), (here, known.source, answer, known.target_log)


def by_partition(records):
    """(offset, value) of each partition; values are unique."""
    found = {partition: [] for partition in range(_PARTITIONS)}
    for record in records:
        found[record.partition].append((record.offset, record.value))
    return found
