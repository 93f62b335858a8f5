"""The row of an operation in the output contract, as every verb of ``mmtool failover`` prints it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NotRequired, TypedDict

from mmtool.failover.operation.operation import StepState
from mmtool.failover.operation.states import OperationState
from mmtool.failover.report.rows import Exactness, ImportedRow, PlaceRow
from mmtool.plan.failover.acl_rules import AclRow
from mmtool.plan.failover.steps import Mode, StepName
from mmtool.plan.records.documents import OffsetKind

if TYPE_CHECKING:
    from collections.abc import Iterable


class LossRow(TypedDict):
    """The records that an emergency loses.

    Attributes:
        lost_max: Records that are lost at most; null if unknown, as when the source was not seen for some seconds.
        lost_min: Records that are lost at least: the source was seen to hold them.
        source_seen_at: When the source's end of the partition was last seen, or, for the whole operation, that of a
            partition whose loss is unknown; null where it was never seen, and outside of an emergency.
    """

    lost_max: int | None
    lost_min: int
    source_seen_at: datetime | None


class CostsRow(LossRow):
    """What moving a partition of a group costs.

    Attributes:
        reread_max: Records that the group reads again at most; null without a new offset.
        reread_expected: Records that the group is expected to read again, by its commit rate; null if unknown.
        knowledge_age_seconds: The age of the group's committed offset as mmtool knows it; null if unknown.
    """

    reread_max: int | None
    reread_expected: int | None
    knowledge_age_seconds: float | None


class MovedPartitionRow(PlaceRow, CostsRow):
    """One partition of a group that an operation moves.

    Attributes:
        upstream_offset: On the flow's source: committed there; in a failback the new offset.
        target_topic: The topic's name on the flow's target.
        downstream_offset: On the flow's target: the new offset; in a failback committed there. Null before the drain.
        exactness: How far the new offset is certain; null if known only after the drain.
        target_offset_before: Committed on the destination before the operation.
        written: Whether the new offset is stored; null if it was sent and the result is unknown.
        reason: Why the partition has no new offset, or cannot be restored; empty otherwise.
        detail: The reason as a sentence.
        offsets: Whether mirrored records have their source's offsets on the target.
        current_offset: Committed now on the destination; in the rehearsal of a rollback. Null without a commit.
        restored_offset: What the rollback commits there; null where it deletes the commit.
    """

    upstream_offset: int | None
    target_topic: str | None
    downstream_offset: int | None
    exactness: Exactness | None
    target_offset_before: int | None
    written: bool | None
    reason: str
    detail: str
    offsets: OffsetKind
    current_offset: NotRequired[int | None]
    restored_offset: NotRequired[int | None]


class MovedGroupRow(TypedDict):
    """One group that an operation moves.

    Attributes:
        group: Its name.
        partitions: Of its topics.
    """

    group: str
    partitions: list[MovedPartitionRow]


class StateTopicRow(TypedDict):
    """A state topic of Kafka Streams that an operation moves with its application.

    Attributes:
        topic: Its name on the source.
        records_behind: Records that the source was seen to hold and the target lacks, at most; null where not measured.
        seconds_ahead: How many seconds newer its known end is than the group's known offsets, at most; negative if it
            is older; null where not measured.
    """

    topic: str
    records_behind: float | None
    seconds_ahead: float | None


class StepRow(TypedDict):
    """One step of an operation.

    Attributes:
        name: Its name.
        state: How far it is.
        sentence: What it does.
    """

    name: StepName
    state: StepState
    sentence: str


class OperationRow(LossRow):
    """One operation: a failover, failback or drill.

    Attributes:
        operation_id: Its id.
        mode: Its kind.
        state: Where it stands; see the states of a failover.
        point_of_no_return_passed: Whether an offset may have been written.
        flow: `source->target`.
        groups: The groups that it moves.
        state_topics: The state topics of Kafka Streams that it moves.
        steps: Its steps, in order.
        promoted_acls: ACLs of producers that it creates or removes.
        rto_seconds: From its start to the last offset read back; null where not measured.
        rpo_records: Records lost at most; null if unknown.
        reread_records: Records that all groups read again at most; null if unknown.
        reread_expected: Records that all groups are expected to read again, by their commit rates; null if unknown.
        diverged_records: Records on the source that are not on the target; in a failback the diverged records that the
            groups skip. Null where not measured.
        undo: How to undo it, as a sentence.
        reason: The reason that the operator gave; in `failover list` and `show`.
        by: The operator, as `user@host`; in `failover list` and `show`.
        began_at: When it began; in `failover list` and `show`.
        changed_at: When its journal was last written; in `failover list` and `show`.
        group_names: The names of its groups, also before any is planned; in `failover list` and `show`.
        problem: The error with which it ended; empty without one; in `failover list` and `show`.
        records_read: How many records, read from the new offsets on, are identical on both clusters; of a drill.
        lag_records_before: The mirror's lag before a drill; null if unknown.
        emergency_rpo_records: Records that an emergency failover would have lost when the drill began; null if unknown.
        emergency_knowledge_age_seconds: The age of the oldest checkpoint when the drill began; null if unknown.
    """

    operation_id: str
    mode: Mode
    state: OperationState
    point_of_no_return_passed: bool
    flow: str
    groups: list[MovedGroupRow]
    state_topics: list[StateTopicRow]
    steps: list[StepRow]
    promoted_acls: list[AclRow]
    rto_seconds: float | None
    rpo_records: int | None
    reread_records: int | None
    reread_expected: int | None
    diverged_records: int | None
    undo: str
    reason: NotRequired[str]
    by: NotRequired[str]
    began_at: NotRequired[datetime | None]
    changed_at: NotRequired[datetime | None]
    group_names: NotRequired[list[str]]
    problem: NotRequired[str]
    records_read: NotRequired[int]
    lag_records_before: NotRequired[int | None]
    emergency_rpo_records: NotRequired[int | None]
    emergency_knowledge_age_seconds: NotRequired[float | None]


def show_restored(row: OperationRow, restores: Iterable[ImportedRow]) -> None:
    """Add to an operation's row what its rollback would commit or delete; none of it is written yet."""
    back: dict[tuple[object, ...], ImportedRow] = {
        (one["group"], one["topic"], one["partition"]): one for one in restores
    }
    for group in row["groups"]:
        for partition in group["partitions"]:
            topic = partition["topic" if row["mode"] is Mode.FAILBACK else "target_topic"]
            partition["written"] = False
            one = back.get((group["group"], topic, partition["partition"]))
            if one is not None:
                partition["current_offset"], partition["restored_offset"] = (
                    one["offset_before"],
                    one["offset"],
                )
                partition["reason"] = one["reason"]
