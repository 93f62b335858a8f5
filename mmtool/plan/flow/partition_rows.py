"""The row of ``replicate`` and ``status``: one partition, or a topic or flow that has no partition to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.records.documents import State
from mmtool.plan.words import joined

if TYPE_CHECKING:
    from mmtool.plan.records.documents import PositionRecord

HELD = frozenset({State.PAUSED, State.FAILED_OVER})
"""What is not mirrored because somebody said so: no pump looks how its source grows."""

STILL = HELD | {State.HALTED}
"""What a partition stays until somebody does something about it: the last word holds, however old it is."""


class PartitionRow(NamedTuple):
    """The contract's row; None where a value is unknown.

    Attributes:
        source, target: The flow's aliases.
        topic: On the source; None for a row about the whole flow.
        partition: None for a row about the whole topic.
        upstream_position: Next offset to fetch.
        downstream_position: The lowest target offset that the next mirrored record can get.
        records, bytes: Mirrored since the current owner acquired the flow.
        lag_records: Offsets from ``upstream_position`` to the source's end.
        lag_seconds: For how long the oldest record that is missing on the target has been waiting.
        reason: One sentence; empty where the state needs none.
    """

    source: str
    target: str
    topic: str | None
    partition: int | None = None
    target_topic: str | None = None
    upstream_position: int | None = None
    downstream_position: int | None = None
    records: int = 0
    bytes: int = 0
    lag_records: int | None = None
    lag_seconds: float | None = None
    state: State = State.HALTED
    reason: str = ""

    @classmethod
    def of(cls, source: str, target: str, position: PositionRecord, now_ms: int) -> PartitionRow:
        """A partition as its pump last wrote it; of one that stands still no pump looks how its source grows."""
        followed = position.state not in STILL
        return cls(
            source=source,
            target=target,
            topic=position.topic,
            partition=position.partition,
            target_topic=position.target_topic,
            upstream_position=position.upstream_position,
            downstream_position=position.downstream_position,
            records=position.records,
            bytes=position.mirrored_bytes,
            lag_records=position.lag_records if followed else None,
            lag_seconds=lag_seconds(position, now_ms) if followed else None,
            state=position.state,
            reason=joined(position.reason, position.notes, position.quota_said, position.silence_said),
        )


def lag_seconds(position: PositionRecord, now_ms: int) -> float | None:
    """For how long the partition has been behind its source's end; 0 when it is not."""
    if not position.lag_records:
        return 0.0
    if not position.behind_since_ms:
        return None
    return max((now_ms - position.behind_since_ms) / 1000, 0.0)
