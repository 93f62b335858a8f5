"""Each partition as `mmtool replicate` shows it, and its earlier positions: its rate, and since when its state holds.

The control topic is compacted: of older positions only the last one may be left. The rate is then unknown, and the
state holds at least since the first position that is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mmtool.plan.records.documents import (
    OffsetKind,
    PositionRecord,
    State,
    UnreadableDocumentError,
    position_key,
)
from mmtool.plan.words import joined

HELD = frozenset({State.PAUSED, State.FAILED_OVER})
"""The states of partitions that a pause or a failover keeps from being mirrored; no worker reads their end."""

STILL = HELD | {State.HALTED}
"""The states that last until an operator acts: the worker's last position is valid, however old it is."""


class PartitionRow(NamedTuple):
    """The contract's row; None where a value is unknown.

    Attributes:
        source: The alias of the flow's source cluster.
        target: The alias of the flow's target cluster.
        topic: On the source; None for a row about the whole flow.
        partition: None for a row about the whole topic.
        target_topic: The topic's name on the target.
        upstream_position: Next offset to fetch.
        downstream_position: The lowest target offset that the next mirrored record can get.
        records, bytes: Mirrored since the current owner acquired the flow.
        lag_records: Offsets from ``upstream_position`` to the source's end.
        lag_seconds: For how long the oldest record that is missing on the target has been waiting.
        state: The state of the partition's mirror.
        reason: One sentence; empty where the state needs none.
        offsets: Whether mirrored records have their source's offsets on the target (``mmtool.offsets``).
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
    offsets: OffsetKind = OffsetKind.TRANSLATED

    def told_offsets(self, keeps_offsets: Callable[[str], bool]) -> PartitionRow:
        """The same row, with the offsets that its flow gives to mirrored records of a topic."""
        is_same = self.topic is not None and keeps_offsets(self.topic)
        return self._replace(offsets=OffsetKind.of(is_same))

    @classmethod
    def of(cls, source: str, target: str, position: PositionRecord, now_ms: int) -> PartitionRow:
        """The row of a partition by its worker's last position; without a lag in the states of `STILL`."""
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
    """For how many seconds the partition has been behind its source's end; 0 when it is not, None where unknown."""
    if not position.lag_records:
        return 0.0
    return seconds_since(waiting_since(now_ms, None, position.at_end_ms, position.behind_since_ms), now_ms)


def waiting_since(
    now_ms: int, written_ms: int | None, at_end_ms: int | None = None, behind_since_ms: int | None = None
) -> int | None:
    """Since when a record that the mirror lacks has waited, in ms since 1970; None where that is unknown.

    A time ahead of the clock says nothing: brokers accept timestamps of up to an hour ahead.

    Args:
        now_ms: The time.
        written_ms: The record's timestamp. What follows is None or 0 where it is unknown.
        at_end_ms: When the mirror had everything that the source had: the record was written later, whatever its
            timestamp says.
        behind_since_ms: Since when the mirror has been seen behind; it counts only where nothing else is known.
    """
    known = [ms for ms in (written_ms, at_end_ms) if ms and ms <= now_ms]
    return max(known or [ms for ms in (behind_since_ms,) if ms and ms <= now_ms], default=None)


def seconds_since(since_ms: int | None, now_ms: int) -> float | None:
    """The seconds from ``since_ms`` until now; None where that is unknown."""
    return None if since_ms is None else (now_ms - since_ms) / 1000


WINDOW_MS: Final = 10_000
"""A mirroring rate is measured over the last one to two windows of this length; workers report in each."""

SHORTEST_MS: Final = 3_000
"""No mirroring rate is measured over a shorter time."""

_OWNER: Final = b'"owner":"'
_STATE: Final = b'"state":"'
"""No string of a stored document contains these bytes, as quotes in it are escaped."""


class _Word(NamedTuple):
    at_ms: int
    value: bytes


@dataclass(slots=True)
class _Trail:
    since: _Word
    middle: _Word
    last: _Word
    state_at: _Word

    def note(self, word: _Word) -> None:
        if word.at_ms - self.middle.at_ms >= WINDOW_MS:
            self.since, self.middle = self.middle, word
        if _said(word.value, _STATE) != _said(self.last.value, _STATE) or (
            _said(word.value, _OWNER) != _said(self.last.value, _OWNER)
        ):
            self.state_at = word
        self.last = word


def _said(value: bytes, name: bytes) -> bytes:
    """A string field of a stored document, read without decoding the document."""
    begin = value.rfind(name) + len(name)
    return value[begin : value.find(b'"', begin)]


class Rates(NamedTuple):
    """How fast a partition was mirrored lately, per second."""

    records: float
    bytes: float


@dataclass(slots=True)
class PositionTrails:
    """Workers' positions by the key of the partition, in the order of the control topic.

    Thousands a second may be written: nothing is decoded before it is asked for.
    """

    _trails: dict[bytes, _Trail] = field(default_factory=dict)

    def note(self, key: bytes, value: bytes | None, at_ms: int) -> None:
        """Add one record of the control topic to its partition's trail; records other than positions are ignored."""
        if not key.startswith(PositionRecord.PREFIX.encode()):
            return
        if value is None:
            self._trails.pop(key, None)
            return
        word, trail = _Word(at_ms, value), self._trails.get(key)
        if trail is None:
            self._trails[key] = _Trail(word, word, word, word)
        else:
            trail.note(word)

    def rates(self, last: PositionRecord) -> Rates | None:
        """A partition's mirroring rates before ``last``; None without an earlier position of the same owner."""
        trail = self._trails.get(last.key)
        for word in () if trail is None else (trail.since, trail.middle):
            before = _decoded(word.value)
            if before is None or before.owner != last.owner:
                continue
            seconds = (last.observed_ms - before.observed_ms) / 1000
            if seconds * 1000 >= SHORTEST_MS:
                return Rates(
                    max(0, last.records - before.records) / seconds,
                    max(0, last.mirrored_bytes - before.mirrored_bytes) / seconds,
                )
        return None

    def state_since_ms(self, topic_id: str, partition: int, state: State) -> int | None:
        """Since when, at least, the owner's workers report this state, in ms since 1970; None where they do not."""
        trail = self._trails.get(position_key(topic_id, partition))
        first = None if trail is None else _decoded(trail.state_at.value)
        return first.observed_ms if first is not None and first.state == state else None


def _decoded(value: bytes) -> PositionRecord | None:
    """An earlier position; None where it is unreadable (readers of the state report an unreadable last one)."""
    try:
        return PositionRecord.decode(value)
    except UnreadableDocumentError:
        return None
