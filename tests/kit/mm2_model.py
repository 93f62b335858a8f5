"""A model of MirrorMaker 2 for the laws of translation by its topics: how it copies, what it tells, what it answers.

Written from the rules in its source (MirrorSourceTask, OffsetSyncStore of 4.3), with none of mmtool's maps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

_SLOTS = 64
MARKER = -1
"""What stands in the target's log where a transaction of MM2 ends."""


class _Emission:
    """When MM2 sends a sync of a record (MirrorSourceTask): four rules, and what is delayed until the next flush."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._previous: tuple[int, int] | None = None
        self._synced = 0
        self.pending: OffsetSync | None = None
        self._delayed: OffsetSync | None = None

    def acked(self, up: int, down: int) -> None:
        sync = OffsetSync(TopicPartition("t", 0), UpstreamOffset(up), DownstreamOffset(down))
        if (
            self._previous is None
            or down - (self._synced + 1) >= self._lag_max
            or up != self._previous[0] + 1
            or down < self._previous[1]
            or down == self._synced  # MM2 itself would not notice this target that was made anew
        ):
            self._synced, self.pending, self._delayed = down, sync, None
        else:
            self._delayed = sync
        self._previous = up, down

    def flush(self) -> None:
        self.pending, self._delayed = self._delayed or self.pending, None


@dataclass
class Copying:
    """MM2 copying one partition: a source log with holes, a target log with copies and markers, and its syncs.

    Attributes:
        tells_of_restarts: The first sync of a task is of its first record. It is seen to be of a later one where other
            partitions of the task hold all permits; what was copied again is then less than the room that it took.
        overtaken: A sync that one of MM2's two threads has taken and not sent: those of the other thread are sent
            before it. Never the first one of a task, see `tells_of_restarts`.
    """

    source: list[int]
    offset_lag_max: int
    exactly_once: bool
    tells_of_restarts: bool = True
    target: list[int] = field(default_factory=list)
    syncs: list[OffsetPair] = field(default_factory=list)
    checkpoints: list[OffsetPair] = field(default_factory=list)
    next_record: int = 0
    now_ms: int = 0
    overtaken: OffsetSync | None = None
    _takes: bool = False
    _told_from: int | None = 0

    def __post_init__(self) -> None:
        self.restart(0)

    def restart(self, back: int) -> None:
        """A new task that goes on some records before where the old one was, whose delayed syncs are lost."""
        self.release()
        if not self.exactly_once:
            self.next_record = max(0, self.next_record - back)
        self._emission = _Emission(self.offset_lag_max)
        self._is_new, self._told_from = True, 0

    def copy(self, count: int, *, busy: bool) -> None:
        """``busy``: no permit is free until this is done, so that only its last sync is sent."""
        copied = self.source[self.next_record : self.next_record + count]
        tells = self.tells_of_restarts or not self._shows_repetition(copied)
        for upstream in copied:
            self._emission.acked(upstream, len(self.target))
            self.target.append(upstream)
            self.next_record += 1
            if not busy or (self._is_new and tells):
                self._send()
            self._is_new = False
        self._send()

    def _shows_repetition(self, copied: list[int]) -> bool:
        """Whether a sync of the last of these records will be of less than there was room for."""
        if not self.syncs or not copied:
            return False
        last, place = self.syncs[-1], len(self.target) + len(copied) - 1
        return copied[-1] - last.upstream < place - last.downstream

    def commit(self) -> None:
        """The periodic flush."""
        self._emission.flush()
        self._send()

    def mark(self) -> None:
        """The end of a transaction."""
        if self.exactly_once:
            self.target.append(MARKER)

    def take(self) -> None:
        """A thread takes the next sync that is due, and is slow to send it."""
        self._takes = self.overtaken is None

    def release(self) -> None:
        """The slow thread sends the sync that it took."""
        if self.overtaken is not None:
            self._tell(self.overtaken)
        self.overtaken, self._takes = None, False

    def lose_target(self) -> None:
        """The target topic is deleted and made anew; MM2 has a permit to tell of its first record (rule 4)."""
        self.release()
        self.target.clear()
        self._is_new, self._told_from = True, self.source[min(self.next_record, len(self.source) - 1)]

    def checkpoint(self, commit: int) -> None:
        """Of a group that has committed ``commit``."""
        downstream = mm2_answer(mm2_store(self.syncs), commit)
        if downstream is not None:
            self.now_ms += 1
            self.checkpoints.append(
                OffsetPair(UpstreamOffset(commit), DownstreamOffset(downstream), self.now_ms)
            )

    def _send(self) -> None:
        due, self._emission.pending = self._emission.pending, None
        if due is None:
            return
        if self._takes and self._told_from is None:
            self.overtaken, self._takes = due, False
            return
        if self._told_from is not None and due.upstream >= self._told_from:
            self._told_from = (
                None  # a sync that was owed from before the target was made anew is not the first one
            )
        self._tell(due)

    def _tell(self, sync: OffsetSync) -> None:
        self.now_ms += 1
        self.syncs.append(OffsetPair(sync.upstream, sync.downstream, self.now_ms))


def mm2_store(syncs: list[OffsetPair]) -> list[OffsetPair]:
    """The slots of an ``OffsetSyncStore`` that has read these."""
    slots: list[OffsetPair] = []
    for sync in syncs:
        _put(slots, sync)
    return slots


def mm2_answer(store: list[OffsetPair], commit: int) -> int | None:
    """``OffsetSyncStore.translateDownstream``; None where it cannot tell."""
    for upstream, downstream, _ in store:
        if upstream <= commit:
            return downstream if upstream == commit else downstream + 1
    return None


def _put(slots: list[OffsetPair], sync: OffsetPair) -> None:
    if not slots or sync.upstream < slots[0].upstream:
        slots[:] = [sync] * _SLOTS
        return
    old, slots[0] = list(slots), sync
    promoted, source = sync, 0
    for slot in range(1, _SLOTS):
        limit = slots[slot - 1]
        while source < slot:
            candidate = old[source]
            fits = (
                _near(limit, slot - 1, candidate, slot)
                and _apart(limit, candidate, slot)
                and (slot + 1 >= _SLOTS or _apart(candidate, slots[slot + 1], slot + 1))
            )
            if fits:
                promoted = candidate
                source += 1
            elif (source + 1 < _SLOTS and candidate is old[source + 1]) or not _apart(limit, candidate, slot):
                source += 1
                continue
            break
        if _near(limit, slot - 1, slots[slot], slot):
            return
        slots[slot] = promoted


def _near(newer: OffsetPair, i: int, older: OffsetPair, j: int) -> bool:
    return newer.upstream <= older.upstream + (1 << j) - (1 << i)


def _apart(newer: OffsetPair, older: OffsetPair, j: int) -> bool:
    return newer is older or newer.upstream >= older.upstream + (1 << max(j - 2, 0))


@st.composite
def copyings(
    draw: st.DrawFn,
    *,
    loses_target: bool = False,
    tells_of_restarts: bool = True,
    races: bool = False,
    restarts: bool = True,
) -> Copying:
    """Histories of up to some hundred records: holes, restarts, transactions, busy moments, checkpoints.

    Args:
        draw: Hypothesis's.
        loses_target: The target topic is made anew once, and MM2 goes on where it was.
        tells_of_restarts: As for `Copying`; without it, sometimes.
        races: Syncs overtake each other.
        restarts: MM2 is restarted now and then.
    """
    kinds = ["copy", "copy", "copy", "busy", "commit", "mark", "checkpoint"]
    kinds += ["restart"] * restarts + ["take", "take", "release"] * races
    source, at = [], draw(st.integers(0, 5))
    for step in draw(st.lists(st.sampled_from([1, 1, 1, 1, 2, 3, 9]), min_size=30, max_size=120)):
        source.append(at)
        at += step
    lag, once = draw(st.sampled_from([0, 1, 4, 9])), draw(st.booleans())
    history = Copying(source, lag, once, tells_of_restarts or draw(st.booleans()))
    _go_on(draw, history, kinds)
    if loses_target:
        history.lose_target()
        _go_on(draw, history, kinds)
    return history


def _go_on(draw: st.DrawFn, history: Copying, kinds: list[str]) -> None:
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=4, max_size=25)):
        match kind:
            case "copy" | "busy":
                history.copy(draw(st.integers(1, 25)), busy=kind == "busy")
            case "restart":
                history.restart(draw(st.integers(0, 12)))
            case "commit":
                history.commit()
            case "mark":
                history.mark()
            case "take":
                history.take()
            case "release":
                history.release()
            case _:
                history.checkpoint(draw(st.integers(0, history.source[-1] + 1)))
