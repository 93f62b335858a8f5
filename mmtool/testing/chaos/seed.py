"""One seed: a flow under load, its faults, then heal, then both sides read to the end and judged."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmtool.errors import GateError
from mmtool.lab.records import numbered
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.lab.waiting import wait_until
from mmtool.lab.working_group import WorkingGroup
from mmtool.testing.chaos.anomalies import Anomaly, BothLogs, Committed, Seen, of_group, of_records
from mmtool.testing.chaos.doing import Doing, Keeper
from mmtool.testing.chaos.group import Watcher
from mmtool.testing.chaos.schedule import Side, schedule_of
from mmtool.testing.exactness import stored_maps, wrong_translations
from mmtool.testing.replicating import Bench
from mmtool.testing.writers import RunningWriter
from mmtool.translation.known import UNKNOWN
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from pathlib import Path

    from mmtool.lab.topics import Record
    from mmtool.testing.chaos.place import Place
    from mmtool.testing.chaos.schedule import Schedule

PARTITIONS = 3
RECORDS_PER_SECOND = 150.0
READ_PER_SECOND = 60.0
TRANSACTION = 12
PATIENCE_SECONDS = 30.0
"""A flow goes on by itself within that of the last cause's end."""

START_SECONDS = 60.0
STOP_SECONDS = 5.0
_STOPPED = 143
_SETTINGS = {
    "source->target.sync.group.offsets.enabled": "true",
    "source->target.sync.group.offsets.interval.seconds": "1",
    "source->target.emit.checkpoints.interval.seconds": "1",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed ended.

    Attributes:
        failures: Everything that must not be; empty where it passed.
        recovered_seconds: From the end of the last fault until both sides held the same; None when they never did.
        stop_seconds: What a clean stop took.
        starts: How often the command was started.
    """

    seed: int
    schedule: Schedule
    failures: Sequence[str]
    records: int
    offsets_proven: int
    glances: int
    recovered_seconds: float | None
    stop_seconds: float
    starts: int
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.failures

    def row(self) -> dict[str, Any]:
        """For the log."""
        return {
            "seed": self.seed,
            "passed": self.passed,
            "failures": list(self.failures),
            "from_the_start": self.schedule.from_the_start,
            "faults": [str(fault) for fault in self.schedule.faults],
            "records": self.records,
            "offsets_proven": self.offsets_proven,
            "group_glances": self.glances,
            "recovered_seconds": self.recovered_seconds,
            "stop_seconds": round(self.stop_seconds, 1),
            "starts": self.starts,
            "seconds": round(self.seconds, 1),
        }


class SeedRun:
    """Topics, writers and a group of its own for one seed, on clusters that seeds share.

    Args:
        place: The clusters, all well.
        directory: For files of this run.
        seed: What is drawn from.
    """

    def __init__(self, place: Place, directory: Path, seed: int) -> None:
        self._place, self._seed = place, seed
        stem = f"seed-{seed}-{time.monotonic_ns()}"
        self.topics, self.group = [f"{stem}-plain", f"{stem}-tx"], f"{stem}-app"
        self._source, self._target = (place.cluster(side) for side in (Side.SOURCE, Side.TARGET))
        self._bench = Bench(place.fleet, directory)
        directory.mkdir(parents=True, exist_ok=True)
        links = {f"{side}.bootstrap.servers": place.bootstrap(side) for side in (Side.SOURCE, Side.TARGET)}
        self._properties = self._bench.properties(f"{stem}-.*", **_SETTINGS, **links)
        self._flow = self._bench.flow(self._bench.properties(f"{stem}-.*"))  # past the links, for who judges

    def run(self) -> Outcome:
        """From the first record to the verdict; at its end everything is well again."""
        began = time.monotonic()
        schedule = schedule_of(self._seed)
        for topic in self.topics:
            create_topic(self._source.bootstrap, topic, PARTITIONS)
        with Keeper(lambda: self._bench.start(self._properties)) as keeper, self._watcher() as watcher:
            with self._load():
                if not schedule.from_the_start:
                    self._wait_until_it_moves()
                with Doing(schedule.faults, self._place, keeper):
                    pass
                healed = time.monotonic()
            failures, recovered = self._recovered(watcher, healed)
            code, stop_seconds = keeper.stop()
        failures += self._ended(code, stop_seconds, keeper.said)
        found, records = self._anomalies(watcher)
        asked, wrong = wrong_translations(self._flow, self._source, self._target, self.topics)
        failures += [f"{kind}: {', '.join(map(str, some))}" for kind, some in _by_kind(found).items()]
        failures += [f"translated wrongly: {one}" for one in wrong[:3]]
        return Outcome(
            self._seed,
            schedule,
            failures,
            records,
            asked,
            sum(map(len, watcher.seen.values())),
            recovered,
            stop_seconds,
            keeper.starts,
            time.monotonic() - began,
        )

    def _wait_until_it_moves(self) -> None:
        remotes = [self._flow.remote_topic(topic) for topic in self.topics]

        def moves() -> bool:
            return all(any(end_offsets(self._target.bootstrap, remote).values()) for remote in remotes)

        wait_until(moves, "the first records", START_SECONDS)

    def _watcher(self) -> Watcher:
        remotes = {
            TopicPartition(topic, p): TopicPartition(self._flow.remote_topic(topic), p)
            for topic in self.topics
            for p in range(PARTITIONS)
        }
        return Watcher(self._source.bootstrap, self._target.bootstrap, self.group, remotes)

    def _load(self) -> _Load:
        return _Load(self._source.bootstrap, self.topics, self.group)

    def _recovered(self, watcher: Watcher, healed: float) -> tuple[list[str], float | None]:
        """Until the target holds all, and the group is where it is at home."""
        patience = PATIENCE_SECONDS * _load_factor()
        try:
            wait_until(lambda: self._is_even(watcher), "both sides are even", patience)
        except GateError:
            return [f"not even {patience:.0f} s after the last fault"], None
        return [], round(time.monotonic() - healed, 1)

    def _is_even(self, watcher: Watcher) -> bool:
        there, home = watcher.now()
        logs = self._logs()
        expected = {at: _truth(logs[at], offset) for at, offset in home.items() if at in logs}
        return there == expected and all(len(one.source) <= len(one.target) for one in logs.values())

    def _ended(self, code: int, stop_seconds: float, said: Sequence[str]) -> list[str]:
        failures = []
        if code != _STOPPED:
            failures.append(f"the clean stop ended with {code}")
        if stop_seconds > STOP_SECONDS * _load_factor():
            failures.append(f"the clean stop took {stop_seconds:.1f} s")
        if any("Traceback" in one for one in said):
            failures.append("a traceback was shown")
        if any("diverged" in one for one in said):
            failures.append("a partition was taken for diverged")
        return failures

    def _logs(self) -> dict[TopicPartition, BothLogs]:
        """Both sides of every partition, without what the mirror claims."""
        return {place: one for topic in self.topics for place, one in self._logs_of(topic).items()}

    def _logs_of(self, topic: str) -> dict[TopicPartition, BothLogs]:
        home, remote = self._source.bootstrap, self._flow.remote_topic(topic)
        committed = read_topic(home, topic)
        everything = read_topic(home, topic, isolation="read_uncommitted")
        is_there = bool(end_offsets(self._target.bootstrap, remote))
        there = read_topic(self._target.bootstrap, remote, isolation="read_uncommitted") if is_there else []
        return {
            TopicPartition(topic, p): BothLogs(
                TopicPartition(topic, p),
                _seen(committed, p),
                frozenset(_identities(everything, p) - _identities(committed, p)),
                _seen(there, p),
            )
            for p in range(PARTITIONS)
        }

    def _anomalies(self, watcher: Watcher) -> tuple[list[Anomaly], int]:
        maps = stored_maps(self._flow, self._source, self._target)
        logs, found = self._logs(), []
        for place, one in logs.items():
            claimed = maps[place].upstream_frontier if place in maps else UNKNOWN
            found += of_records(BothLogs(one.place, one.source, one.aborted, one.target, claimed))
        for place, one in logs.items():
            remote = TopicPartition(self._flow.remote_topic(place.topic), place.partition)
            glances = [
                Committed(g.offset, _truth(one, g.upstream), g.end) for g in watcher.seen.get(remote, ())
            ]
            found += of_group(remote, glances)
        return found, sum(len(one.source) for one in logs.values())


class _Load:
    """Writers that outlive their broker, and a group that reads behind them; a context manager."""

    def __init__(self, bootstrap: str, topics: Sequence[str], group: str) -> None:
        plain, tx = topics
        self._writers = [
            RunningWriter(bootstrap, plain, PARTITIONS, RECORDS_PER_SECOND, tolerant=True),
            RunningWriter(
                bootstrap, tx, PARTITIONS, RECORDS_PER_SECOND / 3, transactions=TRANSACTION, tolerant=True
            ),
        ]
        self._group = WorkingGroup(bootstrap, group, topics, READ_PER_SECOND)

    def __enter__(self) -> None:
        with ExitStack() as stack:
            for writer in self._writers:
                stack.enter_context(writer)
            stack.enter_context(self._group)
            for writer in self._writers:
                stack.callback(writer.ask_to_stop)
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _seen(records: Sequence[Record], partition: int) -> list[Seen]:
    return [
        Seen(r.offset, _identity(r), (r.key, r.value, r.headers, r.timestamp_ms))
        for r in records
        if r.partition == partition
    ]


def _identities(records: Sequence[Record], partition: int) -> set[Hashable]:
    return {_identity(record) for record in records if record.partition == partition}


def _identity(record: Record) -> Hashable:
    return numbered(record.value or b"")


def _truth(logs: BothLogs, upstream: int) -> int:
    """Where a commit of the source leads: the first record that was not read, or behind the last one."""
    at = {one.identity: one.offset for one in logs.target}
    unread = next((one for one in logs.source if one.offset >= upstream), None)
    if unread is not None and unread.identity in at:
        return at[unread.identity]
    return logs.target[-1].offset + 1 if logs.target else 0


def _by_kind(found: Sequence[Anomaly]) -> Mapping[str, Sequence[Anomaly]]:
    counts = Counter(one.kind for one in found)
    return {
        f"{count} {kind}": [one for one in found if one.kind is kind][:3] for kind, count in counts.items()
    }


def _load_factor() -> float:
    """1 on a machine that has time for it: what else it does is no fault of the command's."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
