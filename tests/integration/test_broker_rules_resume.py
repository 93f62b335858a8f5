"""Owners that vanish, come back, or were never gone: the mirror of a real flow, without Spark.

The flow runs from ``target`` to ``source``, so that no other test's flow is taken over by accident.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from kit.batches import PlainRecord, batch_of
from kit.lab_admin import compare_topics, delete_records, delete_topic
from kit.mirror_flow import Owner, flow_of
from kit.wire import NOW_MS, Wire, on_loop, signed
from kit.writers import RunningWriter
from mmtool.kafka.wire.codes import Code
from mmtool.lab.topics import create_topic, read_topic, topics_of
from mmtool.replication.pump import pump
from mmtool.replication.pump.batch_prep import FencedError
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.spark.task import Flows

if TYPE_CHECKING:
    from mmtool.config.settings import FlowSettings

FROM, TO = "target", "source"
FENCED_WITHIN_SECONDS = 15.0


@dataclass(frozen=True)
class Scene:
    """One flow, and a topic of one partition that it mirrors."""

    settings: FlowSettings
    up: str
    down: str
    topic: str

    @property
    def mirrored(self):
        return self.settings.remote_topic(self.topic)

    async def take(self, *, in_doubt=False):
        return await Owner.take(self.settings, in_doubt=in_doubt)

    def read(self):
        """The mirror as consumers see it, committed or not."""
        return [record.value for record in read_topic(self.down, self.mirrored, isolation="read_uncommitted")]

    async def delete_mirror(self):
        """The target topic with all its records, by somebody's hand."""
        await asyncio.to_thread(delete_topic, self.down, self.mirrored)

    async def delete_below(self, offset):
        """DeleteRecords on the mirror."""
        await asyncio.to_thread(delete_records, self.down, self.mirrored, offset)


@pytest.fixture
def upstream(fleet, scene):
    return Wire(scene.settings.source, fleet[FROM].bootstrap)


@pytest.fixture
def scene(fleet, tmp_path, topic_name):
    topic = topic_name("resume")
    create_topic(fleet[FROM].bootstrap, topic)
    settings = flow_of(fleet, tmp_path, FROM, TO, f"{topic}.*")
    return Scene(settings, fleet[FROM].bootstrap, fleet[TO].bootstrap, topic)


def numbered(first, count):
    """A batch of records that are no two alike."""
    records = [PlainRecord(at, NOW_MS + at, b"k", b"%d" % at) for at in range(first, first + count)]
    return batch_of([replace(r, offset=r.offset - first) for r in records])


def values(first, stop):
    return [b"%d" % at for at in range(first, stop)]


async def vanished(scene, upstream, *, booked, unbooked):
    """What an owner leaves behind that dies between an append and its books, and the log that it wrote to.

    ``booked`` records were mirrored in a whole round. Of ``unbooked`` more the target has the bytes, appended by
    hand exactly as a pump appends them.
    """
    log = await upstream.log(scene.topic)
    assert (await log.produce(numbered(0, booked).write())).error_code == Code.NONE
    owner = await scene.take()
    await owner.catch_up()
    target = await owner.target_log(scene.topic)
    if unbooked:
        await log.produce(numbered(booked, unbooked).write())
        twin = replace(numbered(booked, unbooked), producer=(*owner.signature(scene.topic), booked))
        assert (await target.produce(twin.write())).error_code == Code.NONE
    await owner.kill()
    return log


# --- taking over ------------------------------------------------------------------------------------------


@on_loop
async def test_a_first_start_and_a_clean_hand_over_write_no_marker(scene, upstream):
    log = await upstream.log(scene.topic)
    for turn in range(3):
        await log.produce(numbered(10 * turn, 10).write())
        owner = await scene.take()
        await owner.catch_up()
        batches = await (await owner.target_log(scene.topic)).batches()
        await owner.close()
    assert [view.header.is_control for view in batches] == [False] * len(batches)
    assert (scene.read(), owner.runs(scene.topic)) == (values(0, 30), [(0, 0, 30)])


@on_loop
async def test_rounds_that_end_while_their_books_are_written_hand_everything_over(scene, monkeypatch):
    """Under load, with books that are written all the time: within one owner, and from one to the next."""
    monkeypatch.setattr(pump, "_STORE_SECONDS", 0.001)
    with RunningWriter(scene.up, scene.topic, 1, 1500.0, record_bytes=200):
        for _ in range(4):
            owner = await scene.take()
            for seconds in (0.21, 0.34):
                rows = await owner.pump(seconds)
                assert {row.told for row in rows} == {""}
            await owner.close()
    owner = await scene.take()
    await owner.catch_up()
    batches = await (await owner.target_log(scene.topic)).batches()
    await owner.close()
    verdicts = compare_topics(scene.up, scene.topic, scene.down, scene.mirrored)
    assert {p: str(v) for p, v in verdicts.items() if not v.is_identical} == {}
    assert not any(view.header.is_control for view in batches)


@on_loop
async def test_unbooked_records_that_the_source_deleted_since_are_no_loss(scene, upstream, measured):
    await vanished(scene, upstream, booked=5, unbooked=5)
    await asyncio.to_thread(delete_records, scene.up, scene.topic, 8)
    began = time.monotonic()
    owner = await scene.take()
    await owner.catch_up()
    measured(
        f"unbooked records deleted on the source: even {time.monotonic() - began:.1f} s after the next owner began"
    )
    runs = owner.runs(scene.topic)
    await owner.close()
    assert (owner.halted(scene.topic), scene.read(), runs) == ("", values(0, 10), [(0, 0, 10)])


# --- never guessed ----------------------------------------------------------------------------------------


@on_loop
@pytest.mark.parametrize("seen_by", ["the next owner", "a task that starts again"])
async def test_what_diverged_is_left_alone_by_its_owner_and_looked_at_again_by_the_next_one(
    scene, upstream, seen_by
):
    log = await vanished(scene, upstream, booked=5, unbooked=0)
    await log.produce(numbered(5, 3).write())
    owner = await scene.take()
    target = await owner.target_log(scene.topic)
    await target.produce(signed([b"forged"], owner.signature(scene.topic), 0))
    if seen_by == "the next owner":
        await owner.kill()
        owner = await scene.take(in_doubt=True)
    else:
        owner.run.fold(await Flows(owner.task(1.0)).run(in_doubt=True), 1.0)
    for _ in range(2):
        owner.run.retry_halted()
        await owner.pump(0.5)
    await owner.close()  # clean as it is, the shard is not
    successor = await scene.take()
    assert "diverged" in successor.halted(scene.topic)
    await successor.pump(0.5)
    await successor.close()
    assert scene.read() == [*values(0, 5), b"forged"]


@on_loop
async def test_unbooked_records_that_the_target_deleted_halt_the_partition(scene, upstream):
    """Sent again, they would stand twice for whoever read them before."""
    await vanished(scene, upstream, booked=5, unbooked=7)
    await scene.delete_below(12)
    owner = await scene.take(in_doubt=True)
    reason = owner.halted(scene.topic)
    await owner.catch_up()
    await owner.kill()
    assert "deleted offsets 5 to 11" in reason
    assert scene.read() == []


@on_loop
async def test_booked_records_that_the_target_deleted_are_nobody_s_loss(scene, upstream):
    log = await vanished(scene, upstream, booked=5, unbooked=0)
    await scene.delete_below(5)
    await log.produce(numbered(5, 5).write())
    owner = await scene.take(in_doubt=True)
    await owner.catch_up()
    await owner.close()
    assert (owner.halted(scene.topic), scene.read()) == ("", values(5, 10))


@pytest.mark.parametrize(
    "made_again",
    [pytest.param(False, id="gone", marks=pytest.mark.chaos), pytest.param(True, id="made again")],
)
@on_loop
async def test_a_mirror_that_was_deleted_is_never_written_to_again(scene, upstream, made_again):
    """Its offset runs lead to records that are not there; start after start."""
    log = await vanished(scene, upstream, booked=5, unbooked=0)
    await (await scene.take()).close()
    await scene.delete_mirror()
    if made_again:
        create_topic(scene.down, scene.mirrored)
    await log.produce(numbered(5, 5).write())
    for in_doubt in (False, True):
        owner = await scene.take(in_doubt=in_doubt)
        await owner.catch_up()
        reason = owner.run.view.refused[scene.topic]
        await owner.close()
        assert ("was deleted" in reason, "mmtool.on.topic.recreated = restart" in reason) == (True, True)
    there = topics_of(scene.down)
    assert (scene.mirrored in there) == made_again
    assert not made_again or scene.read() == []


@on_loop
async def test_a_deleted_mirror_begins_again_where_the_operator_says_so(scene, upstream):
    log = await vanished(scene, upstream, booked=5, unbooked=0)
    await scene.delete_mirror()
    await log.produce(numbered(5, 5).write())
    restarting = replace(scene, settings=scene.settings.model_copy(update={"on_topic_recreated": "restart"}))
    for _ in range(2):
        owner = await restarting.take()
        await owner.catch_up()
        await owner.close()
    assert (scene.read(), owner.runs(scene.topic)) == (values(0, 10), [(0, 0, 10)])


# --- two owners at once -----------------------------------------------------------------------------------


@on_loop
async def test_an_owner_that_was_replaced_appends_nothing_any_more(scene, upstream):
    """Neither records nor offset runs, on no partition of its shards."""
    log = await upstream.log(scene.topic)
    await log.produce(numbered(0, 5).write())
    old = await scene.take()
    await old.catch_up()
    new = await scene.take(in_doubt=True)
    target = await old.target_log(scene.topic)
    answer = await target.produce(signed([b"zombie"], old.signature(scene.topic), 5))
    with pytest.raises(FencedError):
        await store_owned(
            old.run.flow, old.run.standing, old.shard(scene.topic).shard, [old.block(scene.topic)]
        )
    await old.kill()
    await new.close()
    assert answer.error_code == Code.INVALID_PRODUCER_EPOCH
    assert scene.read() == values(0, 5)


@on_loop
async def test_an_owner_that_was_replaced_cannot_begin_a_new_partition(scene, upstream, topic_name):
    """Its first block would have to be stored first, and that is fenced as well."""
    old = await scene.take()
    create_topic(scene.up, f"{scene.topic}-young")
    await (await upstream.log(f"{scene.topic}-young")).produce(numbered(0, 5).write())
    await old.run.refresh()
    new = await scene.take(in_doubt=True)
    with pytest.raises(FencedError):
        await old.pump(1.0)
    await old.kill()
    await new.close()
    mirrored = scene.settings.remote_topic(f"{scene.topic}-young")
    assert read_topic(scene.down, mirrored, isolation="read_uncommitted") == []


@on_loop
async def test_ten_thousand_equal_records_are_as_many_after_owners_were_killed_between_them(
    scene, upstream, measured
):
    """Nothing but their numbers tells them apart."""
    chance, log, lives = random.Random(5), await upstream.log(scene.topic), 5
    equal = batch_of([PlainRecord(at, NOW_MS, b"k", b"same") for at in range(100)]).write()
    owner = await scene.take()
    for _ in range(lives):
        owner.start()
        for _ in range(100 // lives):
            assert (await log.produce(equal)).error_code == Code.NONE
        await asyncio.sleep(chance.uniform(0.0, 0.3))
        await owner.kill()
        began = time.monotonic()
        owner = await scene.take(in_doubt=True)
    await owner.catch_up()
    measured(f"equal records: even {time.monotonic() - began:.1f} s after the last owner began")
    assert (scene.read() == [b"same"] * 10_000, owner.halted(scene.topic)) == (True, "")
    assert sum(count for _, _, count in owner.runs(scene.topic)) == 10_000
    await owner.close()


LIVES = [pytest.param(1, 4), *(pytest.param(seed, 15, marks=pytest.mark.chaos) for seed in range(2, 8))]


@pytest.mark.parametrize(("seed", "lives"), LIVES)
@on_loop
async def test_owners_killed_at_any_moment_and_owners_that_do_not_know_lose_and_repeat_nothing(
    scene, seed, lives
):
    """Under load, each is killed in the middle, or goes on beside its successor until it is fenced."""
    chance = random.Random(seed)
    topics = {f"{scene.topic}-plain": 0, f"{scene.topic}-tx": 7}
    zombies = []
    with ExitStack() as writers:
        for topic, transactions in topics.items():
            create_topic(scene.up, topic, 2)
            writer = RunningWriter(scene.up, topic, 2, 1500.0, transactions=transactions, record_bytes=200)
            writers.enter_context(writer)
        owner = await scene.take()
        for _ in range(lives):
            pumping = owner.start()
            await asyncio.sleep(chance.uniform(0.0, 1.6))
            if chance.random() < 0.5:
                await owner.kill()
            else:
                zombies.append((owner, pumping))
            owner = await scene.take(in_doubt=True)
        await asyncio.to_thread(writers.close)
    ends = []
    for zombie, pumping in zombies:
        async with asyncio.timeout(FENCED_WITHIN_SECONDS):
            ends += await asyncio.gather(pumping, return_exceptions=True)
        await zombie.kill()
    await owner.catch_up()
    halted = [owner.halted(topic, partition) for topic in topics for partition in range(2)]
    await owner.close()
    assert [type(end) for end in ends] == [FencedError] * len(zombies)
    assert halted == [""] * 4
    for topic in topics:
        verdicts = compare_topics(scene.up, topic, scene.down, scene.settings.remote_topic(topic))
        assert {p: str(v) for p, v in verdicts.items() if not v.is_identical} == {}
