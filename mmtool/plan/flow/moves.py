"""Plan moves of a flow's stored positions (seek, forget), and the sentences that send an operator to them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.words import are, counted
from mmtool.translation.answers import Reason
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection

    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset


START_AGAIN = "then start `mmtool replicate` again"


def seek_to(place: TopicPartition, offset: int | str, flow: str) -> str:
    """The steps after which mirroring of a partition continues at an offset of the source.

    Args:
        place: The source partition.
        offset: The offset, or a word that stands for it.
        flow: The options that select the flow.
    """
    return (
        f"stop `mmtool replicate`, write the line `{place.topic},{place.partition},{offset}` to a file offsets.csv, run"
        f" `mmtool flow seek {flow} --csv offsets.csv --execute`, {START_AGAIN}"
    )


def by_other_system(topic: str, target: str) -> str:
    """What mirrors a topic again whose mirror another system keeps: `mmtool flow` is refused for it."""
    return (
        f"let the system that keeps the mirrors (mmtool.mirror = external) mirror {topic} to {target} again"
    )


MISSING = "a cluster does not have the partition"
"""The meaning of the reason partition_missing."""


def forget_missing(flow: str) -> str:
    """What deletes the stored state of a topic that a cluster does not have."""
    return (
        f"`mmtool flow forget {flow} --topic TOPIC --execute` deletes the stored state of a topic that a cluster no"
        " longer has; if the source has the topic, the next start of `mmtool replicate` mirrors it from `mmtool.start`"
    )


def rebuild(topic: str, flow: str) -> str:
    """The steps that derive a topic's offset runs from both logs."""
    return (
        f"stop `mmtool replicate`, run `mmtool flow rebuild {flow} --topic {topic} --execute`, {START_AGAIN}"
    )


class Action(StrEnum):
    """What is done with one partition (``action`` in the rows)."""

    BEGIN = "begin"
    SKIP = "skip"
    REPEAT = "repeat"
    FORGET = "forget"
    REBUILD = "rebuild"
    PAUSE = "pause"
    RESUME = "resume"
    KEEP = "keep"
    REFUSE = "refuse"


class FlowRow(NamedTuple):
    """One partition in the output of every ``mmtool flow`` verb; None where a value is unknown or not stored.

    Attributes:
        source: The alias of the flow's source cluster.
        target: The alias of the flow's target cluster.
        topic: Its name on the source.
        partition: Its number.
        target_topic: The topic's name on the target.
        upstream_before: The next offset to mirror, before the command.
        upstream_after: The next offset to mirror, after the command.
        downstream_after: The lowest target offset that the next mirrored record can get.
        records_skipped: The number of offsets that are never mirrored; they may hold fewer records.
        records_repeated: Records that will be on the target once more.
        records_mapped: Records whose offset is known exactly on both sides; only `rebuild` counts them.
        action: What is done with the partition.
        state: Of `pause` and `resume`: the partition's state.
        reason: Why; empty where the action says all.
    """

    source: str
    target: str
    topic: str
    partition: int
    target_topic: str
    upstream_before: int | None = None
    upstream_after: int | None = None
    downstream_after: int | None = None
    records_skipped: int = 0
    records_repeated: int = 0
    records_mapped: int | None = None
    action: str = Action.KEEP
    state: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PositionMove:
    """The change of one partition's stored state.

    Attributes:
        before: Its frontier; None where it was never mirrored.
        after: The next offset to mirror; None where the next start decides it.
        downstream: The lowest target offset that the next record can get; None where that is not known yet.
        skipped, repeated: As in `FlowRow`.
    """

    facts: PartitionFacts
    action: Action
    before: UpstreamOffset | None
    after: UpstreamOffset | None
    downstream: DownstreamOffset | None = None
    skipped: int = 0
    repeated: int = 0
    reason: str = ""

    @property
    def is_to_the_end(self) -> bool:
        """Whether the source has no record at or after ``after``."""
        log = self.facts.source_log
        return self.after is not None and log is not UNKNOWN and self.after >= log.log_end

    def row(self, source: str, target: str) -> FlowRow:
        """The move as a row, with the aliases of the flow's clusters."""
        return FlowRow(
            source=source,
            target=target,
            topic=self.facts.source.topic,
            partition=self.facts.source.partition,
            target_topic=self.facts.target.topic,
            upstream_before=self.before,
            upstream_after=self.after,
            downstream_after=self.downstream,
            records_skipped=self.skipped,
            records_repeated=self.repeated,
            action=self.action,
            reason=self.reason,
        )


def plan_seek(facts: PartitionFacts, to: UpstreamOffset | Unknown) -> PositionMove:
    """Plan that the mirror of a partition continues at ``to``, or at the source's log start if that is later.

    A move forward is recorded as a gap in the offset runs. A move backward deletes the offset runs, because one
    ascending map cannot hold records twice, and the mirror starts again; so it does where the target's log ends
    before the end that was stored as verified. A mirror that keeps the source's offsets cannot hold records twice at
    all: it only moves forward.

    Args:
        facts: The partition on both sides.
        to: The offset of the source; UNKNOWN where the source has none.
    """
    log, known = facts.source_log, facts.map
    before = None if known is None else known.upstream_frontier
    if log is UNKNOWN or to is UNKNOWN:
        return PositionMove(facts, Action.REFUSE, before, before, reason=Reason.PARTITION_MISSING)
    if to > log.log_end:
        return PositionMove(facts, Action.REFUSE, before, before, reason=Reason.BEYOND_SOURCE_END)
    position = max(to, log.log_start)
    clamped = (
        ""
        if position == to
        else f"the source's log starts at {position}, after the requested offset: mirroring continues at {position}"
    )
    if known is None:
        target = facts.target_log
        end = None if target is UNKNOWN else target.log_end
        unread = position - log.log_start
        return PositionMove(facts, Action.BEGIN, None, position, end, skipped=unread, reason=clamped)
    return _from(known, facts, position, log.log_start, clamped)


def _from(
    known: PartitionMap, facts: PartitionFacts, position: UpstreamOffset, log_start: int, clamped: str
) -> PositionMove:
    """The move of a mirrored partition from its frontier to ``position``."""
    before, target, end = known.upstream_frontier, facts.target_log, known.tail.downstream_end.position
    if target is UNKNOWN:
        return PositionMove(facts, Action.REFUSE, before, before, reason=Reason.PARTITION_MISSING)
    unread = max(0, position - max(before, log_start))
    whole = target.log_end >= known.tail.target_verified_end
    if whole and position >= before:
        action = Action.SKIP if position > before else Action.KEEP
        return PositionMove(facts, action, before, position, end, skipped=unread, reason=clamped)
    if known.same_offsets:
        return PositionMove(facts, Action.REFUSE, before, before, reason=Reason.WOULD_REWIND)
    again = known.runs.records - known.runs.records_below(position)
    return PositionMove(facts, Action.REPEAT, before, position, target.log_end, unread, again, clamped)


def plan_forget(facts: PartitionFacts, begins: UpstreamOffset | Unknown, *, shown: bool) -> PositionMove:
    """Plan the deletion of a partition's stored state.

    Args:
        facts: The partition.
        begins: The offset of the next start (``mmtool.start``); UNKNOWN where the source no longer has the partition.
        shown: Whether a position is stored for `status`.
    """
    known = facts.map
    if known is None:
        action = Action.FORGET if shown else Action.KEEP
        return PositionMove(facts, action, None, None, reason="" if shown else "nothing is stored")
    frontier = known.upstream_frontier
    if begins is UNKNOWN:
        return PositionMove(facts, Action.FORGET, frontier, None)
    skipped = max(0, begins - frontier)
    repeated = known.runs.records - known.runs.records_below(begins)
    return PositionMove(facts, Action.FORGET, frontier, None, None, skipped, repeated)


def refused(moves: Collection[PositionMove]) -> dict[Reason, list[PositionMove]]:
    """The moves that cannot be made, by reason."""
    found: dict[Reason, list[PositionMove]] = {}
    for move in moves:
        if move.action is Action.REFUSE:
            found.setdefault(Reason(move.reason), []).append(move)
    return found


def changes(moves: Collection[PositionMove]) -> bool:
    """Whether executing the moves would change anything."""
    return any(move.action not in (Action.KEEP, Action.REFUSE) for move in moves)


def sentences(moves: Collection[PositionMove], target: str) -> list[str]:
    """The effects of the moves, for the operator who confirms them: one sentence for each action."""
    said = []
    for action in (Action.BEGIN, Action.SKIP, Action.REPEAT, Action.FORGET):
        of = [move for move in moves if move.action is action]
        if of:
            skipped, repeated = sum(move.skipped for move in of), sum(move.repeated for move in of)
            said.append(f"{counted(len(of), 'partition')} {_effect(action, skipped, repeated, target)}")
    kept = 0  # mirrors with records at the source's own offsets, behind which none can begin a second time
    for move in moves:
        log, known = move.facts.target_log, move.facts.map
        has_records = log is not UNKNOWN and log.log_end > 0
        kept += move.action is Action.FORGET and known is not None and known.same_offsets and has_records
    if kept:
        said.append(
            f"{target} has records of {counted(kept, 'partition')} at the source's own offsets: with"
            " mmtool.offsets = same the next `mmtool replicate` halts there with offsets_differ; delete the topic on"
            f" {target} first"
        )
    return said


def _effect(action: Action, skipped: int, repeated: int, target: str) -> str:
    most = f"at most {counted(skipped, 'record')}"
    lost = f"{most} {are(skipped)} never mirrored"
    match action:
        case Action.BEGIN:
            said = "will be started at the new position by the next `mmtool replicate`"
            lost = f"{most} before that position {are(skipped)} never mirrored"
        case Action.SKIP:
            return (
                f"will be moved forward: {lost}; committed offsets of the skipped records are no longer translated to"
                f" {target} (reason not_mirrored)"
            )
        case Action.REPEAT:
            again = f"{counted(repeated, 'record')} will be on {target} a second time, after the first copies"
            copies = again if repeated else f"no record will be on {target} a second time"
            said = (
                f"will be restarted: {copies}; committed offsets before the new position are no longer translated"
                " (reason not_mirrored); later ones are not translated until their records are mirrored again (reason"
                " beyond_mirror)"
            )
        case _:
            again = f" and copies {counted(repeated, 'record')} a second time" if repeated else ""
            said = (
                f"will be forgotten: the records on {target} stay; where the source still has the topic, the next"
                f" `mmtool replicate` mirrors it again from mmtool.start on{again}; until then no committed offset of"
                " the topic is translated (reason never_ran)"
            )
    return f"{said}; {lost}" if skipped else said
