"""Audit of groups on the target: one verdict for each partition of each group, with its reason.

A  every commit of a group on the source has exactly one row, and so has each uncommitted partition of a topic that it
   consumes in part
B  synced means: the commit is the right one, or within the bounds of what is known
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from mmtool.plain_text import duration
from mmtool.plan.groups.facts import GroupKind
from mmtool.plan.records.documents import OffsetKind
from mmtool.plan.words import counted
from mmtool.translation.answers import FORWARD, Bounded, Reason, Refused
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mmtool.plan.groups.facts import Commit, GroupStanding
    from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
    from mmtool.plan.records.marks import RemovedRecord
    from mmtool.translation.sync_map import OffsetPair


class AuditState(StrEnum):
    """The verdict on a group's offset on the target. The value is what users and scripts see."""

    SYNCED = "synced"
    BEHIND = "behind"
    STALE = "stale"
    EXCLUDED = "excluded"
    ACTIVE_ON_TARGET = "active_on_target"
    NO_COMMIT = "no_commit"
    NOT_MIRRORED = "not_mirrored"
    AHEAD = "ahead"
    NEVER_RAN = "never_ran"


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One partition of a group.

    Attributes:
        group: Its name.
        topic: Its name on the source; its name on the target where the source does not have it.
        partition: Its number; None for a row about a whole group.
        verdict: How the group's offset on the target compares with the translated one.
        reason: Why; empty where the verdict says all.
        upstream_offset: What the group has committed on the source; None without a commit, or where it is unknown.
        downstream_offset: Its translation to the target; None where that is unknown.
        target_offset: What the group has committed on the target.
        target_age_seconds: How long ago the group committed that; None where that is unknown.
        expires_seconds: Seconds until the target may expire that commit, unless it is renewed (KIP-211); None where
            that is unknown, and while the group has members.
        offsets: Whether mirrored records have their source's offsets on the target.
        kind: The group's kind; None where no cluster tells it.
        target_group: Its name on the target.
    """

    group: str
    topic: str | None
    partition: int | None
    verdict: AuditState
    reason: str
    upstream_offset: int | None = None
    downstream_offset: int | None = None
    target_offset: int | None = None
    target_age_seconds: float | None = None
    expires_seconds: float | None = None
    offsets: OffsetKind = OffsetKind.TRANSLATED
    kind: GroupKind | None = None
    target_group: str | None = None


@dataclass(frozen=True, slots=True)
class CommitAges:
    """When groups committed on the target, as far as that is known.

    Attributes:
        times: By group and partition, ms since 1970.
        retention_seconds: After how long the target expires the commits of a group without members.
    """

    times: Mapping[str, Mapping[TopicPartition, int]]
    now_ms: int
    retention_seconds: float

    def age(self, group: str, place: TopicPartition | None) -> float | None:
        """Seconds since the group's last commit in a partition; None where unknown."""
        at_ms = None if place is None else self.times.get(group, {}).get(place)
        return None if at_ms is None else max(0, self.now_ms - at_ms) / 1000

    def expires(self, group: str, place: TopicPartition | None) -> float | None:
        """Seconds until the target expires the commit, at the earliest; None where unknown.

        The retention of a group that had members begins when they leave, which may be later.
        """
        age = self.age(group, place)
        return None if age is None else max(0.0, self.retention_seconds - age)


def audit_group(
    plan: GroupPlan,
    there: GroupStanding,
    ages: CommitAges,
    *,
    excluded: str = "",
    unmirrored: Callable[[str], str],
) -> list[AuditRow]:
    """The audit rows of one group while both clusters answer: one for each verdict of its plan.

    Args:
        plan: Its commits translated from source to target, with no rewind allowed.
        there: Its state on the target.
        ages: The ages of its commits on the target.
        excluded: Why the flow does not select the group; empty when it does.
        unmirrored: Returns why a topic is not mirrored.
    """
    rows = []
    for verdict in plan.verdicts:
        standing, reason = (
            (AuditState.EXCLUDED, excluded) if excluded else _judged(plan, verdict, there, unmirrored)
        )
        place, committed = verdict.source, None if verdict.before is None else verdict.target
        rows.append(
            AuditRow(
                plan.group,
                place and place.topic,
                place and place.partition,
                standing,
                reason,
                None if verdict.commit is None else verdict.commit.offset,
                None
                if verdict.answer is None or isinstance(verdict.answer, Refused)
                else verdict.answer.offset,
                None if verdict.before is None else verdict.before.offset,
                ages.age(plan.group, committed),
                ages.expires(plan.group, committed) if there.idle else None,
                OffsetKind.of(verdict.same_offsets),
                plan.kind,
            )
        )
    return rows


_PLAIN = {
    Reason.NO_COMMIT: AuditState.NO_COMMIT,
    Reason.NEVER_RAN: AuditState.NEVER_RAN,
    Reason.PARTITION_MISSING: AuditState.NOT_MIRRORED,
    Reason.BEYOND_MIRROR: AuditState.STALE,
}


def _judged(
    plan: GroupPlan, verdict: OffsetVerdict, there: GroupStanding, unmirrored: Callable[[str], str]
) -> tuple[AuditState, str]:
    match verdict.refusal:
        case None | Reason.WOULD_REWIND:
            answer = verdict.answer
            assert answer is not None
            assert not isinstance(answer, Refused)
            slack = _slack(verdict)
            if slack is UNKNOWN:
                return AuditState.STALE, f"the offset on {(plan.sides or FORWARD).written} has no known bound"
            return _compared(answer.offset, slack, verdict.before, (plan.sides or FORWARD).written)
        case Reason.ACTIVE_ON_TARGET:
            return AuditState.ACTIVE_ON_TARGET, there.sentence
        case Reason.NOT_MIRRORED if verdict.target is None and verdict.source is not None:
            return AuditState.NOT_MIRRORED, unmirrored(verdict.source.topic)
        case reason if verdict.is_unasked:
            was_never_there = reason is Reason.PARTITION_MISSING and verdict.knowledge is None
            standing = AuditState.NOT_MIRRORED if was_never_there else AuditState.STALE
            return standing, f"{reason}: {plan.why(verdict)}"
        case reason:
            return _PLAIN.get(reason, AuditState.STALE), plan.why(verdict)


def _slack(verdict: OffsetVerdict) -> int | Unknown:
    """By how many records the translated position may be too low; what a share group is given again is behind it."""
    answer, commit = verdict.answer, verdict.commit
    if not isinstance(answer, Bounded) or commit is None or commit.acknowledged is UNKNOWN:
        return 0
    return UNKNOWN if answer.reread_max is UNKNOWN else answer.reread_max - commit.acknowledged


def _compared(expected: int, slack: int, before: Commit | None, where: str) -> tuple[AuditState, str]:
    """The state of the target's commit, and a sentence: compared with the expected offset and ``slack`` records."""
    if before is None:
        return AuditState.BEHIND, f"nothing is committed on {where}"
    more = before.offset - expected
    if more < 0:
        least = f"{-more:,} to " if slack else ""
        return (
            AuditState.BEHIND,
            f"on {where} the group would read {least}{counted(slack - more, 'record')} again",
        )
    if more > slack:
        return AuditState.AHEAD, f"on {where} the group would skip {counted(more - slack, 'record')}"
    return AuditState.SYNCED, f"within {counted(slack, 'record')}" if slack else ""


def audit_by_checkpoints(
    group: str,
    held: Mapping[TopicPartition, OffsetPair],
    committed: Mapping[TopicPartition, Commit],
    remote: Callable[[str], str],
    now_ms: int,
    target: str,
) -> list[AuditRow]:
    """The audit rows of one group while the source does not answer, by the last checkpoint of each partition.

    Args:
        group: The group's name.
        held: Its checkpoints, by partition of the source.
        committed: Its commits on the target.
        remote: Returns a source topic's name on the target.
        now_ms: The time, for the checkpoints' ages.
        target: The target's name in sentences.
    """
    rows = []
    for place, checkpoint in sorted(held.items()):
        before = committed.get(place._replace(topic=remote(place.topic)))
        standing, how = _compared(checkpoint.downstream, 0, before, target)
        age = max(0, now_ms - checkpoint.timestamp_ms) / 1000
        said = (
            f"{how}; the last checkpoint is {duration(age)} old"
            if before is None
            else f"{': '.join(filter(None, (standing, how)))}, compared with the checkpoint of {duration(age)} ago"
        )
        reason = f"{Reason.SOURCE_UNREACHABLE}: {said}"
        offsets = (checkpoint.upstream, checkpoint.downstream, None if before is None else before.offset)
        rows.append(AuditRow(group, *place, standing, reason, *offsets))
    return rows


def with_removed(
    rows: Iterable[AuditRow], removed: Mapping[str, RemovedRecord], source: str
) -> Iterator[AuditRow]:
    """The rows, and a row ``no_commit`` for each commit that a group no longer has on the source.

    Args:
        rows: Those of the commits that the groups have.
        removed: The removed commits, by group.
        source: The source's name in sentences.
    """
    listed = set()
    for row in rows:
        at = None if row.topic is None or row.partition is None else TopicPartition(row.topic, row.partition)
        listed.add((row.group, at))
        record = removed.get(row.group) if row.verdict is AuditState.NO_COMMIT else None
        if record is not None and at is not None and record.has(at):
            yield replace(row, reason=record.sentence(source, at))
        else:
            yield row
    for group, record in removed.items():
        for at in record.places:
            if (group, at) not in listed:
                yield AuditRow(group, *at, AuditState.NO_COMMIT, record.sentence(source, at))
