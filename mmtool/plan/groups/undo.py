"""Undo files as data: the commits that a command replaced, and which of them may be restored.

A  a group is restored whole or not at all
B  a commit is restored only while it still is what the command wrote: a group that has moved on is not moved
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.plan.records.documents import UnreadableDocumentError, decode, encode
from mmtool.plan.records.shapes import made
from mmtool.translation.answers import Reason
from mmtool.translation.types import ClusterId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mmtool.plan.groups.facts import GroupStanding
    from mmtool.plan.groups.offsets import GroupPlan

_KIND: Literal["replaced"] = "replaced"


class UndoFile(TypedDict):
    """An undo file, without its version and checksum.

    Attributes:
        kind: Always the same.
        cluster_id: The cluster on which the offsets were committed.
        replaced: Group, topic, partition, the replaced offset and metadata (null without one), the new offset and
            metadata.
    """

    kind: Literal["replaced"]
    cluster_id: str
    replaced: list[tuple[str, str, int, tuple[int, str] | None, tuple[int, str]]]


class Replaced(NamedTuple):
    """One commit that a command wrote; ``before`` is the replaced one, None where there was none."""

    group: str
    place: TopicPartition
    before: Commit | None
    written: Commit


@dataclass(frozen=True, slots=True)
class Undo:
    """What one command has replaced on one cluster."""

    cluster_id: ClusterId
    replaced: tuple[Replaced, ...]

    @classmethod
    def of(cls, cluster_id: ClusterId, plans: Iterable[GroupPlan]) -> Undo:
        """The commits that these plans are about to replace, without those that stay equal."""
        replaced = [
            Replaced(plan.written_group, place, before.get(place), written)
            for plan in plans
            for before in [plan.before()]
            for place, written in plan.to_write().items()
        ]
        return cls(cluster_id, tuple(one for one in replaced if one.before != one.written))

    def encode(self) -> bytes:
        """Encode as the bytes of an undo file, with version and checksum."""
        body: UndoFile = {
            "kind": _KIND,
            "cluster_id": self.cluster_id,
            "replaced": [
                (
                    one.group,
                    *one.place,
                    None if one.before is None else one.before.pair,
                    one.written.pair,
                )
                for one in self.replaced
            ],
        }
        return encode(dict(body))

    @classmethod
    def decode(cls, value: bytes) -> Undo:
        """Decode the bytes of an undo file.

        Raises:
            UnreadableDocumentError: The bytes are damaged, or not an undo file's.
        """
        body = decode(value)
        if body.get("kind") != _KIND:
            raise UnreadableDocumentError("it is another kind of mmtool file")
        try:
            return cls(ClusterId(body["cluster_id"]), tuple(_replaced(row) for row in body["replaced"]))
        except (KeyError, ValueError, TypeError) as error:
            raise UnreadableDocumentError("a field is missing or of another type") from error


def _replaced(row: list[Any]) -> Replaced:
    group, topic, partition, before, written = row
    return made(
        Replaced,
        group,
        made(TopicPartition, topic, partition),
        None if before is None else made(Commit, *before),
        made(Commit, *written),
    )


@dataclass(frozen=True, slots=True)
class UndoGroup:
    """One group's commits that are to be restored.

    Attributes:
        restore: The replaced commits.
        delete: Partitions that had no commit before.
        refused: By partition why it is not restored; then no partition of the group is.
        now: The current commits.
        kind: Its kind on the cluster.
    """

    group: str
    restore: Mapping[TopicPartition, Commit]
    delete: frozenset[TopicPartition]
    refused: Mapping[TopicPartition, Reason]
    now: Mapping[TopicPartition, Commit]
    kind: GroupKind = GroupKind.CONSUMER

    @property
    def has_work(self) -> bool:
        return not self.refused and bool(self.restore or self.delete)

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions to restore, to delete or refused, in order."""
        return sorted({*self.restore, *self.delete, *self.refused})


def plan_undo(
    undo: Undo,
    now: Mapping[str, Mapping[TopicPartition, Commit]],
    standing: Mapping[str, GroupStanding],
) -> list[UndoGroup]:
    """Plan which replaced commits can be restored, group by group; commits that are restored already are left out.

    Args:
        undo: The replaced commits.
        now: Each group's current commits.
        standing: Each group's current state.
    """
    groups: dict[str, list[Replaced]] = {}
    for one in undo.replaced:
        groups.setdefault(one.group, []).append(one)
    return [_plan(name, replaced, now[name], standing[name]) for name, replaced in groups.items()]


def _plan(
    group: str, replaced: list[Replaced], now: Mapping[TopicPartition, Commit], standing: GroupStanding
) -> UndoGroup:
    left = [one for one in replaced if now.get(one.place) != one.before]
    refused = {}
    for one in left:
        if not standing.idle:
            refused[one.place] = Reason.ACTIVE_ON_TARGET
        elif now.get(one.place) != one.written:
            refused[one.place] = Reason.WOULD_REWIND
    return UndoGroup(
        group,
        {one.place: one.before for one in left if one.before is not None},
        frozenset(one.place for one in left if one.before is None),
        refused,
        now,
        standing.kind,
    )
