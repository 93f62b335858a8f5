"""A smoke test with records of its own: the canary topic on the source, followed to the target and read there."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, GateError, RefusedError
from mmtool.insight.problem_remedies import remedy_of
from mmtool.insight.smoke_flow import status_of
from mmtool.kafka.ports import CanaryRecord
from mmtool.plan.flow.smoke import CANARY_GROUP, Step
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.plan.words import counted, few
from mmtool.translation.json_text import parse_json
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.insight.smoke_flow import Landed, SmokeFlow
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.translation.types import TopicId

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
        return GateError(
            f"{there} of {_RECORDS} records arrived in {self._remote} of {self.flow.clusters.target.alias} within"
            f" {self.flow.deadline.seconds:g} s",
            remedy=f"raise --timeout if the flow only lags: {status_of(CANARY_TOPIC)}; see also the log of"
            f" {self.flow.runner}",
        )

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
        source, target = self.flow.clusters.source.alias, self.flow.clusters.target.alias
        return f"offset {self._next_offset} on {source} is {self.landed.offset} on {target}, exact"

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
