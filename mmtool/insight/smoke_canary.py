"""The two kinds of smoke test: records of its own, or the newest ones, followed from the source to the target."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, GateError, RefusedError
from mmtool.insight.group_lookup import remedy_of
from mmtool.insight.smoke_flow import CANARY_GROUP, Step, status_of
from mmtool.insight.translation import look
from mmtool.kafka.ports import CanaryRecord, FirstMissing, LogPart
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.plan.words import counted, few, moment
from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.types import UNKNOWN, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.smoke_flow import Landed, SmokeFlow
    from mmtool.kafka.ports import Bounds, ClusterPort
    from mmtool.kafka.state.control_view import ControlView
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
        said = f"offset {picked.seen.offset} of {picked.place} was not mirrored"
        return self.flow.not_in_time(said, picked.place.topic)

    def translated(self) -> str:
        """Wait until the record's offset has an exact translation; raises as `SmokeFlow.translate`."""
        picked = self._known()
        self.landed = self.flow.translate(picked.place, lambda: Commit(picked.seen.offset))
        return self.flow.exactly(picked.seen.offset, self.landed)

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


HEADER = "mmtool-canary"
_PLACE = TopicPartition(CANARY_TOPIC, 0)
_RECORDS = 2
"""Records per test: one that the group has read, and one at which it continues."""


class NotSoonError(GateError):
    """The canary topic is new, and the flow's owner looks for new topics too late for this test."""

    code = "canary_later"


@dataclass(slots=True)
class Canary:
    """The steps after `owner`, in order, and the results of each for the next.

    Attributes:
        run_id: The key of this test's records: several tests may run at once.
    """

    flow: SmokeFlow
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    sent: list[CanaryRecord] = field(default_factory=list)
    topic_id: TopicId | None = None
    landed: Landed | None = None
    _start: int = 0
    _committed: bool = False

    def actions(self) -> dict[Step, Callable[[], str]]:
        """The action of each step; an action returns a sentence about its result."""
        return {
            Step.TOPIC: self.topic,
            Step.PRODUCE: self.produce,
            Step.MIRRORED: self.mirrored,
            Step.COMMIT: self.commit,
            Step.TRANSLATED: self.translated,
            Step.READ: self.read,
        }

    @property
    def _remote(self) -> TopicPartition:
        return TopicPartition(self.flow.clusters.settings.remote_topic(CANARY_TOPIC), 0)

    # --- the topic ----------------------------------------------------------------------------------------

    def topic(self) -> str:
        """Create the canary topic where it is missing, and wait until the flow mirrors it.

        Records are written only then: with `mmtool.start = latest`, earlier ones would be skipped.

        Raises:
            NotSoonError: The flow looks for new topics too late for this test.
            RefusedError: The topic is held, halted or refused.
        """
        source = self.flow.clusters.source
        if CANARY_TOPIC not in source.topics():
            self.flow.canary.create()
        self.topic_id = self.flow.deadline.wait(self._known_id, self._not_listed)
        self.flow.deadline.wait(self._is_carried, self._not_carried)
        return f"{self.flow.name} mirrors {CANARY_TOPIC} of {source.alias} to {self._remote.topic}"

    def _known_id(self) -> TopicId | None:
        found = self.flow.clusters.source.topics().get(CANARY_TOPIC)
        return None if found is None else found.topic_id

    def _not_listed(self) -> GateError:
        alias = self.flow.clusters.source.alias
        return GateError(
            f"{alias} did not list topic {CANARY_TOPIC} within {self.flow.deadline.seconds:g} s",
            remedy=f"grant mmtool's principal DESCRIBE on topic {CANARY_TOPIC} of {alias}; if it has this right, raise"
            " --timeout",
        )

    def _is_carried(self) -> bool | None:
        carried, looks_soon = self._by_mm2() if self.flow.by_mm2 else self._by_mmtool()
        if not carried and not looks_soon:
            raise NotSoonError(f"{CANARY_TOPIC} is new on {self.flow.clusters.source.alias}: {self._looks()}")
        return carried or None

    def _by_mm2(self) -> tuple[bool, bool]:
        there = self._remote.topic in self.flow.clusters.target.topics()
        return there, self._looks_in_time

    def _by_mmtool(self) -> tuple[bool, bool]:
        """Whether mmtool mirrors the canary topic, and whether it looks for new topics in time.

        A replicate that has just started finds the topic at its first look, however seldom it looks later.
        """
        assert self.topic_id is not None
        control = self.flow.control()
        self.flow.refuse_held(control, _PLACE, self.topic_id)
        working = _told_by_owner(control)
        return (self.topic_id, 0) in working, self._looks_in_time or not working

    @property
    def _looks_in_time(self) -> bool:
        settings = self.flow.clusters.settings
        return settings.refresh_topics and settings.refresh_topics_interval_seconds < self.flow.deadline.left

    def _looks(self) -> str:
        settings = self.flow.clusters.settings
        seconds = settings.refresh_topics_interval_seconds
        if not settings.refresh_topics:
            return (
                f"{self.flow.runner} looks for new topics only at its start (refresh.topics.enabled = false)"
            )
        return f"{self.flow.runner} looks for new topics every {seconds} s (refresh.topics.interval.seconds)"

    def _not_carried(self) -> GateError:
        within = f"within {self.flow.deadline.seconds:g} s"
        return GateError(
            f"{CANARY_TOPIC} of {self.flow.clusters.source.alias} was not mirrored {within}; {self._looks()}",
            remedy=f"raise --timeout if the flow only lags: {status_of(CANARY_TOPIC)}",
        )

    # --- records ------------------------------------------------------------------------------------------

    def produce(self) -> str:
        """Write two records to the canary topic, one after the other."""
        bounds = self.flow.clusters.target.bounds_each([self._remote]).get(self._remote)
        self._start = 0 if bounds is None else bounds.log_end
        now_ms = int(time.time() * 1000)
        self.sent = self.flow.canary.produce([self._record(n, now_ms) for n in range(1, _RECORDS + 1)])
        offsets = " and ".join(str(record.offset) for record in self.sent)
        return f"{counted(_RECORDS, 'record')} at {_PLACE} of {self.flow.clusters.source.alias}, offsets {offsets}"

    def _record(self, number: int, now_ms: int) -> CanaryRecord:
        value = {"flow": self.flow.name, "run": self.run_id, "number": number, "sent_at_ms": now_ms}
        headers = ((HEADER, str(number).encode()),)
        return CanaryRecord(self.run_id.encode(), json.dumps(value).encode(), headers, now_ms)

    def mirrored(self) -> str:
        """Wait until both records are on the target, and compare them with those that were sent.

        Raises:
            CheckFailedError: A record differs on the target, or is there more than once.
            GateError: A record did not arrive in time.
            RefusedError: As `topic`.
        """
        began = self.flow.deadline.clock()
        found = self.flow.deadline.wait(self._arrived, self._missing)
        problem = difference(self.sent, found)
        if problem:
            raise CheckFailedError(
                f"{self._remote} of {self.flow.clusters.target.alias}: {problem}",
                remedy=self.flow.compare(CANARY_TOPIC),
            )
        offsets = " and ".join(str(record.offset) for record in found)
        took = self.flow.deadline.clock() - began
        return (
            f"the same records at {self._remote} of {self.flow.clusters.target.alias}, offsets {offsets},"
            f" after {took:.1f} s"
        )

    def _arrived(self) -> list[CanaryRecord] | None:
        found = self._ours(self._start)
        if len(found) < _RECORDS:
            assert self.topic_id is not None
            self.flow.watch_for(_PLACE, self.topic_id)
            return None
        return found

    def _ours(self, start: int) -> list[CanaryRecord]:
        key = self.run_id.encode()
        return [record for record in self.flow.canary.read(self._remote.topic, start) if record.key == key]

    def _missing(self) -> GateError:
        there = len(self._ours(self._start))
        remote = f"{self._remote} of {self.flow.clusters.target.alias}"
        return self.flow.not_in_time(f"{there} of {_RECORDS} records arrived in {remote}", CANARY_TOPIC)

    # --- the group ----------------------------------------------------------------------------------------

    def commit(self) -> str:
        """Commit the canary group's offset between the two records.

        Raises:
            RefusedError: The source refuses the commit.
        """
        commit = self._standing()
        return f"group {CANARY_GROUP} of {self.flow.clusters.source.alias} is at offset {commit.offset}"

    def _standing(self) -> Commit:
        """The canary group's commit on the source; committed again where another test has moved it."""
        groups, wanted = self.flow.clusters.source.groups, Commit(self._next_offset)
        if groups.commits([CANARY_GROUP])[CANARY_GROUP].get(_PLACE) != wanted:
            self._committed = True
            for problem in groups.alter(CANARY_GROUP, {_PLACE: wanted}).values():
                alias = self.flow.clusters.source.alias
                grant = f"grant mmtool's principal READ on group {CANARY_GROUP} and topic {CANARY_TOPIC} of {alias}"
                raise RefusedError(
                    f"{alias} refuses the commit of group {CANARY_GROUP}: {problem}",
                    remedy=remedy_of([problem.name], alias, grant) or grant,
                )
        return groups.commits([CANARY_GROUP])[CANARY_GROUP].get(_PLACE, wanted)

    @property
    def _next_offset(self) -> int:
        return (self.sent[0].offset or 0) + 1

    def translated(self) -> str:
        """Wait until the group's offset has an exact translation; raises as `SmokeFlow.translate`."""
        self.landed = self.flow.translate(_PLACE, self._standing)
        return self.flow.exactly(self._next_offset, self.landed)

    def read(self) -> str:
        """Check that a consumer at the translated offset gets the second record, and not the first.

        Raises:
            CheckFailedError: It gets other records.
        """
        assert self.landed is not None
        found = self._ours(self.landed.offset)
        problem = difference(self.sent[1:], found)
        if problem:
            raise CheckFailedError(
                f"a consumer that starts at offset {self.landed.offset} of {self._remote} does not continue where"
                f" group {CANARY_GROUP} stopped: {problem}",
                remedy=self.flow.compare(CANARY_TOPIC),
            )
        return f"a consumer that starts at offset {self.landed.offset} of {self._remote} reads the next record first"

    def clean_up(self) -> None:
        """Delete the canary group on the source, and on the target where MirrorMaker 2 may have synced it."""
        if not self._committed:
            return
        clusters = self.flow.clusters
        synced = bool(self.flow.by_mm2) and clusters.settings.sync_group_offsets
        for cluster in (clusters.source, clusters.target) if synced else (clusters.source,):
            for problem in cluster.groups.delete([CANARY_GROUP]).values():
                self.flow.warnings.append(
                    f"group {CANARY_GROUP} was not deleted on {cluster.alias} ({problem}):"
                    " nothing to do, Kafka deletes it when its offsets expire"
                )


def _told_by_owner(control: ControlView) -> set[tuple[str, int]]:
    """The partitions, as topic id and number, that the workers of the present owner have reported."""
    owner = control.owner.owner if control.owner is not None else None
    return {place for place, position in control.positions.items() if position.owner == owner}


def difference(sent: list[CanaryRecord], found: list[CanaryRecord]) -> str:
    """How records differ from those that were sent, offsets aside; empty when they do not."""
    numbers = [_number(record) for record in found]
    wanted = [_number(record) for record in sent]
    if numbers != wanted:
        return f"expected this test's {_listed(wanted)}; found {_listed(numbers)}"
    for one, other in zip(sent, found, strict=True):
        for part in ("key", "value", "headers", "timestamp_ms"):
            if getattr(one, part) != getattr(other, part):
                return f"record {_number(one)} differs from the source in its {part.removesuffix('_ms')}"
    return ""


def _number(record: CanaryRecord) -> str:
    try:
        return str(parse_json(record.value)["number"])
    except (ValueError, KeyError, TypeError):
        return "?"


def _listed(numbers: list[str]) -> str:
    word = "record" if len(numbers) == 1 else "records"
    return f"{word} {few(numbers)}" if numbers else "none"
