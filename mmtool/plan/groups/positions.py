"""Positions that no group has committed, such as those of a sink's database, translated as commits are.

One verdict for each position, in the order of the file. Without the source, a position is refused as
source_unreachable where the source's answer could change the result, and only there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from mmtool.plain_text import nearest
from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict, PartitionFacts, Rules, plan_group
from mmtool.translation.answers import Exact, Reason
from mmtool.translation.types import TopicPartition

_TAKE_LATER = (
    "translate a later position, or, without --reverse, continue at the next copied record by --allow-skip"
)
_SENTENCES: Final = {
    Reason.NEVER_RAN: "the flow has never mirrored this partition: `mmtool status -c FILE` shows why",
    Reason.BEYOND_MIRROR: "the position is past the last mirrored record: let `mmtool replicate` catch up;"
    " if {source} is lost, start at the end of the mirror",
    Reason.BEYOND_SOURCE_END: "the position on {read}, or its translation on {written}, is past the log's end: check"
    " the offset, and whether the topic was truncated or recreated",
    Reason.TARGET_LOG_START_PASSED: "the records after the position are deleted: " + _TAKE_LATER,
    Reason.PARTITION_MISSING: "{read} or {written} has no such partition of the topic, or the topic was recreated:"
    " check the partition number",
    Reason.NOT_MIRRORED: "the flow has not mirrored the records after the position: " + _TAKE_LATER,
    Reason.SOURCE_UNREACHABLE: "only {source} can tell: run the command again when {source} answers",
    Reason.MIRROR_NOT_VERIFIED: "the mirror is not kept by mmtool, and the records around the position are not known to"
    " be the same on {written}: run `mmtool verify -c FILE`, or add --accept-unverified",
    Reason.AMBIGUOUS: "several offsets on {written} are possible: compare the records around the position on both"
    " clusters; where MirrorMaker 2 runs the flow, add --refine",
}
_BY_SOURCE: Final = frozenset({Reason.NEVER_RAN, Reason.NOT_MIRRORED, Reason.AMBIGUOUS})
_OUTSIDE: Final = {
    Direction.FORWARD: "the flow does not mirror this topic from {read}: name topics as on {read} (with --reverse, as"
    " on {written}), which `topics` and `topics.exclude` allow",
    Direction.REVERSE: "this topic on {read} is not a mirror of a topic on {written}: name topics as on {read}",
}


def plan_positions(
    positions: Mapping[TopicPartition, int],
    partitions: Mapping[TopicPartition, PartitionFacts],
    rules: Rules,
    may_mirror: Callable[[str], bool],
    *,
    every_partition: bool = False,
) -> GroupPlan:
    """Translate every position as a group's commit there: a verdict for each.

    Args:
        positions: The next offset to read in each partition, by the topic's name on the cluster that is read.
        partitions: Every partition that is known of the flow, by the same names.
        rules: The direction, what the operator allows, and whether the source was asked.
        may_mirror: Without the source's answer: whether the flow mirrors a topic of that name, if it exists.
        every_partition: Add a verdict without an offset for each other partition of the topics.
    """
    commits = {place: Commit(offset) for place, offset in positions.items()}
    plan = plan_group(GroupFacts("", commits), partitions, rules)
    found = {plan.read_from(verdict): verdict for verdict in plan.verdicts}
    topics, (read, written, is_reverse, _) = {place.topic for place in partitions}, rules.sides
    lines = []
    for place in positions:
        verdict, facts = found.pop(place), partitions.get(place)
        refusal = _refusal(verdict, place, facts, rules, may_mirror, is_inside=place.topic in topics)
        is_outside = refusal is Reason.NOT_MIRRORED and facts is None
        detail = "" if facts is None else facts.problems
        if refusal is not None and not detail:
            template = _OUTSIDE[rules.direction] if is_outside else _SENTENCES.get(refusal, "")
            detail = template.format(read=read, written=written, source=written if is_reverse else read)
        lines.append(
            replace(
                verdict,
                answer=None if refusal is Reason.SOURCE_UNREACHABLE else verdict.answer,
                refusal=refusal,
                blocks=refusal is not None and not is_outside,
                detail=detail,
                nearest=nearest(place.topic, topics) if is_outside else None,
            )
        )
    return replace(plan, verdicts=(*lines, *(found.values() if every_partition else ())))


def _refusal(
    verdict: OffsetVerdict,
    place: TopicPartition,
    facts: PartitionFacts | None,
    rules: Rules,
    may_mirror: Callable[[str], bool],
    *,
    is_inside: bool,
) -> Reason | None:
    """Why a position is refused; None where it has an answer."""
    if facts is None:
        if rules.source_asked:
            return Reason.PARTITION_MISSING if is_inside else Reason.NOT_MIRRORED
        return Reason.SOURCE_UNREACHABLE if is_inside or may_mirror(place.topic) else Reason.NOT_MIRRORED
    if rules.source_asked:
        return verdict.refusal
    # what the source has deleted, MM2's topics on it, and runs of the reverse flow may answer these
    answer = verdict.answer
    is_same = facts.same_offsets and isinstance(answer, Exact) and verdict.commit == Commit(answer.offset)
    needs_source = verdict.refusal in _BY_SOURCE or (facts.has_others and not is_same)
    return Reason.SOURCE_UNREACHABLE if needs_source else verdict.refusal
