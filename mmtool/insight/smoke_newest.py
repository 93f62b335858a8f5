"""A smoke test that writes nothing: the newest record of the mirrored topics, followed to the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, GateError
from mmtool.insight.smoke_flow import status_of
from mmtool.insight.translation import look
from mmtool.kafka.ports import FirstMissing, LogPart
from mmtool.plan.flow.smoke import Step
from mmtool.plan.groups.facts import Commit
from mmtool.plan.words import moment
from mmtool.translation.known import UNKNOWN
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.smoke_flow import Landed, SmokeFlow
    from mmtool.kafka.ports import Bounds, ClusterPort
    from mmtool.translation.lockstep import Seen
    from mmtool.translation.types import TopicId

_BEFORE_END = (1, 2)
"""Offsets to try, counted from the log end: the last one may be a transaction marker."""


@dataclass(frozen=True, slots=True)
class _Picked:
    """A record of the source."""

    place: TopicPartition
    topic_id: TopicId
    seen: Seen


@dataclass(slots=True)
class Newest:
    """The steps after `owner`, in order, and the results of each for the next."""

    flow: SmokeFlow
    picked: _Picked | None = None
    landed: Landed | None = None

    def actions(self) -> dict[Step, Callable[[], str]]:
        """The action of each step; an action returns a sentence about its result."""
        return {
            Step.NEWEST: self.newest,
            Step.MIRRORED: self.mirrored,
            Step.TRANSLATED: self.translated,
            Step.READ: self.read,
        }

    def newest(self) -> str:
        """Pick the newest record of all topics that the flow mirrors now.

        Raises:
            GateError: No such topic has a record, or all topics are paused or have failed over.
            UsageError: The flow matches no topic.
        """
        now = look(self.flow.clusters)
        topics = self._mirrored_now(now)
        places = [place for place in now.partitions if place.topic in topics]
        committed = self.flow.clusters.settings.reads_committed
        source = self.flow.clusters.source
        bounds = source.bounds_each(places, committed=committed)
        for first in self._by_time(now, bounds):
            part = LogPart(
                _place(first), first.topic_id, range(first.offset, bounds[_place(first)].log_end), 1
            )
            seen = next(iter(source.records([part], committed=committed)[part]), None)
            if seen is not None:
                self.picked = _Picked(part.place, part.topic_id, seen)
                return f"offset {seen.offset} of {part.place} on {source.alias}{_written_at(seen)}"
        raise GateError(
            f"no topic that {self.flow.name} mirrors has a record that can be read on {source.alias}",
            remedy=f"produce a record to a topic that {self.flow.name} mirrors and that is not paused",
        )

    def _mirrored_now(self, now: FlowNow) -> set[str]:
        """The topics that the flow mirrors now, without paused and failed-over topics.

        Raises:
            GateError: There is none.
        """
        if self.flow.by_mm2:
            return set(now.topics)
        holds = self.flow.control().holds
        found = {name: holds.of(topic.topic_id, name) for name, topic in now.topics.items()}
        first = next(iter(found.values()), None)
        if first is not None and None not in found.values():
            raise GateError(
                f"all topics of {self.flow.name} are paused or have failed over ({first.what}: {first.reason})",
                remedy=first.remedy,
            )
        return {name for name, hold in found.items() if hold is None}

    def _by_time(self, now: FlowNow, bounds: Mapping[TopicPartition, Bounds]) -> list[FirstMissing]:
        """Each log's last record, the newest first; MM2's heartbeats, which are newer than any other, at the end."""
        times: dict[FirstMissing, int] = {}
        open_ones = {place for place, log in bounds.items() if log.log_end > log.log_start}
        for before in _BEFORE_END:
            wanted = _last_offsets(now, {place: bounds[place] for place in open_ones}, before)
            found = self.flow.watch.first_missing_times(wanted)
            times |= found
            open_ones -= {_place(one) for one in found}
        is_beat = self.flow.clusters.settings.policy.is_heartbeats_topic
        return sorted(times, key=lambda one: (is_beat(one.topic), -times[one]))

    def mirrored(self) -> str:
        """Wait until the mirror has passed the picked record.

        Raises:
            GateError: It did not pass in time.
            RefusedError: The record's partition is held, halted or refused.
        """
        picked = self._known()
        self.flow.deadline.wait(self._has_passed, self._missing)
        return f"the mirror has passed offset {picked.seen.offset} of {picked.place}"

    def _has_passed(self) -> bool | None:
        picked = self._known()
        if self.flow.is_mirrored(picked.place, picked.seen.offset):
            return True
        self.flow.watch_for(picked.place, picked.topic_id)
        return None

    def _missing(self) -> GateError:
        picked = self._known()
        return GateError(
            f"offset {picked.seen.offset} of {picked.place} was not mirrored within {self.flow.deadline.seconds:g} s",
            remedy=f"raise --timeout if the flow only lags: {status_of(picked.place.topic)}; see also the log of"
            f" {self.flow.runner}",
        )

    def translated(self) -> str:
        """Wait until the record's offset has an exact translation; raises as `SmokeFlow.translate`."""
        picked = self._known()
        self.landed = self.flow.translate(picked.place, lambda: Commit(picked.seen.offset))
        source, target = self.flow.clusters.source.alias, self.flow.clusters.target.alias
        return f"offset {picked.seen.offset} on {source} is {self.landed.offset} on {target}, exact"

    def read(self) -> str:
        """Check that a reader of the target at the translated offset gets the same record first.

        Raises:
            CheckFailedError: It gets another record, or none.
        """
        picked, landed = self._known(), self.landed
        assert landed is not None
        target = self.flow.clusters.target
        found = next(iter(_first(target, landed, target.topics()[landed.place.topic].topic_id)), None)
        problem = _difference(picked.seen, found)
        there = f"offset {landed.offset} of {landed.place} on {target.alias}"
        here = f"offset {picked.seen.offset} of {picked.place} on {self.flow.clusters.source.alias}"
        if problem:
            raise CheckFailedError(
                f"{there} {problem} {here}",
                remedy=self.flow.compare(picked.place.topic),
            )
        return f"{there} is the same record as {here} ({_compared(picked.seen, found)})"

    def _known(self) -> _Picked:
        assert self.picked is not None
        return self.picked


def _place(one: FirstMissing) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)


def _last_offsets(now: FlowNow, bounds: Mapping[TopicPartition, Bounds], before: int) -> list[FirstMissing]:
    return [
        FirstMissing(place.topic, now.topics[place.topic].topic_id, place.partition, log.log_end - before)
        for place, log in bounds.items()
        if log.log_end - before >= log.log_start
    ]


def _first(target: ClusterPort, landed: Landed, topic_id: TopicId) -> Iterable[Seen]:
    """The first record on the target at or after the translated offset; empty where there is none."""
    end = target.bounds([landed.place])[landed.place].log_end
    part = LogPart(landed.place, topic_id, range(landed.offset, max(end, landed.offset)), 1)
    return target.records([part], committed=True)[part]


def _difference(sent: Seen, other: Seen | None) -> str:
    """How the target's record differs, as a clause before ``offset N of T``; empty when it does not."""
    if other is None:
        return "has no record, but should have a copy of"
    if other.digest != sent.digest:
        return "has another key, value or headers than"
    if _has_times(sent, other) and sent.timestamp_ms != other.timestamp_ms:
        return "has another timestamp than"
    return ""


def _has_times(sent: Seen, other: Seen) -> bool:
    """Whether both records have their producer's timestamp."""
    return UNKNOWN not in {sent.timestamp_ms, other.timestamp_ms}


def _compared(sent: Seen, other: Seen | None) -> str:
    """What was compared of two records that are the same."""
    if other is not None and _has_times(sent, other):
        return "key, value, headers, timestamp"
    return "key, value, headers; without the timestamp, which is missing, or set by a broker (LogAppendTime)"


def _written_at(seen: Seen) -> str:
    return "" if seen.timestamp_ms is UNKNOWN else f", written at {moment(seen.timestamp_ms)}"
