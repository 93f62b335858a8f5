"""Batches go to leaders one per partition and request, and every byte that was held is given back once."""

import asyncio

import pytest

from kit.batches import data
from kit.mirror import TARGET_ID, FakeLog, assigned, fetched, mirror_of
from kit.wire import on_loop
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.kafka.wire.produce import ProduceAnswer
from mmtool.replication.pump import budget
from mmtool.replication.pump.batch_prep import FencedError
from mmtool.replication.pump.budget import Quotas, RoundTrips
from mmtool.replication.pump.writer import TargetWriter
from mmtool.replication.topics import presence


class Target:
    """A cluster of one broker that answers each request after a turn of the loop, in order."""

    alias = "target"

    def __init__(self, *answers):
        self.logs = {}
        self.requests = []
        self.refreshed = []
        self.scripted = list(answers)  # for the first requests: an error code, or None for a lost connection

    def leader(self, topic, partition):
        return 1

    async def refresh(self, topics):
        names = set(topics)
        self.refreshed.append(names)
        return {name: TopicMetadata(name, TARGET_ID, Code.NONE, []) for name in names}

    async def send(self, node, request, *, purpose):
        self.requests.append([part.partition for part in request.partitions])
        batches = [(part, bytes(part.batch)) for part in request.partitions]
        for _ in range(3):
            await asyncio.sleep(0)
        scripted = self.scripted.pop(0) if self.scripted else Code.NONE
        if scripted is None:
            raise ConnectionLostError("cut")
        return ProduceAnswer([self._answer(part, batch, scripted) for part, batch in batches], 0)

    def _answer(self, part, batch, code):
        answer = self.logs.setdefault(part.partition, FakeLog()).append(batch) if code == Code.NONE else None
        told = {"partition": part.partition, "topic_id": part.topic_id}
        return answer._replace(**told) if answer else failed(code)._replace(**told)


def failed(code):
    return FakeLog().append(data(0))._replace(error_code=code)


class Scene:
    """A writer over some mirrors, with the bytes that it says it freed."""

    def __init__(self, target, partitions=1, topics=("source.orders",)):
        self.target = target
        of = [topics[p % len(topics)] for p in range(partitions)]
        self.mirrors = [mirror_of(assigned(partition=p, target_topic=topic)) for p, topic in enumerate(of)]
        self.held = 0
        self.failures = []
        self.writer = TargetWriter(
            target,
            self.mirrors,
            self._freed,
            self.failures.append,
            RoundTrips(),
            Quotas(),
            fill=lambda _: None,
        )

    def _freed(self, count):
        self.held -= count

    def fetch(self, batches, size=20):
        """Some more batches for every partition, and on with them."""
        for mirror in self.mirrors:
            self.offer(mirror, batches, size)

    def offer(self, mirror, batches, size=20):
        """The same for one partition."""
        start = mirror.fetch_position
        views = [data(start + at * size, size) for at in range(batches)]
        self.held += mirror.offer(fetched(*views, end=start + batches * size), now_ms=1)
        self.writer.wake(mirror)

    async def finished_early(self):
        await self.writer.close()

    async def finished(self):
        drained = await self.writer.drain(5)
        await self.writer.close()
        return drained


def run(scene):
    return asyncio.run(asyncio.wait_for(scene(), 10))


@on_loop
async def test_each_record_is_counted_once_with_the_time_since_its_batch_s_newest_timestamp():
    """Also where an answer was lost, and the batch was sent again."""
    s = Scene(Target(Code.NONE, None))
    s.fetch(4)
    assert await s.finished()
    (mirror,) = s.mirrors
    latency = mirror.latencies.latency
    assert mirror.records == sum(latency.counts) == 80
    assert latency.counts[-1] == 80  # of 1970
    assert latency.total_ms > 80 * 1_000_000_000_000


@on_loop
async def test_every_byte_is_given_back_once_when_everything_is_acknowledged():
    """Also while more is fetched, and other requests are acknowledged, during a request."""
    s = Scene(Target(), partitions=3)
    for _ in range(20):
        s.fetch(4)
        assert s.held == sum(m.held_bytes for m in s.mirrors)
        await asyncio.sleep(0)
    assert await s.finished()
    assert (s.held, [len(log.records) for log in s.target.logs.values()]) == (0, [1600] * 3)


@on_loop
async def test_a_request_names_each_partition_once():
    s = Scene(Target(), partitions=4)
    s.fetch(6)
    assert await s.finished()
    assert [request for request in s.target.requests if len(set(request)) != len(request)] == []


@on_loop
async def test_a_leader_that_loses_every_connection_is_named_by_what_waits_for_it_until_it_answers(
    monkeypatch,
):
    monkeypatch.setattr(budget, "SILENT_SECONDS", 0.05)
    s = Scene(Target(None, None))
    (mirror,) = s.mirrors
    named = [s.writer.kept_waiting().get(mirror)]
    s.fetch(1)
    await asyncio.sleep(0.08)
    named.append(s.writer.kept_waiting().get(mirror))
    assert await s.finished()
    assert [*named, s.writer.kept_waiting().get(mirror)] == [None, 1, None]


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR])
@on_loop
async def test_a_leader_that_moved_is_looked_up_before_the_batch_goes_again(code):
    """A broker that lost a disk never says that another leads what was on it."""
    s = Scene(Target(code))
    s.fetch(1)
    assert await s.finished()
    assert (s.target.refreshed, len(s.target.requests)) == ([{"source.orders"}], 2)


@on_loop
async def test_what_waits_its_turn_with_a_broker_that_hangs_goes_to_whoever_leads_by_the_time_it_comes():
    """Each turn with the hung one would cost as long as a connection to it is waited for."""

    class Hanging(Target):
        def __init__(self):
            super().__init__()
            self.leads, self.breaks, self.to_it = 1, asyncio.Event(), 0

        def leader(self, topic, partition):
            return self.leads

        async def send(self, node, request, *, purpose):
            if node == 2:
                return await super().send(node, request, purpose=purpose)
            self.to_it += 1
            await self.breaks.wait()
            raise ConnectionLostError("no answer in time")

    s = Scene(Hanging(), partitions=12)
    s.fetch(1)
    await asyncio.sleep(0.01)
    s.target.leads = 2
    s.target.breaks.set()
    assert await s.finished()
    assert (s.target.to_it, len(s.target.logs)) == (5, 12)


@on_loop
async def test_a_topic_that_nobody_asked_about_is_not_taken_for_deleted(monkeypatch):
    """Its batch is refused while the leaders of another one are being looked up."""
    monkeypatch.setattr(presence, "_GONE_AFTER_SECONDS", -1)

    class Slow(Target):
        def __init__(self):
            super().__init__(*[Code.NOT_LEADER_OR_FOLLOWER] * 2)
            self.asked, self.answer = asyncio.Event(), asyncio.Event()

        async def refresh(self, topics):
            found = await super().refresh(topics)
            self.asked.set()
            await self.answer.wait()
            return found

    s = Scene(Slow(), 2, ["source.orders", "source.bills"])
    s.offer(s.mirrors[0], 1)
    await s.target.asked.wait()
    s.offer(s.mirrors[1], 1)
    await asyncio.sleep(0.01)
    s.target.answer.set()
    assert await s.finished()
    assert [mirror.reason for mirror in s.mirrors] == ["", ""]


@on_loop
async def test_a_broker_that_asks_for_patience_is_left_in_peace_for_a_moment():
    s = Scene(Target(*[Code.NOT_ENOUGH_REPLICAS] * 1000))
    s.fetch(3)
    await asyncio.sleep(0.35)
    await s.finished_early()
    assert len(s.target.requests) <= 5


@on_loop
async def test_the_end_does_not_wait_for_replicas_that_a_partition_is_short_of():
    """What was put off is not there, and is sent by the next round; the other partition has nothing left."""

    class Short(Target):
        def _answer(self, part, batch, code):
            return super()._answer(part, batch, code if part.partition else Code.NOT_ENOUGH_REPLICAS)

    s = Scene(Short(), 2)
    s.fetch(3)
    await asyncio.sleep(0.01)
    for mirror in s.mirrors:
        mirror.drop_unsent()
    drained = await s.writer.drain(5)
    requests = len(s.target.requests)
    await asyncio.sleep(0.3)
    await s.writer.close()
    assert (drained, len(s.target.requests) - requests) == (True, 0)
    assert [mirror.writer.next_sequence for mirror in s.mirrors] == [0, 60]


@on_loop
async def test_the_end_waits_in_vain_for_a_batch_of_which_the_target_says_nothing_but_that_it_is_late():
    s = Scene(Target(*[Code.REQUEST_TIMED_OUT] * 1000))
    s.fetch(1)
    drained = await s.writer.drain(0.5)
    await s.writer.close()
    assert drained is False


@on_loop
async def test_a_leader_that_moved_is_looked_up_beside_a_partition_that_is_short_of_replicas_for_long():
    """Which is told so a moment earlier, each time."""

    class Short(Target):
        async def send(self, node, request, *, purpose):
            await asyncio.sleep(request.partitions[0].partition * 0.02)
            return await super().send(node, request, purpose=purpose)

        def _answer(self, part, batch, code):
            code = (Code.NOT_ENOUGH_REPLICAS, Code.NOT_LEADER_OR_FOLLOWER)[part.partition]
            return super()._answer(part, batch, code)

    s = Scene(Short(), 2, ["source.bills", "source.orders"])
    s.fetch(1)
    await asyncio.sleep(0.5)
    await s.finished_early()
    assert {"source.bills", "source.orders"} in s.target.refreshed


@on_loop
async def test_being_fenced_stops_the_writer_and_is_told():
    s = Scene(Target(*[Code.INVALID_PRODUCER_EPOCH] * 9), partitions=2)
    s.fetch(3)
    drained = await s.finished()
    assert (drained, [type(error) for error in s.failures]) == (False, [FencedError])


@pytest.mark.parametrize("asked", ["send", "refresh"])
@on_loop
async def test_credentials_that_are_refused_by_now_stop_the_writer_and_are_told(asked):
    """By whoever was connected to anew: nothing else would end the wait for that answer."""

    async def refused(*_request, **_purpose):
        raise NotAuthorisedError("cluster target refuses the credentials")

    s = Scene(Target(Code.NOT_LEADER_OR_FOLLOWER))
    setattr(s.target, asked, refused)
    s.fetch(1)
    drained = await s.writer.drain(0.5)
    await s.writer.close()
    assert (drained, [type(error) for error in s.failures]) == (False, [NotAuthorisedError])
