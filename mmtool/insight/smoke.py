"""``mmtool smoke``: test a running flow step by step, with canary records, or read-only with its newest record.

A test is a generator: for each of its steps, in their order, it yields a sentence about the result, or raises what
fails the step.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, GateError, MmtoolError, RefusedError, StoppedError
from mmtool.insight.group_lookup import remedy_of
from mmtool.insight.smoke_flow import (
    CANARY_GROUP,
    CANARY_STEPS,
    FIRST_STEPS,
    NEWEST_STEPS,
    StepResult,
    status_of,
)
from mmtool.insight.translation import look
from mmtool.kafka.ports import CanaryRecord, FirstMissing, LogPart
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.plan.words import counted, few, moment
from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.types import UNKNOWN, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.smoke_flow import Landed, SmokeFlow, SmokeStep
    from mmtool.kafka.ports import Bounds, ClusterPort
    from mmtool.translation.lockstep import Seen
    from mmtool.translation.types import TopicId

    Steps = Generator[str]

_NEWEST_INSTEAD = "the test follows the newest record of a mirrored topic instead"


@dataclass(frozen=True, slots=True)
class Smoked:
    """The result of a smoke test.

    Attributes:
        flow: ``A->B``.
        results: Of each step, in order.
        warnings: Sentences for the operator.
    """

    flow: str
    results: tuple[StepResult, ...]
    warnings: tuple[str, ...]

    @property
    def error(self) -> GateError | None:
        """The error of the step that failed; None when all have passed."""
        failed = next((result for result in self.results if not result.passed), None)
        if failed is None:
            return None
        said = f"smoke test of {self.flow}: step {failed.step} failed: {failed.said}"
        return GateError(said, remedy=failed.remedy)


class NotSoonError(GateError):
    """The canary topic is new, and the flow's owner looks for new topics too late for this test."""

    code = "canary_later"


def smoke(flow: SmokeFlow, *, read_only: bool) -> Smoked:
    """Test a flow from end to end, within its deadline.

    Args:
        flow: The flow.
        read_only: Write nothing to the source, and follow the newest record of a mirrored topic.
    """
    results: list[StepResult] = []
    later = NEWEST_STEPS if read_only else CANARY_STEPS
    if _passes(results, _first_steps(flow), FIRST_STEPS, later):
        left_out = bool(flow.by_mm2) and not flow.clusters.settings.topics.accepts(CANARY_TOPIC)
        if left_out and not read_only:
            flow.warnings.append(
                f"MirrorMaker 2 does not mirror {CANARY_TOPIC}, which `topics` and `topics.exclude` do not allow:"
                f" {_NEWEST_INSTEAD}"
            )
        try:
            if not (read_only or left_out):
                _passes(results, _Canary(flow).steps(), CANARY_STEPS)
        except NotSoonError as error:
            flow.warnings.append(f"{error.message}; {_NEWEST_INSTEAD}")
            left_out = True
        if read_only or left_out:
            _passes(results, _newest_steps(flow), NEWEST_STEPS)
    return Smoked(flow.name, tuple(results), tuple(dict.fromkeys(flow.warnings)))


def _passes(
    results: list[StepResult], test: Steps, steps: Sequence[SmokeStep], later: Sequence[SmokeStep] = ()
) -> bool:
    """Whether all steps of a test pass; their results are recorded, also of those that were not tried.

    Args:
        results: Takes the results.
        test: Yields a sentence for each step.
        steps: Its steps.
        later: Steps that follow them.

    Raises:
        NotSoonError: A step passed, but the steps after it make no sense.
    """
    with closing(test):
        for number, step in enumerate(steps, 1):
            began = time.monotonic()
            try:
                said = next(test)
            except StoppedError:
                raise
            except NotSoonError as error:
                results.append(StepResult(step, True, time.monotonic() - began, error.message))
                raise
            except MmtoolError as error:
                seconds = time.monotonic() - began
                results.append(StepResult(step, False, seconds, error.message, remedy=error.remedy))
                results += [
                    StepResult(other, False, 0.0, f"not tried, because step {step} failed", tried=False)
                    for other in (*steps[number:], *later)
                ]
                return False
            results.append(StepResult(step, True, time.monotonic() - began, said))
    return True


def _first_steps(flow: SmokeFlow) -> Steps:
    yield flow.probe()
    yield flow.find_owner()


# --- the newest record of a mirrored topic ----------------------------------------------------------------

_BEFORE_END = (1, 2)
"""Offsets to try, counted from the log end: the last one may be a transaction marker."""


def _newest_steps(flow: SmokeFlow) -> Steps:
    """Follow the newest record; nothing is written to the source.

    Raises:
        GateError: There is no record to follow, or something did not happen in time.
        RefusedError: The record's partition is held, halted or refused, or its offset is not translated.
        CheckFailedError: A reader of the target at the translated offset gets another record first, or none.
    """
    part, sent = _newest_record(flow)
    place, source, target = part.place, flow.clusters.source, flow.clusters.target
    here = f"offset {sent.offset} of {place} on {source.alias}"
    written = "" if sent.timestamp_ms is UNKNOWN else f", written at {moment(sent.timestamp_ms)}"
    yield f"{here}{written}"

    def has_passed() -> bool | None:
        if flow.is_mirrored(place, sent.offset):
            return True
        flow.watch_for(place, part.topic_id)
        return None

    missing = f"offset {sent.offset} of {place} was not mirrored"
    flow.deadline.wait(has_passed, lambda: flow.not_in_time(missing, place.topic))
    yield f"the mirror has passed offset {sent.offset} of {place}"

    landed = flow.translate(place, lambda: Commit(sent.offset))
    yield flow.exactly(sent.offset, landed)

    copy = next(iter(_first(target, landed, target.topics()[landed.place.topic].topic_id)), None)
    there = f"offset {landed.offset} of {landed.place} on {target.alias}"
    has_times = copy is not None and UNKNOWN not in {sent.timestamp_ms, copy.timestamp_ms}
    if copy is None:
        problem = "has no record, but should have a copy of"
    elif copy.digest != sent.digest:
        problem = "has another key, value or headers than"
    else:
        problem = "has another timestamp than" if has_times and sent.timestamp_ms != copy.timestamp_ms else ""
    if problem:
        raise CheckFailedError(f"{there} {problem} {here}", remedy=flow.compare(place.topic))
    compared = (
        "key, value, headers, timestamp"
        if has_times
        else "key, value, headers; without the timestamp, which is missing, or set by a broker (LogAppendTime)"
    )
    yield f"{there} is the same record as {here} ({compared})"


def _newest_record(flow: SmokeFlow) -> tuple[LogPart, Seen]:
    """The newest record of all topics that the flow mirrors now, and where it is.

    Raises:
        GateError: No such topic has a record, or all topics are paused or have failed over.
        UsageError: The flow matches no topic.
    """
    now, source = look(flow.clusters), flow.clusters.source
    topics = _mirrored_now(flow, now)
    committed = flow.clusters.settings.reads_committed
    bounds = source.bounds_each([at for at in now.partitions if at.topic in topics], committed=committed)
    for first in _by_time(flow, now, bounds):
        place = TopicPartition(first.topic, first.partition)
        part = LogPart(place, first.topic_id, range(first.offset, bounds[place].log_end), 1)
        seen = next(iter(source.records([part], committed=committed)[part]), None)
        if seen is not None:
            return part, seen
    raise GateError(
        f"no topic that {flow.name} mirrors has a record that can be read on {source.alias}",
        remedy=f"produce a record to a topic that {flow.name} mirrors and that is not paused",
    )


def _mirrored_now(flow: SmokeFlow, now: FlowNow) -> set[str]:
    """The topics that the flow mirrors now, without paused and failed-over topics.

    Raises:
        GateError: There is none.
    """
    if flow.by_mm2:
        return set(now.topics)
    holds = flow.control().holds
    held = {name: holds.of(topic.topic_id, name) for name, topic in now.topics.items()}
    first = next(iter(held.values()), None)
    if first is not None and None not in held.values():
        raise GateError(
            f"all topics of {flow.name} are paused or have failed over ({first.what}: {first.reason})",
            remedy=first.remedy,
        )
    return {name for name, hold in held.items() if hold is None}


def _by_time(flow: SmokeFlow, now: FlowNow, bounds: Mapping[TopicPartition, Bounds]) -> list[FirstMissing]:
    """Each log's last record, the newest first; MM2's heartbeats, which are newer than any other, at the end."""
    times: dict[FirstMissing, int] = {}
    unknown = {at: log for at, log in bounds.items() if log.log_end > log.log_start}
    for before in _BEFORE_END:
        times |= flow.watch.first_missing_times(
            [
                FirstMissing(at.topic, now.topics[at.topic].topic_id, at.partition, log.log_end - before)
                for at, log in unknown.items()
                if log.log_end - before >= log.log_start
            ]
        )
        known = {TopicPartition(one.topic, one.partition) for one in times}
        unknown = {at: log for at, log in unknown.items() if at not in known}
    is_beat = flow.clusters.settings.policy.is_heartbeats_topic
    return sorted(times, key=lambda one: (is_beat(one.topic), -times[one]))


def _first(target: ClusterPort, landed: Landed, topic_id: TopicId) -> Iterable[Seen]:
    """The first record on the target at or after the translated offset; empty where there is none."""
    end = target.bounds([landed.place])[landed.place].log_end
    part = LogPart(landed.place, topic_id, range(landed.offset, max(end, landed.offset)), 1)
    return target.records([part], committed=True)[part]


# --- canary records ---------------------------------------------------------------------------------------

HEADER = "mmtool-canary"
_PLACE = TopicPartition(CANARY_TOPIC, 0)
_RECORDS = 2
"""Records per test: one that the group has read, and one at which it continues."""


@dataclass(slots=True)
class _Canary:
    """A test with records and a group of its own.

    Attributes:
        run_id: The key of this test's records: several tests may run at once.
        has_committed: The group has to be deleted.
    """

    flow: SmokeFlow
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    has_committed: bool = False

    @property
    def _remote(self) -> TopicPartition:
        return TopicPartition(self.flow.clusters.settings.remote_topic(CANARY_TOPIC), 0)

    def steps(self) -> Steps:
        """Follow two records and a group between them to the target; the group is deleted at the end.

        Records are written only when the flow mirrors the topic: with `mmtool.start = latest`, earlier ones would be
        skipped.

        Raises:
            NotSoonError: The flow looks for new topics too late for this test.
            GateError: Something did not happen in time.
            RefusedError: The topic is held, halted or refused, the source refuses the commit, or the offset is not
                translated.
            CheckFailedError: A record differs on the target, is there more than once, or is not the next one there.
        """
        try:
            flow, source, target = self.flow, self.flow.clusters.source, self.flow.clusters.target
            topic_id = self._topic()
            yield f"{flow.name} mirrors {CANARY_TOPIC} of {source.alias} to {self._remote.topic}"

            bounds = target.bounds_each([self._remote]).get(self._remote)
            start = 0 if bounds is None else bounds.log_end
            sent = self._produce()
            yield f"{counted(_RECORDS, 'record')} at {_PLACE} of {source.alias}, offsets {_offsets(sent)}"

            began = flow.deadline.clock()
            copies = self._arrived(topic_id, start)
            remote = f"{self._remote} of {target.alias}"
            if problem := difference(sent, copies):
                raise CheckFailedError(f"{remote}: {problem}", remedy=flow.compare(CANARY_TOPIC))
            took = flow.deadline.clock() - began
            yield f"the same records at {remote}, offsets {_offsets(copies)}, after {took:.1f} s"

            wanted = Commit((sent[0].offset or 0) + 1)
            yield f"group {CANARY_GROUP} of {source.alias} is at offset {self._standing(wanted).offset}"

            landed = flow.translate(_PLACE, lambda: self._standing(wanted))
            yield flow.exactly(wanted.offset, landed)

            consumer = f"a consumer that starts at offset {landed.offset} of {self._remote}"
            if problem := difference(sent[1:], self._ours(landed.offset)):
                raise CheckFailedError(
                    f"{consumer} does not continue where group {CANARY_GROUP} stopped: {problem}",
                    remedy=flow.compare(CANARY_TOPIC),
                )
            yield f"{consumer} reads the next record first"
        finally:
            self._clean_up()

    def _topic(self) -> TopicId:
        """The id of the canary topic, once the flow mirrors it; it is created where it is missing."""
        flow, source = self.flow, self.flow.clusters.source
        settings, within = flow.clusters.settings, f"within {flow.deadline.seconds:g} s"
        looks = (
            f"{flow.runner} looks for new topics every {settings.refresh_topics_interval_seconds} s"
            " (refresh.topics.interval.seconds)"
            if settings.refresh_topics
            else f"{flow.runner} looks for new topics only at its start (refresh.topics.enabled = false)"
        )
        if CANARY_TOPIC not in source.topics():
            flow.canary.create()

        def known_id() -> TopicId | None:
            listed = source.topics().get(CANARY_TOPIC)
            return None if listed is None else listed.topic_id

        topic_id = flow.deadline.wait(
            known_id,
            lambda: GateError(
                f"{source.alias} did not list topic {CANARY_TOPIC} {within}",
                remedy=f"grant mmtool's principal DESCRIBE on topic {CANARY_TOPIC} of {source.alias}; if it has this"
                " right, raise --timeout",
            ),
        )

        def is_carried() -> bool | None:
            carried, looks_soon = self._carried(topic_id)
            if not carried and not looks_soon:
                raise NotSoonError(f"{CANARY_TOPIC} is new on {source.alias}: {looks}")
            return carried or None

        flow.deadline.wait(
            is_carried,
            lambda: GateError(
                f"{CANARY_TOPIC} of {source.alias} was not mirrored {within}; {looks}",
                remedy=f"raise --timeout if the flow only lags: {status_of(CANARY_TOPIC)}",
            ),
        )
        return topic_id

    def _carried(self, topic_id: TopicId) -> tuple[bool, bool]:
        """Whether the flow mirrors the canary topic, and whether it looks for new topics in time.

        A replicate that has just started finds the topic at its first look, however seldom it looks later.
        """
        flow, settings = self.flow, self.flow.clusters.settings
        is_soon = settings.refresh_topics and settings.refresh_topics_interval_seconds < flow.deadline.left
        if flow.by_mm2:
            return self._remote.topic in flow.clusters.target.topics(), is_soon
        control = flow.control()
        flow.refuse_held(control, _PLACE, topic_id)
        owner = control.owner.owner if control.owner is not None else None
        of_owner = {at for at, position in control.positions.items() if position.owner == owner}
        return (topic_id, 0) in of_owner, is_soon or not of_owner

    def _produce(self) -> list[CanaryRecord]:
        """Two records in the canary topic, one after the other."""
        now_ms = int(time.time() * 1000)
        records = []
        for number in range(1, _RECORDS + 1):
            value = {"flow": self.flow.name, "run": self.run_id, "number": number, "sent_at_ms": now_ms}
            headers = ((HEADER, str(number).encode()),)
            records.append(CanaryRecord(self.run_id.encode(), json.dumps(value).encode(), headers, now_ms))
        return self.flow.canary.produce(records)

    def _arrived(self, topic_id: TopicId, start: int) -> list[CanaryRecord]:
        """The records on the target, once all are there."""

        def arrived() -> list[CanaryRecord] | None:
            found = self._ours(start)
            if len(found) >= _RECORDS:
                return found
            self.flow.watch_for(_PLACE, topic_id)
            return None

        def missing() -> GateError:
            remote = f"{self._remote} of {self.flow.clusters.target.alias}"
            some = f"{len(self._ours(start))} of {_RECORDS} records arrived in {remote}"
            return self.flow.not_in_time(some, CANARY_TOPIC)

        return self.flow.deadline.wait(arrived, missing)

    def _ours(self, start: int) -> list[CanaryRecord]:
        key = self.run_id.encode()
        return [record for record in self.flow.canary.read(self._remote.topic, start) if record.key == key]

    def _standing(self, wanted: Commit) -> Commit:
        """The canary group's commit on the source; committed again where another test has moved it."""
        groups, alias = self.flow.clusters.source.groups, self.flow.clusters.source.alias
        if groups.commits([CANARY_GROUP])[CANARY_GROUP].get(_PLACE) != wanted:
            self.has_committed = True
            for problem in groups.alter(CANARY_GROUP, {_PLACE: wanted}).values():
                grant = f"grant mmtool's principal READ on group {CANARY_GROUP} and topic {CANARY_TOPIC} of {alias}"
                raise RefusedError(
                    f"{alias} refuses the commit of group {CANARY_GROUP}: {problem}",
                    remedy=remedy_of([problem.name], alias, grant) or grant,
                )
        return groups.commits([CANARY_GROUP])[CANARY_GROUP].get(_PLACE, wanted)

    def _clean_up(self) -> None:
        """Delete the canary group on the source, and on the target where MirrorMaker 2 may have synced it."""
        clusters = self.flow.clusters
        synced = bool(self.flow.by_mm2) and clusters.settings.sync_group_offsets
        both = (clusters.source, clusters.target) if synced else (clusters.source,)
        for cluster in both if self.has_committed else ():
            for problem in cluster.groups.delete([CANARY_GROUP]).values():
                self.flow.warnings.append(
                    f"group {CANARY_GROUP} was not deleted on {cluster.alias} ({problem}):"
                    " nothing to do, Kafka deletes it when its offsets expire"
                )


def _offsets(records: Iterable[CanaryRecord]) -> str:
    return " and ".join(str(record.offset) for record in records)


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
