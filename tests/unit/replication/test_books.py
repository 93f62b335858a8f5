"""Offset runs reach the target whole and in order, or the pump stops; MirrorMaker 2's offset syncs never stop it."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from uuid import UUID

import pytest

from kit.mirror import assigned, fetched, mirror_of
from kit.wire import on_loop
from mmtool.errors import UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.plan.records.documents import PositionRecord
from mmtool.plan.records.identity import FlowIdentity
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.pump import state_writer
from mmtool.replication.pump import state_writer as books
from mmtool.replication.pump.batch_prep import InDoubtError
from mmtool.replication.pump.state_writer import OffsetRunWriter, PositionWriter, SyncBook, store_owned
from mmtool.replication.spark.log import executor_name
from mmtool.runtime.threads import to_its_end
from mmtool.translation.runs import Mirrored
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

REQUEST_SECONDS = 30.0


class Target:
    """Answers a write when it is let to."""

    alias = "target"

    def __init__(self, code=Code.NONE):
        self.code = code
        self.may_answer = asyncio.Event()
        self.asked = asyncio.Event()

    def topic_id(self, _):
        return "id"

    async def send_to_leader(self, *_, **__):
        self.asked.set()
        await self.may_answer.wait()
        return SimpleNamespace(partitions=[SimpleNamespace(error_code=self.code)])


def book_of(target):
    mirror = mirror_of(assigned(stored=False))
    flow = SimpleNamespace(shards=(mirror.shard,), identity=FlowIdentity("s", "t", "a", "b"))
    return OffsetRunWriter(target, flow, [mirror])


async def cut_off(work, target):
    """Cancels ``work`` while the target still thinks."""
    task = asyncio.ensure_future(work)
    await target.asked.wait()
    task.cancel()
    asyncio.get_running_loop().call_later(0.05, target.may_answer.set)
    with suppress(asyncio.CancelledError):
        await task


@on_loop
async def test_no_write_follows_one_that_was_cut_off():
    target = Target()
    book = book_of(target)
    await cut_off(book.flush(), target)
    with pytest.raises(InDoubtError):
        await book.flush()


@on_loop
async def test_a_write_that_is_carried_to_its_end_is_known_to_be_there():
    target = Target()
    book = book_of(target)
    await cut_off(to_its_end(book.flush()), target)
    assert book.sequences == {0: 1}
    await book.flush()


def write_position(target, mirror):
    """The third round of the flow has heard of the source at this time."""
    flow = SimpleNamespace(
        owner="me", identity=FlowIdentity("s", "t", "a", "b"), control_topic_id="id", round=3
    )
    book = PositionWriter(target, flow, [mirror], SimpleNamespace(use=lambda: None))
    asyncio.run(book.flush(heard_ms=2000, waiting={}))


def test_a_source_that_is_not_heard_is_not_known_to_be_caught_up_with(monkeypatch):
    """However long ago that was: neither when it was seen so, nor since when it is."""
    written = []
    monkeypatch.setattr(books, "own_batches", lambda records, _: written.extend(records) or ())
    mirror = mirror_of(assigned())
    mirror.offer(fetched(b"", end=0), now_ms=1000)
    write_position(None, mirror)
    ((_, value),) = written
    position = PositionRecord.decode(value)
    assert (position.observed_ms, position.at_end_ms) == (2000, 2000)
    assert (position.executor, position.round) == (executor_name(), 3)


@pytest.mark.parametrize(("code", "told"), [(Code.NONE, 9), (Code.TOPIC_AUTHORIZATION_FAILED, 0)])
def test_a_gap_is_told_once_its_position_is_on_the_control_topic(code, told):
    mirror, target = mirror_of(assigned()), Target(code)
    target.may_answer.set()
    mirror.gaps.met(4, 9)
    write_position(target, mirror)
    assert (mirror.gaps.count, mirror.gaps.told) == (5, told)


class Moved(Target):
    """A cluster whose leader of the runs hangs for as long as a request waits; another one leads by then."""

    def __init__(self):
        super().__init__()
        self.tries = 0

    async def send_to_leader(self, *_, **__):
        self.tries += 1
        if self.tries == 1:
            later(REQUEST_SECONDS)
            raise ConnectionLostError("broker 1 of target did not answer in time")
        return SimpleNamespace(partitions=[SimpleNamespace(error_code=self.code)])


def later(seconds):
    """So long has passed, by the clock of the loop."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds


@on_loop
async def test_a_leader_that_hangs_or_a_quota_that_mutes_a_connection_for_minutes_ends_no_pump():
    """Nobody was asked a second time: the first request had waited for as long as all of them may."""
    book = book_of(Moved())
    await book.flush()
    assert book.sequences == {0: 1}


@on_loop
async def test_what_an_owner_stores_after_another_write_has_the_number_that_follows():
    """Numbered alike, the second write would pass for a repetition of the first one."""
    start, target = assigned(), Target()
    target.may_answer.set()
    shard = mirror_of(start).shard
    standing = OwnedState({shard.shard: shard}, {(start.topic_id, start.partition): start.block})
    flow = SimpleNamespace(target=target, identity=FlowIdentity("s", "t", "a", "b"))
    await store_owned(flow, standing, shard.shard, [start.block])
    await store_owned(flow, standing, shard.shard, struck_out=[start.block.key])
    assert standing.shards[shard.shard].runs_sequence == shard.runs_sequence + 2


class Cluster:
    """Its connections end with this error."""

    alias = "east"

    def __init__(self, error):
        self.error = error

    def topic_id(self, _):
        return UUID(int=1)

    async def send_to_leader(self, *_, **__):
        raise self.error


@pytest.mark.parametrize(
    "error", [ConnectionLostError("east refuses the credentials"), UnreachableError("no answer")]
)
@on_loop
async def test_a_cluster_that_refuses_a_session_is_told_and_ends_no_task(monkeypatch, error):
    monkeypatch.setattr(state_writer, "syncs_place", lambda _: ("east", "mm2-offset-syncs.west.internal"))
    mirror = mirror_of(assigned())
    mirror.unsynced = Mirrored(UpstreamOffset(2), DownstreamOffset(2))
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    book = SyncBook(
        Cluster(error), SimpleNamespace(settings=SimpleNamespace(emit_offset_syncs=True)), [mirror]
    )
    await book.close()
    assert book._writing.exception() is None
    assert (book.failure, heard) == (str(error), [])
