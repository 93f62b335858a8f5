"""A control topic as it was read: the records of owners, workers and operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.records.documents import (
    CommitRatesRecord,
    ControlRecord,
    FlowRecord,
    OffsetWritersRecord,
    OwnerRecord,
    PauseRecord,
    PositionRecord,
    PrefillRecord,
    RefusedRecord,
    ShardRecord,
    SharesRecord,
    State,
    UseRecord,
    position_key,
)
from mmtool.plan.records.holds import Holds
from mmtool.plan.records.identity import decode_control
from mmtool.plan.records.marks import (
    FailedOverRecord,
    GroupNameRecord,
    LookRecord,
    MovedGroupRecord,
    RemovedRecord,
    VerifiedRecord,
    note_move,
)
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from mmtool.plan.flow.positions import PositionTrails
    from mmtool.plan.records.documents import Document
    from mmtool.plan.records.holds import Pauses
    from mmtool.translation.types import TopicId

    Place = tuple[TopicId, int]


_ONE_OF_A_FLOW: Mapping[type, str] = {
    FlowRecord: "flow",
    OwnerRecord: "owner",
    OffsetWritersRecord: "offset_writers",
    LookRecord: "look",
}
"""The documents that a flow has once, and their attributes in the view."""
_BY_KEY: Mapping[type, str] = {
    PositionRecord: "_positions",
    RefusedRecord: "refusals",
    CommitRatesRecord: "rates",
    PrefillRecord: "prefills",
}
"""The documents that a tombstone removes, and the view's mapping of each kind by its key."""


@dataclass(slots=True)
class ControlView:
    """The content of a control topic.

    Attributes:
        controls: Keys of owners' commands to their workers, and of the answers, which a new owner deletes.
        holds: The pauses and failed-over marks that keep topics from being mirrored.
        refusals: The topics that owners refused to mirror, by key, those of earlier owners included.
        moved: Groups that now belong to the target; only marks in force.
        group_names: The stored names of groups on the target, by their names on the source.
        rates: The last measured commit rate of each group on the source, by the key of its record.
        removed: Commits that groups no longer have on the source; an empty record for a group that has them again.
        verified: The offsets up to which both sides of a partition were found the same, by topic id and number.
        prefills: The target topics whose policy a prefill has changed, by the key of their record.
        look: When the owner last read the source's commits and had written what followed from them.
        end: The topic's end offset when it was read: later records are at or after it.
        trails: The workers' earlier positions; None where they were not requested.
    """

    flow: FlowRecord | None = None
    shards: dict[int, ShardRecord] = field(default_factory=dict)
    owner: OwnerRecord | None = None
    controls: set[bytes] = field(default_factory=set)
    holds: Holds = field(default_factory=Holds)
    refusals: dict[bytes, RefusedRecord] = field(default_factory=dict)
    moved: dict[str, MovedGroupRecord] = field(default_factory=dict)
    group_names: dict[str, str] = field(default_factory=dict)
    rates: dict[bytes, CommitRatesRecord] = field(default_factory=dict)
    removed: dict[str, RemovedRecord] = field(default_factory=dict)
    verified: dict[tuple[str, int], VerifiedRecord] = field(default_factory=dict)
    look: LookRecord | Unknown = UNKNOWN
    offset_writers: OffsetWritersRecord | None = None
    prefills: dict[bytes, PrefillRecord] = field(default_factory=dict)
    end: int = 0
    trails: PositionTrails | None = None
    _positions: dict[bytes, PositionRecord] = field(default_factory=dict)
    _slots: SlotsRecord | None = None

    @property
    def positions(self) -> dict[tuple[str, int], PositionRecord]:
        """Each partition's position, by topic id and partition number; paused and failed-over ones are marked so."""
        return {(p.topic_id, p.partition): self.holds.shown(p) for p in self._positions.values()}

    def written_position(self, topic_id: str, partition: int) -> PositionRecord | None:
        """A partition's position as its worker wrote it, without pauses and marks; None before the first one."""
        return self._positions.get(position_key(topic_id, partition))

    @property
    def slots(self) -> SlotsRecord | None:
        """The last owner's record of its Spark slots; None until that owner has written one."""
        is_owner = (
            self._slots is not None and self.owner is not None and self._slots.owner == self.owner.owner
        )
        return self._slots if is_owner else None

    @property
    def refused(self) -> dict[str, str]:
        """The source topics that the last owner refuses to mirror, with its reasons."""
        return self.refused_beside(())

    def refused_beside(self, there: Container[str]) -> dict[str, str]:
        """The refused topics, as `refused`, without deleted ones whose name is in ``there``: that is a new topic."""
        last = self.owner.owner if self.owner is not None else None
        return {
            word.topic: word.reason
            for word in self.refusals.values()
            if word.owner == last and not (word.gone and word.topic in there)
        }

    @property
    def unwatched(self) -> frozenset[tuple[str, int]]:
        """Partitions whose end on the source no worker reads: halted or paused, whether failed over too or not."""
        return frozenset(
            (p.topic_id, p.partition)
            for p in self._positions.values()
            if p.state == State.HALTED or self.pauses.of(p.topic_id) is not None
        )

    @property
    def pauses(self) -> Pauses:
        """The pauses that operators have set."""
        return self.holds.pauses

    @property
    def failed_over(self) -> Mapping[str, FailedOverRecord]:
        """Failed-over topics, by their names on the source; only marks in force."""
        return self.holds.failed_over

    def asked_ms(self, group: str) -> int | Unknown:
        """When the owner last read a group's commits, in ms since 1970; UNKNOWN if never."""
        return UNKNOWN if self.look is UNKNOWN else self.look.asked_ms(group)

    def apply(self, key: bytes, value: bytes | None, offset: int) -> None:
        """Apply one record of the control topic to this view.

        Raises:
            UnreadableDocumentError: the value cannot be read; a later read of the log raises again.
        """
        document = None if value is None else decode_control(key, value)
        self.end = max(self.end, offset + 1)
        if value is None:
            self.controls.discard(key)
            for attribute in _BY_KEY.values():
                getattr(self, attribute).pop(key, None)
        elif name := _ONE_OF_A_FLOW.get(type(document)):
            setattr(self, name, document)
        elif by_key := _BY_KEY.get(type(document)):
            getattr(self, by_key)[key] = document
        elif isinstance(document, ShardRecord):
            self.shards[document.shard] = document
        elif isinstance(document, SlotsRecord):
            self.controls.add(key)
            self._slots = document
        elif isinstance(document, (ControlRecord, SharesRecord, UseRecord)):
            self.controls.add(key)
        else:
            self._apply_mark(document)

    def _apply_mark(self, document: Document | None) -> None:
        """Apply a pause, a mark, a moved group, verified offsets, or a group that the source lost."""
        if isinstance(document, (PauseRecord, FailedOverRecord)):
            self.holds = self.holds.with_word(document)
        elif isinstance(document, MovedGroupRecord):
            note_move(self.moved, document)
        elif isinstance(document, GroupNameRecord):
            self.group_names[document.group] = document.target_group
        elif isinstance(document, VerifiedRecord):
            self.verified[document.topic_id, document.partition] = document
        elif isinstance(document, RemovedRecord):
            self.removed[document.group] = document
