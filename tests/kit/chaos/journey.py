"""Groups that an operation moves from one cluster to the other: where each had stopped, where it stands then."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from kit.chaos.group import Watcher
from kit.chaos.judge import wrong_places, wrong_records
from kit.chaos.linked_flow import PARTITIONS, LinkedFlow
from kit.chaos.sides import Sides, first_unread
from kit.consumers import consume
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.tail_files import exported_records
from mmtool.lab.records import numbered
from mmtool.plan.groups.facts import Commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kit.chaos.judge import Glances, Logs
    from kit.chaos.place import Place
    from mmtool.translation.types import TopicPartition

RECORDS, GROUPS, TAIL = 900, 6, 60
"""Of the topic, of the flow, and of what home has when it is back that nobody had seen."""

_SETTINGS = {"source->target.emit.checkpoints.interval.seconds": "1"}
_A_SECOND = 3_000.0  # a throttled load is dealt out evenly
_EACH = RECORDS // PARTITIONS
_STEP = _EACH // GROUPS


@dataclass(frozen=True)
class Stop:
    """Where groups had stopped on the cluster that they leave.

    Attributes:
        origin: Bootstrap servers of that cluster.
        destination: Of the other one.
        places: The destination's partitions by the origin's.
        read: What each group has committed on the origin.
        ends: Of the origin's partitions; what comes behind is none of theirs.
    """

    origin: str
    destination: str
    places: Mapping[TopicPartition, TopicPartition]
    read: Mapping[str, Mapping[TopicPartition, int]]
    ends: Mapping[TopicPartition, int]


class Journey:
    """One topic of a flow, and groups at different places of it; the last has read all.

    Args:
        place: The clusters, all well.
        directory: For files of this run.
        topic: That nobody else has.
    """

    def __init__(self, place: Place, directory: Path, topic: str) -> None:
        self.topic = topic
        self.flow = LinkedFlow(place, directory, topic, [topic], _SETTINGS)
        self.groups = [f"{topic}-{n}" for n in range(1, GROUPS + 1)]
        self.watched = self.groups[GROUPS // 2]

    def fill(self) -> Stop:
        """Writes the topic's records, and where its groups had stopped."""
        flow = self.flow
        flow.create_topics()
        self._write(RECORDS)
        read = {group: dict.fromkeys(flow.places, n * _STEP) for n, group in enumerate(self.groups, start=1)}
        commit(flow.source.bootstrap, read)
        ends = dict.fromkeys(flow.places, _EACH)
        return Stop(flow.source.bootstrap, flow.target.bootstrap, flow.places, read, ends)

    def gone_on(self, away: Stop) -> Stop:
        """Groups that were moved have read on, the last of them all; home is back with records nobody had seen."""
        logs = self.logs(away)
        read = {
            group: {
                remote: first_unread(logs[home], min(offset + _STEP // 2, _EACH))
                for home, remote in away.places.items()
                for offset in [away.read[group][home]]
            }
            for group in self.groups
        }
        commit(away.destination, read)
        self._write(TAIL, first=_EACH)
        ends = {remote: first_unread(logs[home], _EACH) for home, remote in away.places.items()}
        back = {remote: home for home, remote in away.places.items()}
        return Stop(away.destination, away.origin, back, read, ends)

    def logs(self, stop: Stop) -> Logs:
        """Of both clusters, as those saw them who had stopped there."""
        remotes = {place.topic: there.topic for place, there in stop.places.items()}
        both = Sides(stop.origin, stop.destination, remotes).logs()
        return {
            at: replace(one, source=[seen for seen in one.source if seen.offset < stop.ends[at]])
            for at, one in both.items()
        }

    def watcher(self, stop: Stop) -> Watcher:
        """Of one of the groups, where it goes to."""
        return Watcher(stop.origin, stop.destination, self.watched, stop.places)

    def failures_of_a_move(self, stop: Stop, seen: Glances) -> list[str]:
        """That a group is or was ahead, went back, was moved in part, or reads anything else than what it had left.

        What it had left is what the other cluster has: that all of it is there, once, is asked as well.
        """
        logs = self.logs(stop)
        return [
            *map(str, wrong_records(logs)),
            *map(str, wrong_places(logs, seen)),
            *self._stand_wrong(stop, logs),
            *self._reads_wrong(stop, logs),
        ]

    def failures_of_an_export(self, stop: Stop, folder: Path) -> list[str]:
        """That the last file does not hold what diverged, each record once."""
        files = sorted(folder.glob("mmtool-diverged-*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        exported = Counter(numbered(one.record.value or b"") for one in exported_records(files[-1]))
        behind = [one.target[_EACH:] for one in self.logs(stop).values()]
        wanted = Counter(seen.identity for seen in chain.from_iterable(behind))
        return [] if exported == wanted else [f"{exported.total()} of {wanted.total()} records were exported"]

    def failures_of_a_drill(self, stop: Stop, seen: Glances) -> list[str]:
        """That anything of it is left, or that it ever moved a group that is at work."""
        left = sorted(name for name in groups_of(stop.destination).listing().states if self.topic in name)
        moved = [f"{self.watched} was seen on the other cluster"] if any(seen.values()) else []
        at_work = groups_of(stop.origin).commits(self.groups)
        changed = [
            f"{group} stands elsewhere at home"
            for group, read in stop.read.items()
            if {place: one.offset for place, one in at_work[group].items()} != read
        ]
        return [*moved, *changed, *(f"{name} is left" for name in left)]

    def _write(self, records: int, first: int = 0) -> None:
        load = Load(self.topic, records, PARTITIONS, 200, records_per_second=_A_SECOND, first_sequence=first)
        produce(self.flow.source.bootstrap, load)

    def _stand_wrong(self, stop: Stop, logs: Logs) -> Iterator[str]:
        """Every group in every partition."""
        there = groups_of(stop.destination).commits(self.groups)
        for group, read in stop.read.items():
            found = {place: one.offset for place, one in there[group].items()}
            wanted = {there: first_unread(logs[at], read[at]) for at, there in stop.places.items()}
            if {place: found.get(place) for place in wanted} != wanted:
                yield f"{group} stands at {sorted(found.values())}, not {sorted(wanted.values())}"

    def _reads_wrong(self, stop: Stop, logs: Logs) -> Iterator[str]:
        """An application goes on where it stopped: it reads what it had not read, once."""
        read = stop.read[self.watched]
        from_here = {at: first_unread(one, read[at]) for at, one in logs.items()}
        left = [
            seen.identity for at, one in logs.items() for seen in one.target if seen.offset >= from_here[at]
        ]
        topics = sorted({place.topic for place in stop.places.values()})
        after = [numbered(one.value or b"") for one in consume(stop.destination, self.watched, topics)]
        if sorted(after) != sorted(left):  # type: ignore[type-var]  # pairs of numbers, as the lab writes them
            yield f"{self.watched} read {len(after)} records then, not the {len(left)} that were left"


def commit(bootstrap: str, read: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    """As groups that have stopped there."""
    here = groups_of(bootstrap)
    for group, offsets in read.items():
        refused = here.alter(group, {place: Commit(offset) for place, offset in offsets.items()})
        assert refused == {}, refused
