"""The target side of the copier: one partition's batch per produce request, at most five in flight."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import RETRY_AFTER_METADATA, Code
from mmtool.kafka.wire.produce import ProducedPartition, ProducePartition, ProduceRequest
from mmtool.plan.topics.facts import BEGIN_AGAIN
from mmtool.replication.pump.budget import PendingReplies, Quotas, RoundTrips
from mmtool.replication.topics.presence import TopicWatch
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mmtool.replication.pump.batch_prep import InFlightBatch
    from mmtool.replication.pump.mirror import PartitionMirror

_REQUESTS_IN_FLIGHT = 5
_REQUEST_BYTES = 8 << 20
_BROKER_TIMEOUT_MS = 15_000
_PAUSE_SECONDS = 0.1


class TargetWriter:
    """Sends the mirrors' batches, and hands the results back to the mirrors.

    Args:
        cluster: The target.
        mirrors: Whose batches are sent.
        freed: Called with the bytes that acknowledgements freed.
        failed: Called once, with FencedError, InDoubtError or another error after which the worker must stop.
        round_trips: Gets how long each answer took.
        quotas: Gets for how long brokers throttle it.
        fill: Called for a mirror whose fill is to be written now.
    """

    def __init__(
        self,
        cluster: WireCluster,
        mirrors: Iterable[PartitionMirror],
        freed: Callable[[int], None],
        failed: Callable[[BaseException], None],
        round_trips: RoundTrips,
        quotas: Quotas,
        fill: Callable[[PartitionMirror], None],
    ) -> None:
        self.answered_ms: int | Unknown = UNKNOWN  # the first batch was acknowledged
        self._cluster = cluster
        self._fill = fill
        self._mirrors = list(mirrors)
        self._freed = freed
        self._failed = failed
        self._round_trips = round_trips
        self._quotas = quotas
        self._queues: dict[int, deque[PartitionMirror]] = defaultdict(deque)
        self._outstanding: dict[int, int] = defaultdict(int)
        self._unanswered: PendingReplies[int] = PendingReplies()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[PartitionMirror] = set()
        self._refresh: asyncio.Task[None] | None = None
        self._watch = TopicWatch()
        self._stale = False
        self._draining = self._closed = False
        self._appended = 0

    def kept_waiting(self) -> dict[PartitionMirror, int]:
        """Partitions whose leader on the target has owed an answer for long, each with that broker's id.

        Only partitions with batches in flight.
        """
        silent = self._unanswered.silent(time.monotonic())
        led = ((mirror, self._leader(mirror)) for mirror in self._mirrors if silent and mirror.mark is None)
        return {mirror: node for mirror, node in led if node in silent}

    def _leader(self, mirror: PartitionMirror) -> int | None:
        return self._cluster.leader(mirror.assignment.target_topic, mirror.assignment.partition)

    def wake(self, *mirrors: PartitionMirror) -> None:
        """Queue each mirror that has a batch to send now for its leader: batches of several go in one request."""
        for node in {node for mirror in mirrors if (node := self._queued_for(mirror)) is not None}:
            self._pump(node)

    def _queued_for(self, mirror: PartitionMirror) -> int | None:
        """The leader in whose queue ``mirror`` was put; None where it has nothing to send now, or writes a fill."""
        fills = mirror.fillable and not self._draining
        if mirror.queued or self._closed or mirror in self._waiting or not (fills or self._goes(mirror)):
            return None
        leader = self._leader(mirror)
        if leader is None:
            self._later(mirror)
            return None
        if fills:
            self._fill(mirror)
            return None
        mirror.queued = True
        self._queues[leader].append(mirror)
        return leader

    def _goes(self, mirror: PartitionMirror) -> bool:
        """Whether a batch of ``mirror`` is to be sent now.

        While draining, a batch that the target deferred is not sent again: it is known not to be there.
        """
        return mirror.sendable and not (self._draining and mirror.mark is None and mirror.settled)

    def _pump(self, node: int) -> None:
        queue = self._queues[node]
        while queue and self._outstanding[node] < _REQUESTS_IN_FLIGHT:
            load = self._load(node, queue)
            if not load:
                return
            self._outstanding[node] += 1
            task = asyncio.create_task(self._send(node, load))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _load(self, node: int, queue: deque[PartitionMirror]) -> list[tuple[PartitionMirror, InFlightBatch]]:
        """One batch of each waiting mirror, up to a request's size; mirrors with more are queued last."""
        load: list[tuple[PartitionMirror, InFlightBatch]] = []
        size = 0
        for _ in range(len(queue)):
            if size >= _REQUEST_BYTES:
                break
            mirror = queue.popleft()
            mirror.queued = False
            if not self._goes(mirror):
                continue
            if self._leader(mirror) != node:  # by now, while it waited its turn
                self._later(mirror)
                continue
            sent = mirror.next_to_send()
            size += sent.batch.size
            load.append((mirror, sent))
        for mirror, _ in load:
            if mirror.sendable:
                mirror.queued = True
                queue.append(mirror)
        return load

    async def _send(self, node: int, load: list[tuple[PartitionMirror, InFlightBatch]]) -> None:
        load.sort(key=lambda item: item[0].assignment.target_topic)
        request = ProduceRequest([_stamped(mirror, sent) for mirror, sent in load], _BROKER_TIMEOUT_MS)
        began = time.monotonic()
        self._unanswered.asked(node, began)
        try:
            answer = await self._cluster.send(node, request, purpose="produce")
            answers: list[ProducedPartition] | None = answer.partitions
            self._quotas.note(self._cluster.alias, answer.throttle_ms)
            now = time.monotonic()
            self._unanswered.answered(node, now, owes_more=self._outstanding[node] > 1)
            self._round_trips.note(now - began, {mirror for mirror, _ in load}, now)
        except ConnectionLostError:
            answers = None
        except Exception as error:  # noqa: BLE001  as where credentials are refused by now: nobody else would hear of it
            self._fail(error)
            return
        finally:
            self._outstanding[node] -= 1
        held = sum(mirror.held_bytes for mirror, _ in load)
        try:
            self._settle(load, answers)
        except Exception as error:  # noqa: BLE001  whatever it is, the pump cannot go on
            self._fail(error)
            return
        self._freed(held - sum(mirror.held_bytes for mirror, _ in load))
        for mirror, _ in load:
            self.wake(mirror)
        self._pump(node)

    def _fail(self, error: Exception) -> None:
        if not self._closed:
            self._closed = True
            self._failed(error)

    def _settle(
        self, load: list[tuple[PartitionMirror, InFlightBatch]], answers: list[ProducedPartition] | None
    ) -> None:
        if answers is None:
            for mirror, sent in load:
                mirror.lost(sent)
                self._later(mirror)
            return
        now_ms = int(time.time() * 1000)
        by_place = {(a.topic_id or a.topic, a.partition): a for a in answers}
        for mirror, sent in load:
            a = mirror.assignment
            answer = by_place.get((a.target_topic_id, a.partition)) or by_place.get(
                (a.target_topic, a.partition)
            )
            if answer is None:
                mirror.lost(sent)
                self._later(mirror)
                continue
            mirror.answered(sent, answer)
            if answer.error_code == Code.NONE:
                self._appended += 1
                self.answered_ms = now_ms if self.answered_ms is UNKNOWN else self.answered_ms
                if (newest_ms := sent.batch.max_timestamp_ms) is not UNKNOWN:
                    since_ms = newest_ms if newest_ms <= now_ms else mirror.at_end_ms
                    mirror.latencies.note(sent.batch.record_count, since_ms, now_ms)
            else:
                self._later(mirror, look_up=answer.error_code in RETRY_AFTER_METADATA)

    def _later(self, mirror: PartitionMirror, *, look_up: bool = True) -> None:
        """Try ``mirror`` again after a pause, with refreshed leaders if ``look_up``."""
        self._waiting.add(mirror)
        self._stale |= look_up
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.create_task(self._retry())

    async def _retry(self) -> None:
        await asyncio.sleep(_PAUSE_SECONDS)
        if self._stale:
            self._stale = False
            await self._look_up()
        waiting, self._waiting, self._refresh = self._waiting, set(), None
        for mirror in waiting:
            self.wake(mirror)

    async def _look_up(self) -> None:
        """Refresh leaders; a target topic that was deleted or recreated halts its partitions."""
        waiting = list(self._waiting)  # who joins them meanwhile was not asked about
        try:
            found = await self._cluster.refresh(m.assignment.target_topic for m in waiting)
        except ConnectionLostError:
            return
        except Exception as error:  # noqa: BLE001  likewise
            self._fail(error)
            return
        for mirror in waiting:
            a = mirror.assignment
            presence = self._watch.presence(a.target_topic, a.target_topic_id, found.get(a.target_topic))
            if presence.is_gone:
                before = mirror.held_bytes
                what = f"target topic {a.target_topic} {presence.value}"
                mirror.halt(f"{what}: {BEGIN_AGAIN}")
                self._freed(before - mirror.held_bytes)

    async def drain(self, seconds: float) -> bool:
        """Wait until every batch sent has an answer; False if for ``seconds`` no batch was acknowledged.

        Batches that the target defers, for instance while it lacks in-sync replicas, are not sent again.
        """
        loop = asyncio.get_running_loop()
        self._draining = True
        appended, deadline = self._appended, loop.time() + seconds
        while any(not mirror.settled for mirror in self._mirrors):
            if appended != self._appended:
                appended, deadline = self._appended, loop.time() + seconds
            if self._closed or loop.time() > deadline:
                return False
            await asyncio.sleep(0.005)
        return True

    async def close(self) -> None:
        self._closed = True
        for task in (*self._tasks, *([self._refresh] if self._refresh else [])):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _stamped(mirror: PartitionMirror, sent: InFlightBatch) -> ProducePartition:
    a = mirror.assignment
    return ProducePartition(a.target_topic, a.target_topic_id, a.partition, sent.batch.payload)
