"""Group status as data: whether each group could fail over now, and at what cost, one row per partition.

A  every verdict about a selected group has exactly one row; a group that a cluster does not answer for has one as well
B  ``ready`` means that both kinds of failover would accept the partition: a planned one after its drain, and an
   emergency by what the target knows
C  the costs of an emergency are the emergency plan's own figures: nothing of them is computed here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime  # the schema is made of the annotations
from itertools import groupby
from typing import NamedTuple, Self

from mmtool.plan.failover.failover_plan import FailoverPlan, drain_cures
from mmtool.plan.failover.risks import Loss
from mmtool.plan.flow.positions import seconds_since
from mmtool.plan.groups.applications import NO_STATE, AppState
from mmtool.plan.groups.facts import GroupFacts, GroupKind
from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict, PartitionFacts
from mmtool.plan.records.documents import OffsetKind
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.plan.words import clock_time, joined
from mmtool.translation.answers import Reason
from mmtool.translation.types import UNKNOWN, TopicPartition, or_none


class GroupReason(str):
    """Why a partition of a group is not ready, or a note about it, as one text.

    Attributes:
        word: The refusal, the state of a mirror that waits for an operator, `group_name_taken` or `no_checkpoint`;
            empty where the text is a note alone.
        sentence: The text without the word.
    """

    __slots__ = ("sentence", "word")
    word: str
    sentence: str

    def __new__(cls, word: str = "", sentence: str = "") -> Self:
        made = super().__new__(cls, f"{word}: {sentence}" if word else sentence)
        made.word, made.sentence = word, sentence
        return made


NO_REASON = GroupReason()


class GroupRow(NamedTuple):
    """The contract's row of ``status --groups``; None where a value is unknown, or does not apply.

    Attributes:
        source: The alias of the flow's source cluster.
        target: The alias of the flow's target cluster.
        group: Its name.
        topic, partition: On the source; None where the row is about the whole group.
        committed: What the group has committed on the source.
        lag_records: Offsets from ``committed`` to the end of the source's log: the group's own lag, not the mirror's.
        lag_seconds: The age of the record at ``committed``, by its own timestamp; 0 without lag. None where that is
            ahead of the clock, READ on the topic is denied, or reading these records of all rows takes over 3 s.
        target_committed: What is committed for the group on the target.
        reread_max: Records that the group would read again at most, if an emergency failover happened now.
        reread_expected: The expected number of these records, from the group's commit rate; None where that is unknown.
        rpo_records: Offsets of the source partition that are not on the target now; null from a few seconds after the
            source's end was last seen.
        checkpoint_age_seconds: The age of the group's offset as known on the target.
        ready: Whether a failover would accept the partition now.
        reason: Why it is not ready: a word of the list of refusals and a sentence; or a note on a ready partition.
        rpo_seconds: For how long the first record that is not on the target has waited, as ``lag_seconds`` of a flow;
            0 where none is missing.
        blocks_group: Whether the partition keeps its group from being ready. False for a topic that the flow does not
            mirror: the group moves without it.
        rpo_records_min: As ``rpo_records``, up to the source's last seen end.
        source_seen_at: When that end was seen; None where none was.
        moved: Whether a failover has moved the group to the target, so that no failover is left to be ready for.
        offsets: Whether mirrored records have their source's offsets on the target.
        kind: The group's kind.
        target_group: Its name on the target.
    """

    source: str
    target: str
    group: str
    topic: str | None
    partition: int | None
    committed: int | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    target_committed: int | None = None
    reread_max: int | None = None
    reread_expected: int | None = None
    rpo_records: int | None = None
    checkpoint_age_seconds: float | None = None
    ready: bool = False
    reason: GroupReason = NO_REASON
    rpo_seconds: float | None = None
    blocks_group: bool = False
    rpo_records_min: int | None = None
    source_seen_at: datetime | None = None
    moved: bool = False
    offsets: OffsetKind = OffsetKind.TRANSLATED
    kind: GroupKind | None = None
    target_group: str | None = None

    @property
    def place(self) -> TopicPartition | None:
        """The partition on the source."""
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class GroupKnowledge:
    """What both clusters, and the target alone, know of a flow's groups.

    Attributes:
        source: The alias of the flow's source cluster.
        target: The alias of the flow's target cluster.
        groups: As both clusters report them, each with its plan; None while the source does not answer.
        partitions: Of the flow, by their names on the source.
        emergency: The emergency plan that the target alone would give now.
        state: The Kafka Streams applications among the groups.
        not_on_target: The offsets that the mirror has not copied, by partition of the source.
        moved: Groups that now belong to the target.
        stuck: Partitions of the source whose mirror waits for an operator, and why.
        unnamed: Groups that must not be written under their names on the target, and why.
    """

    source: str
    target: str
    groups: Sequence[tuple[GroupFacts, GroupPlan]] | None
    partitions: Mapping[TopicPartition, PartitionFacts]
    emergency: FailoverPlan
    state: AppState = NO_STATE
    not_on_target: Mapping[TopicPartition, Loss] = field(default_factory=dict)
    moved: Mapping[str, MovedGroupRecord] = field(default_factory=dict)
    stuck: Mapping[TopicPartition, GroupReason] = field(default_factory=dict)
    unnamed: Mapping[str, GroupReason] = field(default_factory=dict)


class _Views(NamedTuple):
    """One partition of one group: by both clusters, and by the target alone."""

    living: GroupPlan | None
    verdict: OffsetVerdict | None
    alone: GroupPlan | None
    alone_verdict: OffsetVerdict | None

    @property
    def either(self) -> OffsetVerdict:
        found = self.verdict or self.alone_verdict
        assert found is not None
        return found

    @property
    def kind(self) -> GroupKind | None:
        plan = self.living or self.alone
        return None if plan is None else plan.kind

    @property
    def target_group(self) -> str:
        plan = self.living or self.alone
        assert plan is not None
        return plan.target_group


class _Judged(NamedTuple):
    ready: bool
    reason: GroupReason = NO_REASON
    blocks: bool = False


def group_rows(known: GroupKnowledge) -> list[GroupRow]:
    """The rows of a flow's groups, ordered by group, topic and partition; `with_ages` adds the ages of records."""
    alone = {plan.group: plan for plan in known.emergency.groups}
    if known.groups is None:
        rows = [
            _row(known, _Views(None, None, plan, verdict), None)
            for plan in alone.values()
            for verdict in plan.verdicts
        ]
    else:
        rows = [
            _row(known, views, group)
            for group, plan in known.groups
            for views in _views(plan, alone.get(plan.group))
        ]
    return sorted(rows, key=lambda row: (row.group, row.topic or "", row.partition or 0))


def _views(plan: GroupPlan, alone: GroupPlan | None) -> Iterable[_Views]:
    by_place = (
        {} if alone is None else {verdict.source: verdict for verdict in alone.verdicts if verdict.source}
    )
    return (
        _Views(plan, verdict, alone, by_place.get(verdict.source) if verdict.source else None)
        for verdict in plan.verdicts
    )


def _row(known: GroupKnowledge, views: _Views, group: GroupFacts | None) -> GroupRow:
    verdict, place = views.either, views.either.source
    risk = None if place is None else known.emergency.risks.get((verdict.group, place))
    committed = views.verdict.commit.offset if views.verdict and views.verdict.commit else None
    loss = known.not_on_target.get(place, Loss()) if place else Loss()
    facts, lag = None if place is None else known.partitions.get(place), None
    if facts is not None and committed is not None and facts.source_log is not UNKNOWN:
        lag = max(0, facts.source_log.log_end - committed)
    before = verdict.before
    if before is None and group is not None and verdict.target is not None:
        before = group.before.get(verdict.target)
    moved = verdict.group in known.moved
    judged = _judged(known, views)
    stuck = known.stuck.get(place) if place else None
    if judged.ready and known.groups is not None and stuck and loss.is_possible:
        judged = _Judged(ready=False, reason=stuck, blocks=True)  # a planned failover's drain would refuse
    if verdict.group in known.unnamed and (judged.ready or judged.blocks):
        judged = _Judged(ready=False, reason=known.unnamed[verdict.group], blocks=True)
    judged = _with_move(known, verdict.group, judged)
    return GroupRow(
        known.source,
        known.target,
        verdict.group,
        place and place.topic,
        place and place.partition,
        committed,
        lag,
        target_committed=None if before is None else before.offset,
        reread_max=None if risk is None else or_none(risk.reread),
        reread_expected=None if risk is None else or_none(risk.expected),
        rpo_records=or_none(loss.most),
        checkpoint_age_seconds=None if risk is None else or_none(risk.age_seconds),
        ready=judged.ready and not moved,
        reason=judged.reason,
        blocks_group=judged.blocks and not moved,
        rpo_records_min=loss.least if place else None,
        source_seen_at=None if loss.seen_ms is UNKNOWN else clock_time(loss.seen_ms),
        moved=moved,
        offsets=OffsetKind.of(verdict.same_offsets),
        kind=views.kind,
        target_group=views.target_group,
    )


def _judged(known: GroupKnowledge, views: _Views) -> _Judged:
    """Whether a partition is ready: a refusal that no drain cures counts first, as it blocks an emergency too."""
    living, verdict, alone, alone_verdict = views
    if (
        living is not None
        and verdict is not None
        and verdict.refusal is not None
        and not drain_cures(verdict)
    ):
        return _refused(living, verdict)
    if verdict is not None and views.either.group in known.state.losing:
        return _not_ready(Reason.STATE_NOT_MIRRORED, known.state.why_lost(verdict.group))
    if alone is not None and alone_verdict is not None:
        if known.groups is not None and alone_verdict.refusal is Reason.SOURCE_UNREACHABLE:
            return _without_checkpoint(
                known, alone
            )  # as it does answer, the refusal's sentence has no remedy
        return _refused(alone, alone_verdict) if alone_verdict.refusal is not None else _Judged(ready=True)
    if living is not None and verdict is not None and verdict.refusal is not None:
        return _refused(living, verdict)
    return _without_checkpoint(known, alone)


def _refused(plan: GroupPlan, verdict: OffsetVerdict) -> _Judged:
    """The result for a refused partition; one that the group never committed in is ready, as it may stay so."""
    assert verdict.refusal is not None
    said = GroupReason(verdict.refusal, plan.why(verdict))
    if verdict.refusal is Reason.NO_COMMIT:
        return _Judged(ready=True, reason=said)
    return _Judged(
        ready=False, reason=said, blocks=verdict.blocks or verdict.refusal is not Reason.NOT_MIRRORED
    )


_NO_CHECKPOINT = "no_checkpoint"


def _not_ready(reason: str, sentence: str) -> _Judged:
    return _Judged(ready=False, reason=GroupReason(reason, sentence), blocks=True)


def _without_checkpoint(known: GroupKnowledge, alone: GroupPlan | None) -> _Judged:
    """Not ready for lack of a checkpoint: a planned failover would accept the partition, an emergency would not."""
    names_group = alone is not None and any(verdict.source is not None for verdict in alone.verdicts)
    reason = _NO_CHECKPOINT if names_group else Reason.UNKNOWN_GROUP
    what = "no checkpoint of the group in this partition" if names_group else "no checkpoint of the group"
    return _not_ready(
        reason,
        f"{known.target} has {what}: an emergency failover would not know the group's offset; `mmtool replicate` writes"
        " one while it runs, unless emit.checkpoints.enabled = false or the keys `groups` and `groups.exclude` leave"
        " out the group",
    )


_AFTER_A_MOVE = frozenset({Reason.ACTIVE_ON_TARGET, Reason.WOULD_REWIND})
"""What is as it should be for a group that a failover has moved: their own remedies would move it back."""


def _with_move(known: GroupKnowledge, group: str, judged: _Judged) -> _Judged:
    """The result with the failover that moved the group to the target added to its reason."""
    mark = known.moved.get(group)
    if mark is None:
        return judged
    word, sentence = judged.reason.word, joined(judged.reason.sentence, mark.sentence)
    if word in _AFTER_A_MOVE:
        sentence = f"{mark.sentence}; nothing has to be done while the group stays on {known.target}"
    return judged._replace(reason=GroupReason(word, sentence))


def with_ages(
    rows: Iterable[GroupRow],
    unread_ms: Mapping[tuple[TopicPartition, int], int],
    missing_ms: Mapping[TopicPartition, int | None],
    now_ms: int,
) -> list[GroupRow]:
    """The rows with ``lag_seconds`` and ``rpo_seconds``.

    Args:
        rows: From `group_rows`.
        unread_ms: Timestamps of the records at committed offsets, by partition of the source and offset.
        missing_ms: Since when the first record that is not on the target has waited, by partition of the source.
        now_ms: The time, in ms since 1970.
    """

    def age(records: int | None, since_ms: int | None) -> float | None:
        return 0.0 if records == 0 else seconds_since(since_ms, now_ms)

    return [
        row._replace(
            lag_seconds=age(row.lag_records, unread_ms.get((row.place, row.committed or 0))),
            rpo_seconds=age(row.rpo_records, missing_ms.get(row.place)),
        )
        if row.place is not None
        else row
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One row per group of a flow.

    Attributes:
        ready: Whether a failover would accept it: none has moved it, and none of its partitions blocks it.
        lag_records: Over its partitions; None where none of them is known. So are the others.
        reread_max: Likewise.
        checkpoint_age_seconds: The oldest one.
        reason: Of the first partition that blocks it; or empty.
        moved: Whether a failover has moved it to the target.
    """

    group: str
    ready: bool
    lag_records: int | None
    reread_max: int | None
    checkpoint_age_seconds: float | None
    reason: GroupReason = NO_REASON
    moved: bool = False


def summaries(rows: Iterable[GroupRow]) -> list[GroupSummary]:
    """Summarize the rows of one flow: one row for each group, in the order of the rows."""
    return [_summary(name, list(of_group)) for name, of_group in groupby(rows, key=lambda row: row.group)]


def _summary(group: str, rows: Sequence[GroupRow]) -> GroupSummary:
    blocking = [row for row in rows if row.blocks_group]
    ages = [row.checkpoint_age_seconds for row in rows if row.checkpoint_age_seconds is not None]
    return GroupSummary(
        group,
        not blocking and not rows[0].moved,
        _total(row.lag_records for row in rows),
        _total(row.reread_max for row in rows),
        max(ages, default=None),
        blocking[0].reason if blocking else NO_REASON,
        rows[0].moved,
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
