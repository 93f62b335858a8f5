"""Failover plans as rows of the output contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NotRequired, TypeAlias, TypedDict, assert_never

from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.plan.groups.imports import ResetLine
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.records.documents import OffsetKind
from mmtool.translation.answers import Bounded, Exact, Knowledge, Reason, Refused, Skipping
from mmtool.translation.lockstep import NO_PROOF, Copied, Proof
from mmtool.translation.types import TopicPartition, or_none

Row: TypeAlias = Mapping[str, object]

Exactness = Literal["exact", "bounded", "refused"]


class PlaceRow(TypedDict):
    """A partition of the source.

    Attributes:
        topic: By its name on the source; null where only the target has it.
        partition: Its number; null for a row about a whole group.
    """

    topic: str | None
    partition: int | None


class CopiedRow(TypedDict):
    """A record and its copy.

    Attributes:
        upstream_offset: On the source.
        upstream_sha256: The digest of the record on the source, in hexadecimal digits.
        downstream_offset: On the target.
        downstream_sha256: The digest of the copy on the target.
    """

    upstream_offset: int
    upstream_sha256: str
    downstream_offset: int
    downstream_sha256: str


class ProofRow(TypedDict):
    """The records next to a translated offset.

    Attributes:
        before: The last record before the offset, and its copy; null where there is none.
        after: The record at the offset, and its copy; null where there is none.
    """

    before: CopiedRow | None
    after: CopiedRow | None


class TranslationRow(PlaceRow):
    """One partition of a group in `mmtool translate-offsets`.

    Attributes:
        group: Its name; null with --positions.
        upstream_offset: On the source: committed there; with --reverse the translated offset.
        target_topic: The topic's name on the target.
        downstream_offset: On the target: the translated offset; with --reverse committed there.
        exactness: How far the translated offset is certain.
        reread_max: Records that the group reads again at most; null without a translated offset.
        skip_max: Records that the group skips at most.
        reason: Why the offset is refused; empty where it is not.
        knowledge: What the answer is based on; null where there is no commit, or nothing to translate
            it by.
        target_offset_before: Committed on the cluster that is written to, before the command.
        written: Whether the new offset is stored; null if that is unknown.
        proof: With --refine: the records next to the offset, read on both clusters; null without proof.
        detail: The reason as a sentence.
        offsets: Whether mirrored records have their source's offsets on the target.
        kind: The group's kind.
        target_group: The group's name on the target; null with --positions.
    """

    group: str | None
    upstream_offset: int | None
    target_topic: str | None
    downstream_offset: int | None
    exactness: Exactness
    reread_max: int | None
    skip_max: int
    reason: Reason | Literal[""]
    knowledge: Knowledge | None
    target_offset_before: int | None
    written: bool | None
    proof: ProofRow | None
    detail: str
    offsets: OffsetKind
    kind: GroupKind
    target_group: str | None


class ImportedRow(TypedDict):
    """One partition of a group in `mmtool groups import`.

    Attributes:
        group: Its name.
        topic: Its name on the target.
        partition: Its number.
        offset: The offset to commit; null where the commit is to be deleted, as the group
            had none before.
        reason: Why the offset is refused; empty where it is not.
        offset_before: Committed before; null without a commit.
        written: Whether the offset is stored; null if that is unknown.
        kind: The group's kind: that on the target, else that which the import creates.
        detail: The reason as a sentence; not for an undo file.
    """

    group: str
    topic: str
    partition: int
    offset: int | None
    reason: Reason | Literal[""]
    offset_before: int | None
    written: bool | None
    kind: GroupKind
    detail: NotRequired[str]


WrittenPlaces: TypeAlias = "Mapping[tuple[str, TopicPartition], bool | None]"
"""By group and partition of the destination: whether the new offset is stored; None if that is unknown."""

NOTHING: Final[WrittenPlaces] = MappingProxyType({})


def translation_rows(plans: Iterable[GroupPlan], written: WrittenPlaces = NOTHING) -> list[TranslationRow]:
    """The rows of ``translate-offsets``: one per group and partition."""
    return [_row(plan, verdict, written) for plan in plans for verdict in plan.verdicts]


def position_rows(plan: GroupPlan) -> list[TranslationRow]:
    """The rows of ``translate-offsets --positions``: one for each line of the file."""
    lines = (verdict for verdict in plan.verdicts if verdict.commit is not None)
    return [{**_row(plan, verdict, NOTHING), "group": None, "target_group": None} for verdict in lines]


def _row(plan: GroupPlan, verdict: OffsetVerdict, written: WrittenPlaces) -> TranslationRow:
    read, led = offset_in(verdict.commit), offset_of(verdict)
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
        "target_offset_before": offset_in(verdict.before),
        "written": place is not None and written.get((plan.group, place), False),
        "proof": _proof(verdict.proof),
        "detail": plan.why(verdict),
        "offsets": OffsetKind.of(verdict.same_offsets),
        "kind": plan.kind,
        "target_group": plan.target_group,
    }


def _proof(proof: Proof) -> ProofRow | None:
    """The records next to an answer, with offset and digest on both clusters; None without proof."""
    return None if proof == NO_PROOF else {"before": _copied(proof.before), "after": _copied(proof.after)}


def _copied(pair: Copied | None) -> CopiedRow | None:
    if pair is None:
        return None
    return {
        "upstream_offset": pair.upstream.offset,
        "upstream_sha256": pair.upstream.digest.hex(),
        "downstream_offset": pair.downstream.offset,
        "downstream_sha256": pair.downstream.digest.hex(),
    }


def places(verdict: OffsetVerdict) -> PlaceRow:
    """A verdict's topic and partition, by the topic's name on the source."""
    known = verdict.source or verdict.target
    return {
        "topic": verdict.source and verdict.source.topic,
        "partition": known and known.partition,
    }


def offset_in(commit: Commit | None) -> int | None:
    """The offset of a commit; None without a commit."""
    return None if commit is None else commit.offset


def offset_of(verdict: OffsetVerdict) -> int | None:
    """The offset that a verdict's answer gives on the cluster that is written to; None without such an answer."""
    match verdict.answer:
        case None | Refused():
            return None
        case Exact(offset) | Bounded(offset, _) | Skipping(offset, _):
            return offset
        case _:
            assert_never(verdict.answer)


def exactness(verdict: OffsetVerdict) -> Exactness:
    """``exact``, ``bounded`` or ``refused``; ``refused`` also if the partition has an answer but may not be written."""
    if verdict.refusal is not None:
        return "refused"
    return "exact" if isinstance(verdict.answer, Exact) else "bounded"


def reread_max(verdict: OffsetVerdict) -> int | None:
    """Records that the group reads again in a partition, at most; None if that is unknown, or no offset is known."""
    match verdict.answer:
        case None | Refused():
            return None
        case Bounded(_, most):
            return or_none(most)
        case Exact() | Skipping():
            return 0
        case _:
            assert_never(verdict.answer)


def reread_expected(verdict: OffsetVerdict) -> int | None:
    """Expected re-read records where the source answers: 0 if `reread_max` is 0, else None (unknown)."""
    return 0 if reread_max(verdict) == 0 else None


def reread_of(plans: Iterable[GroupPlan]) -> int | None:
    """Records that groups read again at most, summed over all partitions; None if one has no known bound."""
    bounds = [
        reread_max(verdict) for plan in plans for verdict in plan.verdicts if verdict.answer is not None
    ]
    known = [most for most in bounds if most is not None]
    return sum(known) if len(known) == len(bounds) else None


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
                yield ResetLine(plan.written_group if with_group else None, place, offset)
