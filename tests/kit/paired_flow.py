"""A flow between two logs in memory, with owners who die at any moment: the pump's own code without its network."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kit.mirror import SOURCE_ID, TARGET_ID, assigned
from kit.paired_logs import Brought, LogOnWire
from mmtool.kafka.wire.codes import FENCED, Code
from mmtool.plan.records.documents import State
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.replication.pump.mirror import PartitionMirror
from mmtool.replication.recovery.recover_partition import DivergedError, MirrorLog, Resumed, Upstream, resume
from mmtool.replication.spark.assignment import ShardAssignment
from mmtool.translation.answers import TargetLog
from mmtool.translation.block_codec import decode_block, encode_block
from mmtool.translation.blocks import WriterState
from mmtool.translation.partition_map import PartitionMap, join_blocks
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import UNKNOWN, DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kit.paired_logs import PairedLog
    from mmtool.replication.pump.batch_prep import InFlightBatch
    from mmtool.translation.blocks import Block, BlockKey
    from mmtool.translation.types import TopicId, Unknown

_RUNS_OF_A_BLOCK = 3
_LIMIT = 4096
_LONG = 1000  # steps


@dataclass
class Owner:
    """A process that has taken the flow, and what it has on the network.

    Attributes:
        requests: On their way, in order.
        answers: On their way back, in order.
        over: It has found out that it is no owner any more, or that it cannot tell what became of a batch.
    """

    mirror: PartitionMirror
    requests: deque[tuple[InFlightBatch, bytes]] = field(default_factory=deque)
    answers: deque[tuple[InFlightBatch, object]] = field(default_factory=deque)
    over: bool = False

    @property
    def runs(self) -> bool:
        return not self.over and self.mirror.state != State.HALTED

    @property
    def is_idle(self) -> bool:
        """Nothing is under way, and all of it is known."""
        return self.runs and self.mirror.settled and not self.requests and not self.answers

    def send(self) -> None:
        sent = self.mirror.next_to_send()
        self.requests.append((sent, bytes(sent.batch.payload)))

    def hear(self) -> None:
        sent, answer = self.answers.popleft()
        if self.over:
            return
        try:
            self.mirror.answered(sent, answer)  # type: ignore[arg-type]
        except (InDoubtError, FencedError):
            self.over = True


@dataclass
class PairedFlow:
    """The flow from one log to the other; both have one name, so what the other flow brought is left out.

    Attributes:
        source_id: What the source's metadata says its topic is.
        stored: The offset runs, as they lie on the target.
        closed: The last owner said where it stopped.
        halted: Why it cannot go on.
        held: The topic has failed over, so that nobody mirrors it.
        older: Owners that were taken from and do not know it.
        ghosts: Requests of connections that broke: the broker may still find them in a socket.
    """

    source: PairedLog
    target: PairedLog
    source_id: TopicId = SOURCE_ID
    epoch: int = 0
    stored: dict[BlockKey, bytes] = field(default_factory=dict)
    closed: bool = True
    halted: str = ""
    held: bool = False
    owner: Owner | None = None
    older: list[Owner] = field(default_factory=list)
    ghosts: deque[bytes] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.keep([assigned().block])

    @property
    def producer_id(self) -> int:
        return 70 + self.source.side

    @property
    def brought_here(self) -> int:
        """The producer id of the way back."""
        return 70 + self.target.side

    # --- what is stored -----------------------------------------------------------------------------------

    def keep(self, blocks: Iterable[Block]) -> None:
        self.stored |= {block.key: encode_block(block) for block in blocks}

    def map(self) -> PartitionMap:
        """What anybody can read of it."""
        return join_blocks(map(decode_block, self.stored.values()))

    @property
    def newest(self) -> Block:
        return decode_block(self.stored[max(self.stored)])

    # --- whose it is --------------------------------------------------------------------------------------

    def take(self, *, dies: bool = False) -> None:
        """Somebody takes it if it can be had, and may die before anything of what was found out is stored."""
        if self.held or self.halted:
            return
        if self.owner is not None:
            self.older.append(self.owner)
        self.owner, in_doubt = None, not self.closed
        self.epoch += 1
        self.closed = False
        block = self.newest
        if in_doubt:
            unbooked = self._unbooked(block)
            self.target.mark(self.producer_id, self.epoch)
            self.epoch += 1
            try:
                block = self._resumed(block, unbooked)
            except DivergedError as error:
                self.halted = str(error)
        if dies or self.halted:
            return
        if block.tail.writer is UNKNOWN:
            block = self._claimed(MapRecorder.resume(block))  # stored before the first record is sent
        self.keep([block])
        begin = replace(assigned(stored=True, max_batch_bytes=_LIMIT), block=block)
        shard = ShardAssignment(0, self.producer_id, self.epoch, 0)
        mirror = PartitionMirror(begin, shard, read_committed=True, left_out={self.brought_here})
        mirror._recorder._max_runs = _RUNS_OF_A_BLOCK
        self.owner = Owner(mirror)

    def _unbooked(self, block: Block) -> int | Unknown:
        """What the target's leader remembers of the last owner, behind what is stored."""
        known, writer = self.target.writers.get(self.producer_id), block.tail.writer
        if writer is UNKNOWN or known is None or known.epoch != writer.epoch:
            return UNKNOWN
        return max(known.last + 1 - writer.next_sequence, 0)

    def _resumed(self, block: Block, unbooked: int | Unknown) -> Block:
        bounds = TargetLog(DownstreamOffset(self.target.start), DownstreamOffset(self.target.end))
        source = Upstream(
            LogOnWire(self.source, "source", self.source_id),  # type: ignore[arg-type]
            True,
            Brought(frozenset({self.brought_here})),  # type: ignore[arg-type]
        )
        mirror = MirrorLog(
            LogOnWire(self.target, "target", TARGET_ID),  # type: ignore[arg-type]
            block.about,
            TARGET_ID,
            bounds,
            {self.producer_id},
            "-s source -t target",
        )
        resumed: Resumed = asyncio.run(resume(source, mirror, block, unbooked=unbooked))
        return self._claimed(resumed.recorder)

    def _claimed(self, recorder: MapRecorder) -> Block:
        recorder.claimed(WriterState(self.producer_id, self.epoch, 0))
        *sealed, last = recorder.take()
        self.keep(sealed)
        return last

    def die(self, *, landed: int, ghosts: bool, stored: int) -> None:
        """kill -9: some of what was sent had landed, some was stored; the rest is gone, or still in a socket."""
        assert self.owner is not None
        self.keep(self.owner.mirror.take_blocks()[:stored])
        self.break_connection(self.owner, landed=landed, ghosts=ghosts)
        self.owner = None

    def stop(self) -> None:
        """The topic has failed over: whoever ran the flow lets go of it, as if killed."""
        if self.owner is not None:
            self.die(landed=0, ghosts=True, stored=0)
        self.held = True

    def pass_over(self, to: int) -> None:
        """A failback: what was exported is never mirrored (`flow seek`), and the topic is released."""
        self.held = False
        self.take()
        if self.owner is not None:
            recorder = MapRecorder.resume(self.newest)
            recorder.skip_to(UpstreamOffset(to))
            self.keep(recorder.take())
            self.owner, self.closed = None, True

    def close(self) -> None:
        """A clean end. Only where the owner is idle."""
        assert self.owner is not None
        self.keep(self.owner.mirror.take_blocks())
        self.owner, self.closed = None, True

    # --- the network --------------------------------------------------------------------------------------

    def fetch(self, batches: int) -> None:
        """The owner reads on; what retention has taken is passed over (``mmtool.on.data.loss = continue``)."""
        assert self.owner is not None
        mirror = self.owner.mirror
        answer = self.source.fetch(mirror.fetch_position, batches)
        if answer.error_code == Code.OFFSET_OUT_OF_RANGE:
            mirror.skip_to(UpstreamOffset(self.source.start))
        else:
            mirror.offer(answer, now_ms=1)

    def broker_answers(self, owner: Owner) -> None:
        sent, payload = owner.requests.popleft()
        end = self.target.end
        answer = self.target.append(payload)
        if owner is not self.owner:
            assert (answer.error_code in FENCED, self.target.end) == (True, end), (
                "it lost its claim, and wrote"
            )
        owner.answers.append((sent, answer))

    def break_connection(self, owner: Owner, *, landed: int, ghosts: bool) -> None:
        lost = [sent for sent, _ in (*owner.answers, *owner.requests)]
        for _ in range(min(landed, len(owner.requests))):
            self.target.append(owner.requests.popleft()[1])
        if ghosts:
            self.ghosts += [payload for _, payload in owner.requests]
        owner.answers.clear()
        owner.requests.clear()
        for sent in lost:
            if not owner.over:
                owner.mirror.lost(sent)

    def work(self, steps: int) -> None:
        """The owner goes on as it would, and nothing is in its way."""
        for _ in range(steps):
            owner = self.owner
            if owner is None or not owner.runs:
                return
            if owner.answers:
                owner.hear()
            elif owner.mirror.sendable:
                owner.send()
            elif owner.requests:
                self.broker_answers(owner)
            elif owner.mirror.fetch_position < self.source.end:
                self.fetch(1)
            else:
                return  # and nothing comes by itself

    def catch_up(self) -> bool:
        """Everything works for a while: whether all of the source is there and on record now."""
        if self.owner is None or not self.owner.runs:
            self.take()
        self.work(_LONG)
        if self.owner is None or not self.owner.runs:
            return False
        self.keep(self.owner.mirror.take_blocks())
        return True
