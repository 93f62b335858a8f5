"""Failover plans as rows of the output contract."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from mmtool.plan.groups.offsets import Direction
from mmtool.plan.groups.reset_csv import ResetLine
from mmtool.translation.answers import Bounded, Exact, Refused, Skipping
from mmtool.translation.lockstep import NO_PROOF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.plan.groups.offsets import GroupPlan, Verdict
    from mmtool.translation.lockstep import Copied, Proof
    from mmtool.translation.types import TopicPartition

Row = dict[str, object]

WrittenPlaces: TypeAlias = "Mapping[tuple[str, TopicPartition], bool | None]"
"""By group and partition of the destination: whether the new offset is stored; None if that is unknown."""

NOTHING: Final[WrittenPlaces] = MappingProxyType({})


def translation_rows(plans: Iterable[GroupPlan], written: WrittenPlaces = NOTHING) -> list[Row]:
    """The rows of ``translate-offsets``: one per group and partition."""
    return [_row(plan, verdict, written) for plan in plans for verdict in plan.verdicts]


def _row(plan: GroupPlan, verdict: Verdict, written: WrittenPlaces) -> Row:
    read, led = verdict.commit and verdict.commit.offset, offset_of(verdict)
    upstream, downstream = (read, led) if plan.direction is Direction.FORWARD else (led, read)
    place = plan.written_to(verdict)
    return {
        "group": verdict.group,
        **places(verdict),
        "upstream_offset": upstream,
        "target_topic": verdict.target and verdict.target.topic,
        "downstream_offset": downstream,
        "exactness": exactness(verdict),
        "reread_max": reread_max(verdict),
        "skip_max": verdict.answer.skip_max if isinstance(verdict.answer, Skipping) else 0,
        "reason": verdict.refusal or "",
        "knowledge": verdict.knowledge,
        "target_offset_before": verdict.before and verdict.before.offset,
        "written": place is not None and written.get((plan.group, place), False),
        "proof": _proof(verdict.proof),
        "detail": plan.why(verdict),
    }


def _proof(proof: Proof) -> Row | None:
    """The records next to an answer, with offset and digest on both clusters; None without proof."""
    return None if proof == NO_PROOF else {"before": _copied(proof.before), "after": _copied(proof.after)}


def _copied(pair: Copied | None) -> Row | None:
    if pair is None:
        return None
    return {
        "upstream_offset": pair.upstream.offset,
        "upstream_sha256": pair.upstream.digest.hex(),
        "downstream_offset": pair.downstream.offset,
        "downstream_sha256": pair.downstream.digest.hex(),
    }


def places(verdict: Verdict) -> Row:
    """A verdict's topic and partition, by the topic's name on the source."""
    known = verdict.source or verdict.target
    return {
        "topic": verdict.source and verdict.source.topic,
        "partition": known and known.partition,
    }


def offset_of(verdict: Verdict) -> int | None:
    """The offset that a verdict's answer gives on the cluster that is written to; None without such an answer."""
    match verdict.answer:
        case None | Refused():
            return None
        case Exact(offset) | Bounded(offset, _) | Skipping(offset, _):
            return offset
        case _:
            assert_never(verdict.answer)


def exactness(verdict: Verdict) -> str:
    """``exact``, ``bounded`` or ``refused``; ``refused`` also if the partition has an answer but may not be written."""
    if verdict.refusal is not None:
        return "refused"
    return "exact" if isinstance(verdict.answer, Exact) else "bounded"


def reread_max(verdict: Verdict) -> int | None:
    """Records that the group reads again in a partition, at most; None if there is no translated offset."""
    match verdict.answer:
        case None | Refused():
            return None
        case Bounded(_, most):
            return most
        case Exact() | Skipping():
            return 0
        case _:
            assert_never(verdict.answer)


def reread_expected(verdict: Verdict) -> int | None:
    """Expected re-read records where the source answers: 0 if `reread_max` is 0, else None (unknown)."""
    return 0 if reread_max(verdict) == 0 else None


def reread_of(plans: Iterable[GroupPlan]) -> int:
    """Records that groups read again at most, summed over all partitions."""
    return sum(reread_max(verdict) or 0 for plan in plans for verdict in plan.verdicts)


def reset_lines(plans: Iterable[GroupPlan], *, with_group: bool) -> Iterator[ResetLine]:
    """Lines of Kafka's reset file with the translated offsets of all partitions that are not refused.

    Args:
        plans: The groups' plans.
        with_group: Four columns (group first), as Kafka requires for more than one ``--group``; else three.
    """
    for plan in plans:
        for verdict in plan.verdicts:
            place, offset = plan.written_to(verdict), offset_of(verdict)
            if verdict.refusal is None and place is not None and offset is not None:
                yield ResetLine(plan.group if with_group else None, place, offset)
