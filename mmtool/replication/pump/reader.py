"""The source side of the copier: long polls to each broker, for the partitions that have room."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.batches import producer_ids
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import RETRY_SAME_LEADER, Code
from mmtool.kafka.wire.fetch import FetchAnswer, FetchedPartition, FetchPartition, FetchSession
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import offsets_now
from mmtool.plan.records.documents import State
from mmtool.plan.records.identity import PRODUCERS_TOPIC
from mmtool.plan.topics.facts import missing_right
from mmtool.plan.topics.retention import deleted_unmirrored
from mmtool.plan.words import retried
from mmtool.replication.pump.batch_prep import damaged
from mmtool.replication.pump.budget import Account, Pace, PendingReplies
from mmtool.replication.pump.log_changes import log_ended
from mmtool.replication.pump.log_watch import OpenTransactionWatch
from mmtool.replication.topics.presence import Presence, TopicWatch, source_gone
from mmtool.runtime.threads import came_within
from mmtool.translation.types import UNKNOWN, TopicId, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mmtool.replication.pump.changed_reads import ChangedReads
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.replication.topics.origins import Origins


FETCH_BYTES = 8 << 20
LEAST_FETCH = 64 << 10
_PARTITION_BYTES = 1 << 20


class FetchSet:
    """Mirrors whose source partitions are fetched over one connection.

    Code that changes a mirror's position or room calls `touch`; no method scans all mirrors for one.

    A. A mirror that is halted or will be, or holds ``hold_limit`` bytes, is not asked for.
    B. While room is scarce, nor is one that holds anything and of which nothing went since it was read last: what the
       target does not take fills no more than ``share`` of each partition then, and others go on.

    Args:
        hold_limit: In bytes.
        share: In bytes: what each partition may have of the room that is left once it is scarce.
    """

    def __init__(self, hold_limit: int, share: int = _PARTITION_BYTES) -> None:
        self.session = FetchSession()
        self._hold_limit = hold_limit
        self._mirrors: set[PartitionMirror] = set()
        self._full: set[PartitionMirror] = set()
        self._each = _PARTITION_BYTES
        self._share = max(share, LEAST_FETCH)
        self._scarce = False
        self._read_at: dict[PartitionMirror, UpstreamOffset] = {}

    @property
    def is_open(self) -> bool:
        """Whether any mirror has room."""
        return len(self.session) > 0

    @property
    def has_full(self) -> bool:
        """Whether any mirror is left out of the fetch only because it is full."""
        return bool(self._full)

    @property
    def least_wanted(self) -> int:
        """Bytes to reserve for a fetch while room is scarce: one share for each mirror with room."""
        return len(self.session) * self._share

    def follow(self, mirrors: Iterable[PartitionMirror]) -> None:
        """Replace the mirrors that are fetched over this connection."""
        now = set(mirrors)
        for mirror in self._mirrors - now:
            self.session.drop(_key(mirror))
            self._full.discard(mirror)
            self._read_at.pop(mirror, None)
        new, self._mirrors = now - self._mirrors, now
        for mirror in sorted(new, key=lambda m: m.name):
            self.touch(mirror)

    def was_read(self, mirror: PartitionMirror) -> None:
        """Note that an answer about ``mirror`` came, and update its entry in the fetch session."""
        self._read_at[mirror] = mirror.frontier
        self.touch(mirror)

    def _is_full(self, mirror: PartitionMirror) -> bool:
        waits = self._scarce and mirror.held_bytes > 0 and self._read_at.get(mirror) == mirror.frontier
        busy = not mirror.begun or mirror.changed_since is not None
        return waits or busy or mirror.held_bytes >= self._hold_limit

    def touch(self, mirror: PartitionMirror) -> None:
        """Update or drop the fetch session's entry of ``mirror``: its position, room or state has changed."""
        halted = bool(mirror.then_halt) or mirror.state == State.HALTED
        if mirror not in self._mirrors or halted or self._is_full(mirror):
            self.session.drop(_key(mirror))
            if mirror in self._mirrors and not halted:
                self._full.add(mirror)
            return
        self._full.discard(mirror)
        a = mirror.assignment
        self.session.put(
            FetchPartition(
                a.topic, a.topic_id, a.partition, mirror.fetch_position, self._each, mirror.read_epoch
            )
        )

    def refill(self) -> None:
        """Fetch mirrors again that were full and have room now."""
        for mirror in [m for m in self._full if m.state == State.HALTED or not self._is_full(m)]:
            self._full.discard(mirror)
            self.touch(mirror)

    def allow(self, total: int, *, throttled: bool, scarce: bool = False) -> None:
        """Set how many bytes a fetch of ``total`` bytes may bring of each partition.

        A throttled flow fetches a little of every partition at a time. Otherwise a partition may also use the bytes
        that a small number of partitions leaves unused, so that a single partition fills a long link.
        """
        each = total // max(len(self._mirrors), 1)
        least = LEAST_FETCH if throttled else _PARTITION_BYTES
        each = max(each, least)
        if scarce:
            each = min(each, self._share)
        each = 1 << each.bit_length() - 1  # a power of two: told anew when it really changes
        if (each, scarce) != (self._each, self._scarce):
            self._each, self._scarce = each, scarce
            for mirror in self._mirrors - self._full:
                self.touch(mirror)


def _key(mirror: PartitionMirror) -> tuple[TopicId, int]:
    return mirror.assignment.topic_id, mirror.assignment.partition


_MAX_WAIT_MS = 500
_WAIT_BESIDE_FULL_MS = 20  # some partition is full and may have room any moment: do not sleep on the others
_LONG_SECONDS = 5.0  # a broker answers within half a second, with or without records
_PAUSE_SECONDS = 0.1
_CONNECTIONS = 2

Connection = tuple[int, int]
"""A broker's id, and the number of a connection to it."""


class SourceReader:
    """Fetches one flow's partitions, and hands each batch over as it arrives.

    Args:
        cluster: The source.
        mirrors: What to read.
        budget: The flow's share of the worker's memory budget.
        pace: How fast the flow may be read.
        fetched: Called for each mirror that has new batches, or a new state.
        continue_on_loss: Whether a range that the source deleted unread is passed over, or halts.
        origins: Where origin decides what is mirrored: gets every batch before a mirror does.

    Attributes:
        transforms: Changes the records of mirrors that have a transform; None where none has.
    """

    def __init__(
        self,
        cluster: WireCluster,
        mirrors: Iterable[PartitionMirror],
        budget: Account,
        pace: Pace,
        fetched: Callable[[PartitionMirror], None],
        *,
        read_committed: bool,
        continue_on_loss: bool,
        origins: Origins | None = None,
    ) -> None:
        self.transforms: ChangedReads | None = None
        self.fetched_ms: int | Unknown = UNKNOWN  # the first batches came
        self._cluster = cluster
        self._mirrors = list(mirrors)
        self._budget = budget
        self._pace = pace
        self._fetched = fetched
        self._read_committed = read_committed
        self._continue_on_loss = continue_on_loss
        self._origins = origins
        self._by_place: dict[tuple[str, int], PartitionMirror] = {
            (key, m.assignment.partition): m
            for m in self._mirrors
            for key in (m.assignment.topic, m.assignment.topic_id)
        }
        self._hold_limit = max(1 << 20, min(FETCH_BYTES, budget.limit // max(len(self._mirrors), 1)))
        self._share = budget.limit // (4 * max(len(self._mirrors), 1))
        self._followed: dict[Connection, FetchSet] = {}
        self._watch = TopicWatch()
        self._held = OpenTransactionWatch(cluster)
        self._unanswered: PendingReplies[Connection] = PendingReplies()
        self._room = asyncio.Event()
        self._stale = True
        self._unled: list[PartitionMirror] = []

    def has_room(self) -> None:
        """Wake connections that wait for room: a mirror has freed bytes."""
        self._room.set()

    def heard_ms(self, now_ms: int, now: float) -> int:
        """Until when the source's log ends are known: now, or earlier if a broker has not answered for long.

        Args:
            now_ms: The current time since the epoch, in which the result is given.
            now: The current time of the monotonic clock in seconds, by which a broker's silence is measured.
        """
        seconds = self._unanswered.seconds(self._unanswered.whom, now)
        return now_ms - int(seconds * 1000) if seconds > _LONG_SECONDS else now_ms

    def kept_waiting(self) -> dict[PartitionMirror, int]:
        """Partitions whose leader on the source has owed an answer for long, each with that broker's id."""
        silent = {node for node, _ in self._unanswered.silent(time.monotonic())}
        led = ((mirror, self._leader(mirror)) for mirror in self._mirrors if silent)
        return {mirror: node for mirror, node in led if node in silent}

    async def run(self) -> None:
        """Read until cancelled."""
        tasks = [asyncio.create_task(self._held.run())] if self._read_committed else []
        polled = set[Connection]()
        try:
            while True:
                await self._look_up()
                tasks += [asyncio.create_task(self._poll(one)) for one in self._followed.keys() - polled]
                polled |= self._followed.keys()
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            if self.transforms is not None:
                self.transforms.stop()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self) -> None:
        """Refresh leaders after an answer said that they moved, and those of partitions without a leader.

        No answer says when a partition without a leader gets one, so its topic is looked up until then, alone: with
        many thousand others each lookup would cost half a megabyte, for as long as one broker is down.
        """
        looked = self._mirrors if self._stale else self._unled
        if not looked:
            return
        self._stale = False
        try:
            found = await self._cluster.refresh(m.assignment.topic for m in looked)
        except ConnectionLostError:
            self._stale = True
            return
        unled = []
        for mirror in looked:
            a = mirror.assignment
            presence = self._watch.presence(a.topic, a.topic_id, found.get(a.topic))
            if presence.is_gone:
                kept_in = a.target_topic if a.same is not None else ""
                self._halt_behind(mirror, source_gone(a.topic, presence, kept_in))
            elif presence is Presence.UNSEEN or self._leader(mirror) is None:
                unled.append(mirror)
        self._unled = unled
        if looked is self._mirrors or len(unled) < len(looked):
            self._spread()

    def _spread(self) -> None:
        """Assign mirrors to connections.

        There are two to a broker, so that one sends a request while the other is being answered.
        """
        by_connection: dict[Connection, list[PartitionMirror]] = {c: [] for c in self._followed}
        of_node: dict[int, int] = defaultdict(int)
        for mirror in self._mirrors:
            node = self._leader(mirror)
            if node is not None and mirror.state != State.HALTED:
                by_connection.setdefault((node, of_node[node] % _CONNECTIONS), []).append(mirror)
                of_node[node] += 1
        for connection, mirrors in by_connection.items():
            if connection not in self._followed:
                self._followed[connection] = FetchSet(self._hold_limit, self._share)
            self._followed[connection].follow(mirrors)

    def _halt_behind(self, mirror: PartitionMirror, reason: str) -> None:
        """Halt a mirror once its batches read before are on the target.

        The source may not hold those records any more.
        """
        if mirror.state != State.HALTED and not mirror.then_halt:
            mirror.halt_behind(reason)
            self._fetched(mirror)

    def _leader(self, mirror: PartitionMirror) -> int | None:
        return self._cluster.leader(mirror.assignment.topic, mirror.assignment.partition)

    async def _poll(self, connection: Connection) -> None:
        followed = self._followed[connection]
        while True:
            await self._pace.ready()
            await self._budget.wait(LEAST_FETCH)
            followed.refill()
            if not followed.is_open:
                self._unanswered.let_go(connection)
                self._room.clear()
                await came_within(_PAUSE_SECONDS, self._room.wait())
                continue
            await self._fetch(connection, followed)

    async def _fetch(self, connection: Connection, followed: FetchSet) -> None:
        scarce = self._budget.becomes_scarce()
        room = min(self._budget.free, followed.least_wanted) if scarce else self._budget.plenty
        reserved = self._pace.at_most(max(min(FETCH_BYTES, room), LEAST_FETCH))
        throttled = self._pace.is_throttled
        followed.allow(reserved if throttled else FETCH_BYTES, throttled=throttled, scarce=scarce)
        request = followed.session.request(
            max_wait_ms=_WAIT_BESIDE_FULL_MS if followed.has_full else _MAX_WAIT_MS,
            max_bytes=reserved,
            read_committed=self._read_committed,
        )
        node, number = connection
        self._budget.add(reserved)
        self._pace.under_way += 1
        self._unanswered.asked(connection, time.monotonic())
        try:
            answer = await self._cluster.send(node, request, purpose=f"fetch-{number}")
            if self._origins is not None:
                await self._learn(self._origins, answer)
        except ConnectionLostError:
            followed.session.lost()
            self._stale = True
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        finally:
            self._budget.add(-reserved)
            self._pace.under_way -= 1
        self._unanswered.answered(connection, time.monotonic())
        self._pace.quotas.note(self._cluster.alias, answer.throttle_ms)
        if followed.session.answered(answer):
            await self._take(answer, followed)
        else:
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _learn(self, origins: Origins, answer: FetchAnswer) -> None:
        """Look up the origins of the batches in an answer.

        A partition is halted while the origin of one of its batches cannot be read.
        """
        of_each = {(p.topic_id or p.topic, p.partition): producer_ids(p.records) for p in answer.partitions}
        try:
            await origins.learn(set().union(*of_each.values()))
        except (UnreachableError, RefusedError) as error:
            alias = self._cluster.alias
            why = (
                f"topic {PRODUCERS_TOPIC} of {alias} cannot be read, so mmtool cannot recognise records that other"
                f" flows mirrored to {alias}: {retried(error)}"
            )
            if isinstance(error, NotAuthorisedError):
                why = missing_right(f"READ on topic {PRODUCERS_TOPIC} of {alias}")
            for place, ids in of_each.items():
                if place in self._by_place and not origins.knows(ids):
                    self._halt_behind(self._by_place[place], why)

    async def _take(self, answer: FetchAnswer, followed: FetchSet) -> None:
        now_ms = int(time.time() * 1000)
        failed = False
        outside: list[PartitionMirror] = []
        for part in answer.partitions:
            mirror = self._by_place.get((part.topic_id or part.topic, part.partition))
            if mirror is None:
                continue
            if part.error_code == Code.NONE:
                self._held.saw(mirror, part, now_ms)
                if self.transforms is None or not self.transforms.begin(mirror, part, self._offer):
                    self._offer(mirror, part)
            elif part.error_code == Code.OFFSET_OUT_OF_RANGE:
                outside.append(mirror)
                continue
            else:
                failed = True
                self._failed(mirror, part)
            followed.was_read(mirror)
        # all of them at once: one that has to wait would keep the others from being looked at
        failed |= not all(await asyncio.gather(*map(self._out_of_range, outside)))
        for mirror in outside:
            followed.was_read(mirror)
        if failed:
            await asyncio.sleep(_PAUSE_SECONDS)

    def _offer(self, mirror: PartitionMirror, part: FetchedPartition) -> None:
        now_ms = int(time.time() * 1000)
        held = mirror.offer(part, now_ms)
        self._budget.add(held)
        self._pace.took(held)
        if held and self.fetched_ms is UNKNOWN:
            self.fetched_ms = now_ms
        self._fetched(mirror)
        self._room.set()

    def _failed(self, mirror: PartitionMirror, part: FetchedPartition) -> None:
        code = part.error_code
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            self._halt_behind(mirror, missing_right(f"READ on source topic {mirror.assignment.topic}"))
        elif code == Code.CORRUPT_MESSAGE:
            corrupt = f"the source's log is corrupt at offset {mirror.fetch_position}"
            self._halt_behind(mirror, f"{corrupt}: {damaged(mirror.assignment)}")
        elif code not in RETRY_SAME_LEADER:
            self._stale = True  # leadership, deletion or recreation: metadata tells which

    async def _out_of_range(self, mirror: PartitionMirror) -> bool:
        """Handle a fetch position outside the source's log: records were deleted unread, or the log was cut.

        False means try again: the bounds are not certain, batches read before are not on the target, or the gap is not
        on the control topic yet.
        """
        a, position = mirror.assignment, mirror.fetch_position
        bounds = []
        for when in (EARLIEST, LATEST):
            listed = await offsets_now(self._cluster, {a.place: when})
            if a.place not in listed:
                self._stale = True
                return False
            bounds.append(listed[a.place])
        start, end = bounds
        if start <= position <= end:
            return False
        if position > end:
            before = mirror.held_bytes
            mirror.halt(log_ended(a.place, mirror.frontier, position, end, a.flow_options))
            self._budget.add(mirror.held_bytes - before)
            self._fetched(mirror)
        elif mirror.untouched:
            mirror.skip_to(UpstreamOffset(start))
        elif self._continue_on_loss:
            if mirror.frontier < position:
                return False  # what was read before has to be there first: who begins anew would not find it
            mirror.dirty = True
            if not mirror.gaps.met(position, start):
                return False
            mirror.skip_to(UpstreamOffset(start))
        else:
            deleted = deleted_unmirrored(position, start)
            way_on = "set mmtool.on.data.loss = continue to mirror the records after these offsets"
            self._halt_behind(mirror, f"{deleted}: {way_on}")
        return True
