"""The copier: mirrors one flow's share of a Spark task until the round ends, with the dead letters of its mirrors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.logs.dead_letters import KafkaDeadLetters, Letter
from mmtool.plan.records.documents import State
from mmtool.replication.control.control_follower import until_told
from mmtool.replication.ownership.checks import until_gone
from mmtool.replication.pump.batch_prep import InDoubtError
from mmtool.replication.pump.budget import SILENT_SECONDS, Account, Pace, RoundTrips
from mmtool.replication.pump.changed_reads import ChangedReads
from mmtool.replication.pump.log_changes import Foreign
from mmtool.replication.pump.log_watch import TargetEnds
from mmtool.replication.pump.mirror import PartitionMirror
from mmtool.replication.pump.reader import SourceReader
from mmtool.replication.pump.state_writer import OffsetRunWriter, PositionWriter, SyncBook, tally_of
from mmtool.replication.pump.writer import TargetWriter
from mmtool.replication.same_offsets.fills import Fills
from mmtool.replication.same_offsets.mirror import SameOffsetsMirror
from mmtool.replication.spark.assignment import FlowAssignment, ReportRow, WorkerTimes
from mmtool.replication.spark.log import executor_name
from mmtool.replication.topics.origins import Origins
from mmtool.runtime.process import now_ms
from mmtool.runtime.threads import came_within, in_thread, to_its_end
from mmtool.translation.block_codec import encode_block

_PAUSE_SECONDS = 0.2


class LetterPort(Protocol):
    """The producer of dead-letter records."""

    def post(self, letter: Letter) -> None:
        """Write a dead letter to all in-sync replicas of its topic, unless it is there already.

        Raises:
            UnreachableError: The target does not answer; the caller retries.
            MmtoolError: The target refuses the record.
        """


@dataclass(slots=True)
class DeadLetters:
    """Writes the dead letters of one flow's mirrors, and wakes mirrors that waited for stored state.

    Attributes:
        flow: What is mirrored.
        mirrors: Those that may have letters, or wait.
        freed: Called with the bytes that went.
        wake: Called for a mirror that may continue: what it waited for is in the stored offset runs.
        books: Called where that is waited for.
        ports: To the target, by shard; opened at the first letter.
    """

    flow: FlowAssignment
    mirrors: Sequence[PartitionMirror]
    freed: Callable[[int], None]
    wake: Callable[[PartitionMirror], None]
    books: Callable[[], None]
    ports: Callable[[int], LetterPort] | None = None
    _opened: dict[int, LetterPort] = field(default_factory=dict)

    async def run(self) -> None:
        """Write dead letters until cancelled; a write in progress is completed first."""
        while True:
            for mirror in self.mirrors:
                if mirror.letter is not None:
                    await to_its_end(self._post(mirror))
            held = [mirror for mirror in self.mirrors if mirror.is_held]
            for mirror in held:
                mirror.is_held = mirror.awaits_books
                if not mirror.is_held:
                    self.wake(mirror)
            if any(mirror.is_held for mirror in held):
                self.books()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _post(self, mirror: PartitionMirror) -> None:
        batch, about = mirror.letter, mirror.assignment
        assert batch is not None
        letter = Letter(self.flow.identity.source_id, about.topic_id, about.place, about.target_topic, batch)
        before = mirror.held_bytes
        try:
            await in_thread(self._port(about.shard).post, letter)
        except UnreachableError:
            return  # it is still the mirror's letter
        except MmtoolError as error:
            mirror.halt(
                f"the record at source offset {letter.offset} cannot be written to the dead-letter topic:"
                f" {error.message}{f': {error.remedy}' if error.remedy else ''}"
            )
        else:
            mirror.posted(batch)
        self.freed(before - mirror.held_bytes)

    def _port(self, shard: int) -> LetterPort:
        if shard not in self._opened:
            self._opened[shard] = (self.ports or self._port_of)(shard)
        return self._opened[shard]

    def _port_of(self, shard: int) -> LetterPort:
        settings, letters_id = self.flow.settings, self.flow.identity.letters_id(shard)
        return KafkaDeadLetters(settings.target, letters_id, settings.replication_factor)


_STORE_SECONDS = 1.0
_FOREIGN_SECONDS = 10.0
_DRAIN_SECONDS = 30.0
_LOOKS_AT_THE_WAY = 3


class RoundEnd:
    """When a task's round ends: its time is up, or the owner of one of its flows ends it.

    Attributes:
        told: The control record's command that ended it; empty when it ended by time.
    """

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._reached = asyncio.Event()
        self.told = ""

    @property
    def reached(self) -> bool:
        return self._reached.is_set() or time.monotonic() >= self._deadline

    def tell(self, told: str = "") -> None:
        """End the round now; the first non-empty ``told`` is kept as the command that ended it."""
        self.told = self.told or told
        self._reached.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until the round ends, or for ``seconds`` if that is sooner."""
        left = max(self._deadline - time.monotonic(), 0.0)
        await came_within(left if seconds is None else min(seconds, left), self._reached.wait())


class FlowPump:
    """One flow's share of a task.

    Args:
        flow: What to do.
        budget: What it may hold.
        task: The number of the task.
        patience: How long the end of a round waits for a target that gives no answer at all; None is for the only
            flow of a task, for which no other flow waits.
    """

    def __init__(
        self, flow: FlowAssignment, budget: Account, task: int, patience: float | None = None
    ) -> None:
        settings = flow.settings
        committed = settings.reads_committed
        shards = {shard.shard: shard for shard in flow.shards}
        self.flow = flow
        self._began_ms = now_ms()
        self.source = wire_cluster(settings.source, "pump", role="consumer")
        self.round_trips = RoundTrips()
        origins = Origins.of(settings, flow.identity, self.source, was_seen=flow.shows_register)
        self.mirrors = [
            (PartitionMirror if p.same is None else SameOffsetsMirror)(
                p,
                shards[p.shard],
                read_committed=committed,
                left_out=origins.left_out_of(p.topic) if origins is not None else (),
                round_trips=self.round_trips,
                with_letters=settings.on_oversize == "dead-letter",
                foreign=None if settings.keeps_names or p.same is not None else Foreign.of(p),
            )
            for p in flow.partitions
        ]
        self.target = wire_cluster(settings.target, "pump", role="producer")
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._woke_at = float("-inf")
        self._budget = budget
        self._patience = patience
        self.runs = OffsetRunWriter(self.target, flow, self.mirrors)
        self.pace = Pace(flow, task)
        self.positions = PositionWriter(self.target, flow, self.mirrors, self.pace)
        every = 0.0 if settings.keeps_names or settings.offsets == "same" else _FOREIGN_SECONDS
        self.ends = TargetEnds(self.target, self.mirrors, every, self._freed)
        at_source = settings.offset_syncs_location == "source"
        self.syncs = SyncBook(self.source if at_source else self.target, flow, self.mirrors)
        self.fills = Fills(self.target, self.mirrors, self._wake, self._failed)
        self.writer = TargetWriter(
            self.target,
            self.mirrors,
            self._freed,
            self._failed,
            self.round_trips,
            self.pace.quotas,
            self.fills.begin,
        )
        posts = settings.on_oversize == "dead-letter"
        waiting = [mirror for mirror in self.mirrors if posts or mirror.was_same]
        self._store_now = asyncio.Event()
        self.letters = DeadLetters(flow, waiting, self._freed, self.writer.wake, self._store_now.set)
        self.reader = SourceReader(
            self.source,
            self.mirrors,
            budget,
            self.pace,
            self.writer.wake,
            read_committed=committed,
            continue_on_loss=settings.on_data_loss == "continue",
            origins=origins,
        )
        self.reader.transforms = ChangedReads.of(flow.partitions, budget, self._failed)

    def _freed(self, count: int) -> None:
        self._budget.add(-count)
        self.reader.has_room()

    def _wake(self, *mirrors: PartitionMirror) -> None:
        self.writer.wake(*mirrors)

    def _failed(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    def _waiting(self) -> dict[PartitionMirror, str]:
        """The partitions that wait for a broker's answer, unless a quota is the cause; each with its broker.

        Empty just after this process itself was suspended (SIGSTOP, a host that sleeps): no broker could answer it
        then.
        """
        if time.monotonic() - self._woke_at < SILENT_SECONDS:
            return {}
        return {
            mirror: f"broker {node} of {cluster.alias}"
            for cluster, side in ((self.target, self.writer), (self.source, self.reader))
            for mirror, node in side.kept_waiting().items()
            if mirror.state != State.HALTED and cluster.alias not in self.pace.quotas.aliases
        }

    async def run(self, end: RoundEnd) -> list[ReportRow]:
        """Mirror until the round ends; return one row per partition.

        Raises:
            FencedError: another owner has the flow.
            InDoubtError: only the target's log shows what it holds: recover from it.
            MmtoolError, ConnectionLostError: a cluster cannot be used.
        """
        try:
            await self._open()
            await self._until(end)
            await self._close()
            return [self._row(mirror, end.told) for mirror in self.mirrors]
        finally:
            with suppress(Exception):
                if self.reader.transforms is not None:
                    await self.reader.transforms.close()
                await self.writer.close()
                await self.fills.close()
                await asyncio.gather(self.source.close(), self.target.close())
            self._budget.close()

    def _row(self, mirror: PartitionMirror, told: str) -> ReportRow:
        return ReportRow(
            flow=self.flow.identity.flow,
            shard=mirror.shard.shard,
            topic_id=mirror.assignment.topic_id,
            topic=mirror.assignment.topic,
            partition=mirror.assignment.partition,
            state=mirror.state,
            reason=mirror.reason,
            for_good=mirror.for_good,
            producer_id=mirror.shard.producer_id,
            epoch=mirror.shard.epoch,
            next_sequence=mirror.writer.next_sequence,
            runs_sequence=self.runs.sequences[mirror.shard.shard],
            block=encode_block(mirror.open_block),
            tally=tally_of(mirror),
            told=told,
            executor=executor_name(),
            syncs_failure=self.syncs.failure,
            times=WorkerTimes(self._began_ms, self.reader.fetched_ms, self.writer.answered_ms),
        )

    async def _open(self) -> None:
        """Connect, and store the first block of every new partition before its first record is sent."""
        await asyncio.gather(self.source.start(), self.target.start())
        own = {self.flow.identity.runs_topic, self.flow.identity.control_topic}
        await self.target.refresh({m.assignment.target_topic for m in self.mirrors} | own | self.syncs.topics)
        for _ in range(
            _LOOKS_AT_THE_WAY
        ):  # while it seems long: a broker that is busy for a moment also answers late
            began = time.monotonic()
            await self.target.refresh(own)
            self.round_trips.note(time.monotonic() - began, set(), began)
            if not self.round_trips.goal_bytes:
                break
        await self.source.refresh({m.assignment.topic for m in self.mirrors} | self.syncs.topics)
        await self.runs.flush()

    async def store_state(self) -> None:
        """Store offset runs and positions each second, and at once for a dead letter, until cancelled.

        Cancelling interrupts no write.
        """
        while True:
            before = time.monotonic()
            await came_within(_STORE_SECONDS, self._store_now.wait())
            self._store_now.clear()
            if time.monotonic() - before > SILENT_SECONDS:
                self._woke_at = time.monotonic()
            await to_its_end(self._flush())

    async def _flush(self) -> None:
        await self._flush_state()
        self.syncs.flush()

    async def _flush_state(self) -> None:
        await self.ends.look()
        await self.runs.flush()
        heard_ms = self.reader.heard_ms(int(time.time() * 1000), time.monotonic())
        await self.positions.flush(heard_ms, self._waiting())

    async def _until(self, end: RoundEnd) -> None:
        flow = self.flow
        own = {
            flow.identity.runs_topic: flow.runs_topic_id,
            flow.identity.control_topic: flow.control_topic_id,
        }
        endless = (
            self.reader.run(),
            self.store_state(),
            self.letters.run(),
            self.fills.run(),
            until_gone(self.target, own),
            self.failure,
        )
        tasks = [asyncio.ensure_future(c) for c in (end.wait(), self._listen(end), *map(_never, endless))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await self._ended(tasks)

    async def _ended(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Wait for cancelled tasks, some of which complete a write first.

        Raises:
            InDoubtError: a write took too long and was interrupted.
        """
        _, late = await asyncio.wait(tasks, timeout=self._patience)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if late:
            raise InDoubtError(f"{self.target.alias} did not answer while stored state was written")

    async def _listen(self, end: RoundEnd) -> None:
        end.tell((await until_told(self.target, self.flow, self.pace.heard)).value)

    async def _close(self) -> None:
        """Wait for every pending answer, then store the last offset runs and positions.

        Raises:
            InDoubtError: an answer did not come; only the target's log shows what it holds.
        """
        for mirror in self.mirrors:
            self._budget.add(-mirror.drop_unsent())
        if not await self.writer.drain(self._patience or _DRAIN_SECONDS):
            raise InDoubtError(f"{self.target.alias} did not answer for the last batches")
        try:
            async with asyncio.timeout(self._patience):
                await self._flush_state()
                await self.syncs.close()
        except TimeoutError as error:
            raise InDoubtError(f"{self.target.alias} did not answer for the last stored state") from error


async def _never(work: Awaitable[None]) -> None:
    """Await work of a round that may end only by failing."""
    await work
    raise AssertionError("a task of the worker ended early")
