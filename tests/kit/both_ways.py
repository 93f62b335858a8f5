"""A stage for identical names both ways: topics that both clusters share, written to on both sides, and the verdict."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from kit.exactness import most_again
from kit.lookups import flow_facts
from kit.processes import MmtoolProcess
from kit.writers import RunningWriter
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import compare_histories, create_topic, end_offsets, histories, read_topic
from mmtool.plan.groups.offsets import answer_forward
from mmtool.translation.answers import Answer, Exact, Refused
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mmtool.lab.fleet import Fleet
    from mmtool.plan.groups.offsets import PartitionFacts

SIDES = ("source", "target")
_BYTES = {"source": 300, "target": 310}  # tells where a record was born
_SECONDS = 20.0
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A commit whose answer skips records, or re-reads more of them than it says."""

    place: TopicPartition
    commit: int
    answer: Answer
    skipped: int
    read_again: int


@dataclass
class Pair:
    """The clusters ``source`` and ``target`` of a fleet, with three topics of one name on both.

    One is repacked by its brokers (``compression.type``), and one is written to in transactions on one side.
    """

    fleet: Fleet
    directory: Path
    partitions: int = 2
    records_per_second: float = 150.0
    more: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prefix = f"pair-{os.getpid()}-{next(_numbers)}"
        self.transactional = f"{prefix}-tx"
        self.topics: dict[str, dict[str, str]] = {
            f"{prefix}-plain": {},
            f"{prefix}-repacked": {"compression.type": "gzip"},
            self.transactional: {},
        }
        self.properties = self.directory / "mm2.properties"
        settings = {
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "topics": f"{prefix}-.*",
            "heartbeats.replication.enabled": "false",
            "refresh.topics.interval.seconds": "2",
            **self.more,
        }
        flows = [("source", "target"), ("target", "source")]
        self.properties.write_text(self.fleet.properties(flows, **settings))

    def create_topics(self) -> None:
        for side in SIDES:
            for topic, configs in self.topics.items():
                create_topic(self.fleet[side].bootstrap, topic, self.partitions, 1, **configs)

    def writers(self) -> ExitStack:
        """A running producer for each topic and side; they end with the context."""
        with ExitStack() as writing:
            for side in SIDES:
                for topic in self.topics:
                    writing.enter_context(self._writer(side, topic))
            return writing.pop_all()

    def _writer(self, side: str, topic: str) -> RunningWriter:
        transactions = 7 if (topic, side) == (self.transactional, "source") else 0
        rate = self.records_per_second / (3 if transactions else 1)
        bootstrap = self.fleet[side].bootstrap
        return RunningWriter(bootstrap, topic, self.partitions, rate, transactions, record_bytes=_BYTES[side])

    def replicate(self, *options: str) -> MmtoolProcess:
        """``mmtool replicate``; without ``-s`` and ``-t`` one process mirrors both ways."""
        arguments = ("replicate", "-c", str(self.properties), "--every", "1", *options)
        return MmtoolProcess(self.directory / f"run-{next(_numbers)}", *arguments)

    def ends(self) -> dict[tuple[str, str, int], int]:
        """Log ends by side, topic and partition."""
        return {
            (side, topic, partition): end
            for side in SIDES
            for topic in self.topics
            for partition, end in end_offsets(self.fleet[side].bootstrap, topic).items()
        }

    def wait_for_growth(self, seconds: float) -> None:
        """Until each partition is longer by 50 records on both sides."""
        before = self.ends()
        wait_until(
            lambda: all(end > before[place] + 50 for place, end in self.ends().items()),
            "records of both sides on both sides",
            seconds,
        )

    def wait_until_equal(self, seconds: float) -> None:
        """Until both sides hold the same; the writers have stopped.

        Raises:
            GateError: they do not.
        """
        wait_until(lambda: not self.differences(), "both sides to hold the same", seconds)

    def differences(self) -> dict[str, str]:
        """Partitions where records of one birthplace are not the same, in the same order, on both sides."""
        found: dict[str, str] = {}
        for topic in self.topics:
            read = {side: read_topic(self.fleet[side].bootstrap, topic) for side in SIDES}
            for home, away in (SIDES, SIDES[::-1]):
                here, there = (
                    histories(r for r in read[side] if len(r.value or b"") == _BYTES[home])
                    for side in (home, away)
                )
                found |= {
                    f"{topic}-{p}, born at {home}": str(verdict)
                    for p, verdict in compare_histories(here, there).items()
                    if not verdict.is_identical
                }
        return found

    def wrong_answers(self, here: str, there: str) -> tuple[int, int, list[WrongAnswer]]:
        """Every commit of every partition: how many were asked, how many were exact, and the wrong ones.

        The truth comes from reading both sides, which hold the same records.
        """
        facts = flow_facts(self.properties, here, there, self.topics)
        asked = exact = 0
        wrong: list[WrongAnswer] = []
        for topic in self.topics:
            ours, theirs = (self._offsets(side, topic) for side in (here, there))
            for partition in range(self.partitions):
                known = facts[TopicPartition(topic, partition)]
                offsets = np.array(list(ours[partition].values()))
                places = np.array([theirs[partition][value] for value in ours[partition]])
                for commit, answer in _answers(known):
                    asked, exact = asked + 1, exact + isinstance(answer, Exact)
                    found = _judged(known.source, commit, answer, offsets, places)
                    wrong += [found] if found is not None else []
        return asked, exact, wrong

    def _offsets(self, side: str, topic: str) -> dict[int, dict[bytes, int]]:
        """By partition, where each record lies; no two are equal."""
        found: dict[int, dict[bytes, int]] = {partition: {} for partition in range(self.partitions)}
        for record in read_topic(self.fleet[side].bootstrap, topic):
            found[record.partition][record.value or b""] = record.offset
        return found


def _answers(known: PartitionFacts) -> list[tuple[int, Answer]]:
    assert known.source_log is not UNKNOWN
    assert known.target_log is not UNKNOWN
    return [
        (commit, answer_forward(known, UpstreamOffset(commit), known.target_log))
        for commit in range(known.source_log.log_end + 1)
    ]


def _judged(
    place: TopicPartition, commit: int, answer: Answer, offsets: np.ndarray, places: np.ndarray
) -> WrongAnswer | None:
    if isinstance(answer, Refused):
        return WrongAnswer(place, commit, answer, 0, 0)
    skipped = int((places[offsets >= commit] < answer.offset).sum())
    again = int((places[offsets < commit] >= answer.offset).sum())
    if not skipped and again <= most_again(answer):
        return None
    return WrongAnswer(place, commit, answer, skipped, again)
