"""Earlier positions of a partition in the control topic: its rate, and since when its state holds.

The control topic is compacted: of older positions only the last one may be left. The rate is then unknown, and the
state holds at least since the first position that is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mmtool.plan.records.documents import PositionRecord, UnreadableDocumentError, position_key

if TYPE_CHECKING:
    from mmtool.plan.records.documents import State

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
