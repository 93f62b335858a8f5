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
"""By group and partition on the cluster that was written to, whether a new offset stands; None where nobody knows."""

NOTHING: Final[WrittenPlaces] = MappingProxyType({})


def translation_rows(plans: Iterable[GroupPlan], written: WrittenPlaces = NOTHING) -> list[Row]:
    """``translate-offsets``: one row per group and partition."""
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
    """The records around an answer: offset and digest on both sides."""
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
    """Topic and partition as the source calls them."""
    known = verdict.source or verdict.target
    return {
        "topic": verdict.source and verdict.source.topic,
        "partition": known and known.partition,
    }


def offset_of(verdict: Verdict) -> int | None:
    """Where the commit leads on the other cluster, when that is known."""
    match verdict.answer:
        case None | Refused():
            return None
        case Exact(offset) | Bounded(offset, _) | Skipping(offset, _):
            return offset
        case _:
            assert_never(verdict.answer)


def exactness(verdict: Verdict) -> str:
    """``exact``, ``bounded`` or ``refused``; a refusal counts whatever the answer would be."""
    if verdict.refusal is not None:
        return "refused"
    return "exact" if isinstance(verdict.answer, Exact) else "bounded"


def reread_max(verdict: Verdict) -> int | None:
    """Records that the group reads again at most; unknown where there is no answer."""
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
    """Records that the group is expected to read again, where the living source was asked: unknown between bounds."""
    return 0 if reread_max(verdict) == 0 else None


def reread_of(plans: Iterable[GroupPlan]) -> int:
    """Records that groups read again at most, over all of them."""
    return sum(reread_max(verdict) or 0 for plan in plans for verdict in plan.verdicts)


def reset_lines(plans: Iterable[GroupPlan], *, with_group: bool) -> Iterator[ResetLine]:
    """Where groups would go on, as Kafka's reset file has it: exact and bounded partitions, no refused ones.

    Args:
        plans: Of which groups.
        with_group: Four columns (group first), as Kafka asks for more than one ``--group``; else three.
    """
    for plan in plans:
        for verdict in plan.verdicts:
            place, offset = plan.written_to(verdict), offset_of(verdict)
            if verdict.refusal is None and place is not None and offset is not None:
                yield ResetLine(plan.group if with_group else None, place, offset)
