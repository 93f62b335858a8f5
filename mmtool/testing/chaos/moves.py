"""One operation on groups under a seed's faults: begun, begun again or resumed until it is done; then judged.

Whoever runs it does what the screen says, and nothing else: where it names an operation to resume, that; else the same
line again.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mmtool.kafka.log_reader import read_log
from mmtool.lab.applications import consume
from mmtool.lab.load import Load, produce
from mmtool.lab.records import numbered
from mmtool.lab.waiting import patience, wait_until
from mmtool.lab.worker import Worker
from mmtool.plan.group_facts import Commit
from mmtool.testing.chaos.doing import Doing, Keeper
from mmtool.testing.chaos.judge import wrong_places
from mmtool.testing.chaos.linked_flow import PARTITIONS, LinkedFlow
from mmtool.testing.chaos.schedule import schedule_of
from mmtool.testing.chaos.sides import first_unread
from mmtool.testing.lookups import groups_of
from mmtool.testing.processes import run_mmtool
from mmtool.translation.mm2_records import Checkpoint, decode_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mmtool.testing.chaos.anomalies import BothLogs
    from mmtool.testing.chaos.place import Place
    from mmtool.testing.chaos.schedule import Schedule
    from mmtool.testing.processes import Answer
    from mmtool.translation.types import TopicPartition

RECORDS, GROUPS = 900, 6
START_SECONDS = 60.0
_A_SECOND = 3_000.0  # a throttled load is dealt out evenly
PATIENCE_SECONDS = 90.0
"""From the last fault's end until it is done: a hang in the middle of a write is told of after 40 to 60 s."""

_SETTINGS = {"source->target.emit.checkpoints.interval.seconds": "1"}
_SAID = frozenset({3, 4, 6, 7, 9, 10})
"""Ends that the contract knows of for what the faults do."""
_RESUME = re.compile(r"mmtool failover resume (?:\(or cancel\) )?([\w-]*\d[\w-]*)")


class Move(StrEnum):
    """What is done under faults."""

    PLANNED = "failover planned"
    EMERGENCY = "failover emergency"
    TRANSLATE = "translate-offsets"
    SYNC = "groups sync"


_MORE = {
    Move.PLANNED: ("--execute", "--yes"),
    Move.EMERGENCY: ("--accept-data-loss", "--execute", "--yes"),
    Move.TRANSLATE: ("--execute", "--yes"),
    Move.SYNC: ("--once",),
}


@dataclass
class MoveOutcome:
    """How it ended.

    Attributes:
        tries: What was typed, and how it ended.
        failures: Everything that must not be; empty where it passed.
        done_seconds: From the end of the last fault until it was done; 0 where it was done before.
    """

    seed: int
    move: Move
    schedule: Schedule
    tries: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    done_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures

    def row(self) -> dict[str, Any]:
        """For the log."""
        return {
            "seed": self.seed,
            "move": str(self.move),
            "passed": self.passed,
            "failures": self.failures,
            "faults": [str(fault) for fault in self.schedule.faults],
            "tries": self.tries,
            "done_seconds": round(self.done_seconds, 1),
            "seconds": round(self.seconds, 1),
        }


class MoveRun:
    """A topic and groups of its own, on clusters that seeds share; which operation it is the seed says.

    Args:
        place: The clusters, all well.
        directory: For files of this run.
        seed: What is drawn from.
    """

    def __init__(self, place: Place, directory: Path, seed: int) -> None:
        self._place, self._directory = place, directory
        self.outcome = MoveOutcome(seed, tuple(Move)[seed % len(Move)], schedule_of(seed))
        self.topic = f"move-{seed}-{time.monotonic_ns()}"
        self._flow = LinkedFlow(place, directory, self.topic, [self.topic], _SETTINGS)
        self._healed_at: float | None = None

    @cached_property
    def groups(self) -> dict[str, int]:
        """What each has read of each partition."""
        return {f"{self.topic}-{n}": n * RECORDS // PARTITIONS // GROUPS for n in range(1, GROUPS + 1)}

    def run(self) -> MoveOutcome:
        """From the first record to the verdict; at its end everything is well again."""
        began = time.monotonic()
        self._fill()
        group = max(self.groups, key=self.groups.__getitem__)
        with Keeper(self._flow.start) as keeper:
            wait_until(self._is_mirrored, "the mirror", START_SECONDS)
            wait_until(self._is_told, "checkpoints of every group", START_SECONDS)
            with self._flow.watcher(group) as watcher, Worker("faults", lambda: self._faults(keeper)):
                self._until_done()
        logs = self._flow.sides.logs()
        self.outcome.failures += [*map(str, wrong_places(logs, watcher.seen)), *self._stands_wrong(logs)]
        self.outcome.failures += self._read_wrong(logs, group)
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _fill(self) -> None:
        self._flow.create_topics()
        load = Load(self.topic, RECORDS, PARTITIONS, 200, records_per_second=_A_SECOND)
        produce(self._flow.source.bootstrap, load)
        here = groups_of(self._flow.source.bootstrap)
        for group, read in self.groups.items():
            assert here.alter(group, {place: Commit(read) for place in self._flow.places}) == {}

    def _is_mirrored(self) -> bool:
        maps = self._flow.maps()
        return all(
            place in maps and maps[place].upstream_frontier * PARTITIONS >= RECORDS
            for place in self._flow.places
        )

    def _is_told(self) -> bool:
        """What an emergency goes by."""
        flow = self._flow.settings
        topic = flow.policy.checkpoints_topic(flow.source.alias)
        found = [decode_checkpoint(record.key, record.value) for record in read_log(flow.target, topic)]
        return self.groups.keys() <= {one.group for one in found if isinstance(one, Checkpoint)}

    def _faults(self, keeper: Keeper) -> None:
        Doing(self.outcome.schedule.faults, self._place, keeper).run()
        self._healed_at = time.monotonic()

    def _until_done(self) -> None:
        line = (*self.outcome.move.split(), "--groups", f"{self.topic}-.*", *_MORE[self.outcome.move])
        words: Sequence[str] = line
        while True:
            number = len(self.outcome.tries)
            more = ("-c", str(self._flow.properties), "--timeout", "8s", "-o", "json")
            answer = run_mmtool(self._directory / f"try-{number}", *words, *more)
            self.outcome.tries.append(f"{answer.code} after {answer.seconds:.1f} s{_why(answer)}")
            healed = self._healed_at
            if answer.code == 0 or self._gives_up(answer, healed):
                self.outcome.done_seconds = 0.0 if healed is None else time.monotonic() - healed
                return
            found = _RESUME.search(answer.stderr)
            words = ("failover", "resume", found.group(1), "--execute", "--yes") if found else line

    def _gives_up(self, answer: Answer, healed: float | None) -> bool:
        if "Traceback" in answer.stderr or answer.code not in _SAID:
            self.outcome.failures.append(f"ended with {answer.code}: {answer.said[-1:]}")
            return True
        late = healed is not None and time.monotonic() - healed > patience(PATIENCE_SECONDS)
        if late:
            self.outcome.failures.append(
                f"not done {PATIENCE_SECONDS:.0f} s after the last fault: {answer.said[-2:]}"
            )
        return late

    def _wanted(self, logs: Mapping[TopicPartition, BothLogs], read: int) -> dict[TopicPartition, int]:
        return {remote: first_unread(logs[place], read) for place, remote in self._flow.places.items()}

    def _stands_wrong(self, logs: Mapping[TopicPartition, BothLogs]) -> list[str]:
        """Every group in every partition where it had stopped: none moved in part."""
        there = groups_of(self._flow.target.bootstrap).commits(list(self.groups))
        failures = []
        for group, read in self.groups.items():
            found = {place: commit.offset for place, commit in there[group].items()}
            wanted = self._wanted(logs, read)
            if found != wanted:
                failures.append(f"{group} stands at {sorted(found.values())}, not {sorted(wanted.values())}")
        return failures

    def _read_wrong(self, logs: Mapping[TopicPartition, BothLogs], group: str) -> list[str]:
        """An application goes on where it stopped: it reads what it had not read, once."""
        there = consume(self._flow.target.bootstrap, group, [self._flow.remotes[self.topic]])
        after = sorted(numbered(record.value or b"") for record in there)
        left = sorted(
            one.identity
            for each in logs.values()
            for one in each.source
            if one.offset >= self.groups[group]  # type: ignore[type-var]  # pairs of numbers, as the lab writes them
        )
        if after == left:
            return []
        return [f"{group} read {len(after)} records then, not the {len(left)} that were left"]


def _why(answer: Answer) -> str:
    error = next((line for line in answer.said if line.startswith("error: ")), "")
    return "" if answer.code == 0 else f": {error[:160]}"
