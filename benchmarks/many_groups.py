"""Many groups moved on real brokers: how long translating and writing take, and whether what stands is right."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from busy import Others
from watched import ran

from kit.load import Load, Transactions, produce
from kit.lookups import flow_facts, groups_of
from mmtool.config import load_settings
from mmtool.insight.flow_now import connect
from mmtool.insight.translation import look, translate_groups
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.groups.offsets import Rules
from mmtool.plan.records.journal import JournalEntry
from mmtool.runtime.files import state_root
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kit.processes import Answer
    from mmtool.config import FlowSettings
    from mmtool.lab.fleet import Fleet

_TOPICS = 2
_RECORDS_PER_TRANSACTION = 500
_ABORT_EVERY = 10
_WRITERS = 8


@dataclass(frozen=True, slots=True)
class Size:
    """``groups`` that each hold a commit in every one of ``partitions``; so many transactions in each topic."""

    groups: int
    partitions: int
    transactions: int

    @property
    def offsets(self) -> int:
        return self.groups * self.partitions


def _steps(operation_id: str) -> dict[str, float]:
    """How long each step took, in seconds, by the journal's copy on this host."""
    found: dict[str, float] = {}
    began: dict[str, int] = {}
    for line in (state_root() / "journal" / f"{operation_id}.jsonl").read_bytes().splitlines():
        entry = JournalEntry.decode(line)
        step, state = entry.body.get("step"), entry.body.get("step_state")
        if state == "running":
            began[str(step)] = entry.at_ms
        elif state == "done":
            found[str(step)] = (entry.at_ms - began[str(step)]) / 1000
    return found


class ManyGroups:
    """Cluster a with topics full of holes, mirrored to b by ``mmtool replicate``, and the groups of a."""

    def __init__(self, fleet: Fleet, directory: Path, size: Size) -> None:
        self._fleet = fleet
        self._directory = directory
        self._size = size
        self._topics = [f"scale-{number}" for number in range(_TOPICS)]
        self._properties = directory / "scale.properties"
        extra = {"a->b.topics": "scale-.*", "a->b.groups": "scale-.*"}
        self._properties.write_text(fleet.properties([("a", "b")], **extra))
        self.peak_mib = self.emergency_mib = 0.0
        """Of the last command, and of the last emergency, with all their processes."""
        self.brokers = [broker.pid for cluster in fleet for broker in cluster.running()]

    def prepare(self) -> int:
        """Records in transactions, some aborted; their mirror; a commit of every group everywhere. How many runs."""
        for topic in self._topics:
            create_topic(self._fleet["a"].bootstrap, topic, self._size.partitions // _TOPICS)
        with ThreadPoolExecutor(_TOPICS) as pool:
            list(pool.map(self._fill, self._topics))
        self._mmtool("replicate", "--until-caught-up")
        self._commit()
        facts = flow_facts(self._properties, "a", "b").values()
        return sum(len(fact.map.runs) for fact in facts if fact.map is not None)

    def _fill(self, topic: str) -> None:
        how = Transactions(f"{topic}-writer", _RECORDS_PER_TRANSACTION, _ABORT_EVERY)
        records = self._size.transactions * _RECORDS_PER_TRANSACTION
        partitions = self._size.partitions // _TOPICS
        load = Load(topic, records, partitions, record_bytes=100, linger_ms=1.0, transactions=how)
        produce(self._fleet["a"].bootstrap, load)

    def _commit(self) -> None:
        """Anywhere between the log's start and its end, each group elsewhere."""
        chance, groups = random.Random(7), groups_of(self._fleet["a"].bootstrap)
        ends = self._ends()
        wanted = {
            f"scale-{number:04}": {place: Commit(chance.randint(0, end)) for place, end in ends.items()}
            for number in range(self._size.groups)
        }
        with ThreadPoolExecutor(_WRITERS) as pool:
            problems = list(pool.map(groups.alter, wanted, wanted.values()))
        assert not any(problems), problems

    def _ends(self) -> Mapping[TopicPartition, int]:
        return {
            TopicPartition(topic, partition): end
            for topic in self._topics
            for partition, end in end_offsets(self._fleet["a"].bootstrap, topic).items()
        }

    def translated(self) -> Others:
        """What ``translate-offsets`` asks and answers, from the first question on, with everything imported."""
        flow = self._flow()
        with Others(self.brokers) as took:
            clusters = connect(flow, timedelta(seconds=30), beside_mm2=True)
            found = translate_groups(look(clusters), GroupSelection(everything=True), Rules())
        answers = sum(verdict.answer is not None for plan in found.plans for verdict in plan.verdicts)
        assert answers == self._size.offsets, answers
        return took

    def _flow(self) -> FlowSettings:
        (flow,) = load_settings(self._properties, {}).select("a", "b")
        return flow

    def rehearsed(self) -> Others:
        """The command as an operator types it first, from its start to its end."""
        took, answer = self._timed("translate-offsets", "--all-groups", "-o", "json")
        exact = [row for row in answer.rows if row["exactness"] == "exact"]
        assert len(exact) == self._size.offsets, answer.said[-5:]
        return took

    def written(self) -> Others:
        """The same with its consent: commits on b, each read back by another client; and then by this process.

        Raises:
            AssertionError: A group does not stand where its row says.
        """
        took, answer = self._timed("translate-offsets", "--all-groups", "--execute", "--yes", "-o", "json")
        told: dict[str, dict[TopicPartition, object]] = {}
        for row in answer.rows:
            place = TopicPartition(str(row["target_topic"]), int(str(row["partition"])))
            told.setdefault(str(row["group"]), {})[place] = row["written"] and row["downstream_offset"]
        stand = groups_of(self._fleet["b"].bootstrap).commits(told)
        offsets = {g: {place: commit.offset for place, commit in of.items()} for g, of in stand.items()}
        assert offsets == told
        assert sum(map(len, told.values())) == self._size.offsets
        return took

    def told(self) -> None:
        """The last commits of all groups are on b, as checkpoints."""
        self._mmtool("replicate", "--until-caught-up")

    def failed_over(self) -> tuple[Others, Others, dict[str, float]]:
        """``failover emergency`` while a hangs, then its rollback; and what each step of the first took, in seconds.

        Raises:
            AssertionError: A group does not stand where its row says.
        """
        a = self._fleet["a"]
        for broker in a.running():
            a.pause_broker(broker.broker)
        words = ("emergency", "--all-groups", "--accept-data-loss", "--execute", "--yes", "-o", "json")
        took, answer = self._timed("failover", *words)
        self.emergency_mib = self.peak_mib
        for broker in a.running():
            a.resume_broker(broker.broker)
        (row,) = answer.rows
        groups: Any = row["groups"]
        partitions = [(group["group"], at) for group in groups for at in group["partitions"]]
        told = {(g, at["target_topic"], at["partition"]): at["downstream_offset"] for g, at in partitions}
        stand = groups_of(self._fleet["b"].bootstrap).commits({group for group, _ in partitions})
        assert {(g, *at): c.offset for g, of in stand.items() for at, c in of.items()} == told
        assert len(told) == self._size.offsets
        name = str(row["operation_id"])
        undone, _ = self._timed("failover", "rollback", name, "--execute", "--yes")
        assert not any(
            groups_of(self._fleet["b"].bootstrap).commits({group for group, _ in partitions}).values()
        )
        return took, undone, _steps(name)

    def _timed(self, *command: str) -> tuple[Others, Answer]:
        with Others(self.brokers) as took:
            answer = self._mmtool(*command)
        took.seconds = answer.seconds  # without the check of its document, which takes seconds
        return took, answer

    def shown(self) -> tuple[Others, float]:
        """``status --groups`` of all groups as JSON, and the peak memory of the command in MiB."""
        took, answer = self._timed("status", "--groups", "-o", "json")
        assert len({row["group"] for row in answer.rows if row.get("group")}) >= self._size.groups, (
            answer.rows[:3]
        )
        return took, self.peak_mib

    def _mmtool(self, *command: str) -> Answer:
        answer, self.peak_mib = ran(self._directory, self._properties, *command)
        return answer
