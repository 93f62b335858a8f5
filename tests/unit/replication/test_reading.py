"""A broker that does not answer tells nothing of its partitions' ends, and the reader knows since when."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from kit.batches import data
from kit.mirror import FakeLog, OneBroker, assigned, fetched, mirror_of, settle
from kit.tasks import cut_off_after, under_way
from kit.wire import on_loop
from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.kafka.wire.metadata import EARLIEST, ListedOffset, ListOffsetsRequest
from mmtool.plan.records.documents import State
from mmtool.plan.topics.facts import missing_right
from mmtool.replication.pump import budget
from mmtool.replication.pump.budget import Budget, Pace
from mmtool.replication.pump.reader import SourceReader

LATER_MS = 60_000


class Source(OneBroker):
    """A broker with nothing to tell, which answers until it hangs, or until its connections break."""

    hangs = breaks = False

    async def send(self, node, request, *, purpose):
        await asyncio.sleep(0.001)
        if self.breaks:
            raise ConnectionLostError("broken")
        if self.hangs:
            await asyncio.Event().wait()
        return FetchAnswer(0, Code.NONE, [])


class Deleting(OneBroker):
    """A broker that gives two batches, and has deleted everything below offset 9 by the next fetch, or fails so."""

    def __init__(self, code=Code.OFFSET_OUT_OF_RANGE):
        self.code = code

    async def send(self, node, request, *, purpose):
        await asyncio.sleep(0.001)
        if isinstance(request, ListOffsetsRequest):
            ((place, when),) = request.timestamps.items()
            return {place: self.listed(when)}
        return FetchAnswer(0, Code.NONE, self.told({p.partition: p.offset for p in request.partitions}))

    def listed(self, when):
        return ListedOffset(Code.NONE, 9 if when == EARLIEST else 20)

    def told(self, at):
        if at.get(0) == 0:
            return [fetched(data(0, 2), data(2, 2), end=20)]
        return [fetched(end=20, log_start=9)._replace(error_code=self.code)]


class DeletingAll(Deleting):
    """The same of two partitions, told in one answer; of the second it has never given anything."""

    def told(self, at):
        (first,) = super().told(at)
        return [first] if at.get(0) == 0 else [first, first._replace(partition=1)]


class BoundsAway(Deleting):
    """It has deleted as well, and does not tell from where on its log begins."""

    asked = 0

    def listed(self, when):
        self.asked += 1
        return ListedOffset(Code.NOT_LEADER_OR_FOLLOWER, 0)


class DiskGone(OneBroker):
    """A broker that lost the partition's disk and goes on with others; who leads by now is in its metadata."""

    leads, lost = 1, False

    def leader(self, topic, partition):
        return self.leads

    async def refresh(self, topics):
        self.leads = 2 if self.lost else 1
        return await super().refresh(topics)

    async def send(self, node, request, *, purpose):
        await asyncio.sleep(0.001)
        if node == 1 and request.partitions:
            self.lost = True
            return FetchAnswer(0, Code.NONE, [fetched(end=2)._replace(error_code=Code.KAFKA_STORAGE_ERROR)])
        return FetchAnswer(0, Code.NONE, [fetched(data(0, 2), end=2)] if node == 2 else [])


class HalfLed(OneBroker):
    """A cluster of which one topic has no leader for a while; it gives two records of that once it has."""

    def __init__(self):
        self.asked, self.is_led = [], False

    def leader(self, topic, partition):
        return 1 if topic == "orders" or self.is_led else None

    async def refresh(self, topics):
        names = set(topics)
        self.asked.append(names)
        return await super().refresh(names)

    async def send(self, node, request, *, purpose):
        await asyncio.sleep(0.001)
        of = [place for place in request.partitions if place.topic == "bills"]
        return FetchAnswer(0, Code.NONE, [fetched(data(0, 2), end=2)._replace(partition=1)] if of else [])


class Two(OneBroker):
    """A broker with a batch in each of two partitions: the first one's producer has an id."""

    async def send(self, node, request, *, purpose):
        await asyncio.sleep(0.001)
        if any(place.offset for place in request.partitions) or not request.partitions:
            return FetchAnswer(0, Code.NONE, [])
        own = fetched(data(0, 2), end=2)._replace(partition=1)
        return FetchAnswer(0, Code.NONE, [fetched(data(0, 2, pid=7), end=2), own])


class Hidden:
    """The register of a source that cannot be read any more."""

    left_out = ()

    def __init__(self, why):
        self.why = why

    def knows(self, producer_ids):
        return producer_ids <= {-1}

    async def learn(self, producer_ids):
        if not self.knows(producer_ids):
            raise self.why


def reading(source, *mirrors, continue_on_loss=False, origins=None):
    free = Pace(SimpleNamespace(owner="me", round=1, bytes_per_second=None), 0)
    budget = Budget(1 << 30).account()
    return SourceReader(
        source,
        mirrors or [mirror_of()],
        budget,
        free,
        lambda _: None,
        read_committed=True,
        continue_on_loss=continue_on_loss,
        origins=origins,
    )


@pytest.mark.long
@pytest.mark.parametrize("how", ["hangs", "breaks"])
@on_loop
async def test_what_was_heard_last_is_told_as_long_as_nothing_is_answered(how):
    source = Source()
    reader = reading(source)
    async with under_way(reader.run()):
        await asyncio.sleep(0.1)
        now_ms, now = int(time.time() * 1000), time.monotonic()
        assert reader.heard_ms(now_ms, now) == now_ms
        setattr(source, how, True)
        await asyncio.sleep(0.3)
        heard_ms = reader.heard_ms(now_ms + LATER_MS, now + LATER_MS / 1000)
        setattr(source, how, False)
        await asyncio.sleep(0.3)
        again_ms = reader.heard_ms(now_ms + 1000, now + 1)
    assert -100 < heard_ms - now_ms < 300
    assert how == "hangs" or again_ms == now_ms + 1000


@pytest.mark.long
@pytest.mark.parametrize("how", ["hangs", "breaks"])
@on_loop
async def test_a_leader_is_named_that_has_not_answered_for_long(how, monkeypatch):
    monkeypatch.setattr(budget, "SILENT_SECONDS", 0.2)
    source = Source()
    reader = reading(source)
    (mirror,) = reader._mirrors
    async with under_way(reader.run()):
        await asyncio.sleep(0.1)
        named = [reader.kept_waiting().get(mirror)]
        setattr(source, how, True)
        await asyncio.sleep(0.5)
        named.append(reader.kept_waiting().get(mirror))
    assert named == [None, 1]


@pytest.mark.parametrize("turns", range(6))
@on_loop
async def test_a_round_that_ends_in_the_moment_in_which_there_is_room_again_does_end(turns):
    """The reader went on for ever, and its round was given up after three minutes, with Python's own `wait_for`."""
    reader = reading(Source())
    task = asyncio.create_task(reader.run())
    await asyncio.sleep(0.05)
    for mirror in reader._mirrors:
        mirror.halt("nothing to ask for")
        for followed in reader._followed.values():
            followed.touch(mirror)
    await asyncio.sleep(0.05)
    reader.has_room()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    _, left = await asyncio.wait({task}, timeout=1)
    assert not left


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (Deleting(), "the source deleted offsets 4 to 8 before they were mirrored"),
        (Deleting(Code.CORRUPT_MESSAGE), "the source's log is corrupt at offset 4"),
        (Deleting(Code.TOPIC_AUTHORIZATION_FAILED), missing_right("READ on source topic orders")),
    ],
    ids=["deleted", "corrupt", "denied"],
)
def test_what_was_read_before_the_source_had_no_more_of_it_is_mirrored_and_only_the_rest_is_told(
    source, reason
):
    """What it deleted is nowhere but here, and what it denies may not be once that is granted again; and behind what it
    cannot read each try would bring a few batches.
    """

    async def scene(mirror, log):
        async with under_way(reading(source, mirror).run()):
            for _ in range(2000):
                if mirror.then_halt or mirror.state == State.HALTED:
                    break
                await asyncio.sleep(0.01)
            settle(mirror, log)

    mirror, log = mirror_of(assigned(stored=True)), FakeLog()
    asyncio.run(scene(mirror, log))
    assert (len(log.records), mirror.frontier, mirror.state) == (4, 4, State.HALTED)
    assert mirror.reason.startswith(reason)


@on_loop
async def test_a_partition_that_nobody_leads_is_asked_about_alone_until_somebody_does():
    """All others with it, ten times a second, are half a pump's time where there are thousands of them."""
    source, bills = HalfLed(), mirror_of(assigned(topic="bills", partition=1))
    async with under_way(reading(source, mirror_of(), bills).run()):
        await asyncio.sleep(0.5)
        source.is_led = True
        await asyncio.sleep(0.3)
    first, *others = source.asked
    assert (first, bills.fetch_position) == ({"orders", "bills"}, 2)
    assert 1 <= len(others) <= 8
    assert all(names == {"bills"} for names in others)


@on_loop
async def test_a_partition_whose_disk_its_broker_lost_is_read_from_who_leads_it_now():
    """The old one says that it lost it, for ever, and never that another leads."""
    mirror = mirror_of()
    await cut_off_after(0.6, reading(DiskGone(), mirror).run())
    assert mirror.fetch_position == 2


@on_loop
async def test_a_source_that_does_not_tell_where_its_log_begins_is_asked_again_with_pauses():
    source = BoundsAway()
    await cut_off_after(0.5, reading(source).run())
    assert 2 <= source.asked <= 6


def land(mirror):
    """All that it holds is on the target."""
    settle(mirror, FakeLog())


def gap_after(*steps):
    """The gap that a mirror knows of before and after each step, and its frontier."""

    async def scene():
        mirror = mirror_of(assigned(stored=True))
        async with under_way(reading(Deleting(), mirror, continue_on_loss=True).run()):
            seen = []
            for step in (lambda _: None, *steps):
                step(mirror)
                await asyncio.sleep(0.4)
                seen.append((mirror.gaps.count, mirror.gaps.end, mirror.frontier))
        return seen, mirror.dirty

    return asyncio.run(scene())


@pytest.mark.long
def test_a_gap_is_passed_over_once_it_has_been_told_and_not_before():
    """An owner that is killed behind it would leave nobody who knows of it."""

    def tell(mirror):
        mirror.gaps.told = mirror.gaps.end

    assert gap_after(land, tell) == ([(0, 0, 0), (5, 9, 4), (5, 9, 9)], True)


def test_nor_is_it_told_before_all_that_was_read_before_it_is_on_the_target():
    """The source has that no more either: let go by a halt, or by a kill, it would be lost and counted by nobody."""
    seen, _ = gap_after(lambda mirror: mirror.halt("the target refuses it"))
    assert seen == [(0, 0, 0)] * 2


@on_loop
async def test_a_gap_of_one_partition_is_told_however_long_another_waits_for_its_target_before_its_own():
    """Both stand in one answer of the source, in the same order each time: the second was never looked at."""
    waits, other = mirror_of(assigned(stored=True)), mirror_of(assigned(partition=1, stored=True))
    await cut_off_after(0.4, reading(DeletingAll(), waits, other, continue_on_loss=True).run())
    assert [(mirror.gaps.count, mirror.gaps.end) for mirror in (waits, other)] == [(0, 0), (9, 9)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotAuthorisedError("denied"), missing_right("READ on topic mmtool-producers.internal of source")),
        (UnreachableError("it is gone"), "records that other flows mirrored to source: it is gone"),
        (RefusedError("offset 7 is damaged", remedy="mend it"), ": offset 7 is damaged; mend it"),
    ],
    ids=["denied", "gone", "damaged"],
)
@on_loop
async def test_a_partition_whose_records_origin_cannot_be_told_waits_for_that_and_no_other(error, reason):
    """The round failed, was resumed, failed again, and after five of them the command ended with 1."""
    brought, own = mirror_of(), mirror_of(assigned(partition=1))
    async with under_way(reading(Two(), brought, own, origins=Hidden(error)).run()) as task:
        await asyncio.sleep(0.3)
        failed = task.done()
    assert (failed, brought.state, brought.fetch_position) == (False, State.HALTED, 0)
    assert brought.reason.endswith(reason)
    assert (own.reason, own.fetch_position) == ("", 2)
