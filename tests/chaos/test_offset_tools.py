"""What a mirror with the source's own offsets rests on, on three real brokers; docs/decisions/0035 has the table.

Brokers promise none of it, so a new version of Kafka has to be tried.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from kit.acls import Grants
from kit.batches import PlainRecord, batch_of
from kit.fences import PASSWORD, guarded_cluster
from kit.wire import on_loop
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import RETRY_AFTER_METADATA, Code
from mmtool.kafka.wire.metadata import LATEST, NO_REPLICA, ListOffsetsRequest
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.kafka.wire.transactions import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    Marker,
    WriteTxnMarkersRequest,
    check_markers,
)
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.topics import create_topic
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(1800)]

VERSIONS = ("3.9.1", "4.4.0")
FORGETFUL = {
    "producer.id.expiration.ms": "60000",
    "producer.id.expiration.check.interval.ms": "2000",
    "replica.lag.time.max.ms": "30000",
}
WEEK_MS = 7 * 86_400_000
OLD_EPOCH, OLD_GENERATION = Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED
OTHER_END = Code.OUT_OF_ORDER_SEQUENCE_NUMBER
PAUSE_SECONDS, PATIENCE_SECONDS = 0.2, 40.0


@dataclass
class OnePartition:
    """A topic of one partition that is created here. An async context manager."""

    cluster: Cluster
    topic: str
    wire: WireCluster = field(init=False)

    async def __aenter__(self):
        settings = {"min.insync.replicas": "2"}
        create_topic(self.cluster.bootstrap, self.topic, 1, self.cluster.shape.brokers, **settings)
        self.wire = WireCluster(
            {"bootstrap_servers": self.cluster.bootstrap.split(",")}, alias="lab", client_id="offset-tools"
        )
        await self.wire.start()
        await self.leader()
        return self

    async def __aexit__(self, *_):
        await self.wire.close()

    @property
    def place(self):
        return TopicPartition(self.topic, 0)

    async def leader(self, other_than=None):
        async def asked():
            await self.wire.refresh([self.topic])
            leader = self.wire.leader(*self.place)
            return None if leader == other_than else leader

        return await self._until_there(asked)

    async def new_id(self):
        async def asked():
            answer = await self.wire.ask_any(InitProducerIdRequest(None, 0))
            return answer.producer_id if answer.error_code == Code.NONE else None

        return await self._until_there(asked)

    async def _until_there(self, ask):
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(ConnectionLostError):
                found = await ask()
                if found is not None:
                    return found
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"no answer about {self.place}")

    async def mark(self, producer_id, epochs, generation):
        """Write a marker for each epoch; the code of the answer, which has one for all of them."""

        async def asked():
            markers = [Marker(producer_id, epoch, generation, [self.place]) for epoch in epochs]
            (answer,) = await self.wire.send_to_leader(*self.place, WriteTxnMarkersRequest(markers))
            code = answer[self.place]
            return None if code in RETRY_AFTER_METADATA else code

        return await self._until_there(asked)

    async def append(self, producer_id, sequence, count=10, *, epoch=0, at_ms=None, timeout_ms=10_000):
        """Append a batch whose values name its sequence numbers; the code, and the base offset (-1 for none)."""
        at_ms = int(time.time() * 1000) if at_ms is None else at_ms
        records = [PlainRecord(n, at_ms, b"k", b"v%d" % (sequence + n)) for n in range(count)]
        batch = batch_of(records, producer=(producer_id, epoch, sequence)).write()

        async def asked():
            entry = ProducePartition(self.topic, self.wire.topic_id(self.topic), 0, batch)
            answer = await self.wire.send_to_leader(*self.place, ProduceRequest([entry], timeout_ms))
            (told,) = answer.partitions
            return None if told.error_code in RETRY_AFTER_METADATA else (told.error_code, told.base_offset)

        return await self._until_there(asked)

    async def known(self):
        """What the leader remembers of each producer id: epoch, last sequence number and generation."""

        async def asked():
            answer = await self.wire.send_to_leader(*self.place, DescribeProducersRequest([self.place]))
            return {
                one.producer_id: (one.epoch, one.last_sequence, one.coordinator_epoch)
                for one in answer[self.place].producers
            }

        return await self._until_there(asked)

    async def ends(self):
        """The high watermark, and the end of the leader's log."""

        async def asked(request):
            told = (await self.wire.send_to_leader(*self.place, request))[self.place]
            return told.offset if told.error_code == Code.NONE else None

        latest = {self.place: LATEST}
        mark = await self._until_there(lambda: asked(ListOffsetsRequest(latest, read_committed=False)))
        whole = ListOffsetsRequest(latest, read_committed=False, replica=NO_REPLICA)
        return mark, await self._until_there(lambda: asked(whole))


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tools")
    with Cluster("lab", directory, Shape(3, request.param, properties=FORGETFUL)) as made:
        yield made
    made.remove_data()


@pytest.fixture
def partition(cluster, topic_name):
    return OnePartition(cluster, topic_name("tools"))


async def leader_changes(cluster, at):
    """Kill the leader; the dead broker's number."""
    old = await at.leader()
    cluster.kill_broker(old)
    await at.leader(other_than=old)
    return old


def back(cluster, broker):
    cluster.start_broker(broker)
    cluster.wait_ready()


@on_loop
async def test_a_marker_takes_one_offset_and_a_request_without_one_takes_none(partition):
    async with partition as at:
        fill = await at.new_id()
        assert await at.wire.send_to_leader(*at.place, WriteTxnMarkersRequest([])) == []
        assert await at.mark(fill, [0] * 300, 1) == Code.NONE
        assert await at.ends() == (300, 300)
        assert await at.append(await at.new_id(), 0) == (Code.NONE, 300)


@on_loop
async def test_a_lower_epoch_or_generation_is_refused_by_the_next_leader_as_well(cluster, partition):
    async with partition as at:
        fill = await at.new_id()
        assert await at.mark(fill, range(5), 1) == Code.NONE
        assert (await at.mark(fill, [5], 0), await at.mark(fill, [2], 1)) == (OLD_GENERATION, OLD_EPOCH)
        dead = await leader_changes(cluster, at)
        assert (await at.known())[fill] == (4, -1, 1)
        assert (await at.mark(fill, [6], 0), await at.mark(fill, [1], 1)) == (OLD_GENERATION, OLD_EPOCH)
        assert await at.mark(fill, [4], 2) == Code.NONE, "the next owner, by an equal epoch"
        assert await at.mark(fill, [9], 1) == OLD_GENERATION, "the owner that it replaced"
        assert await at.ends() == (6, 6)
        back(cluster, dead)


@on_loop
async def test_a_batch_is_appended_only_where_its_writer_believes_that_the_log_ends(cluster, partition):
    async with partition as at:
        data, fill = await at.new_id(), await at.new_id()
        assert [await at.append(data, first) for first in (0, 10)] == [(Code.NONE, 0), (Code.NONE, 10)]

        async def refused():
            assert (await at.append(data, 40))[0] == OTHER_END, "one that skips sequence numbers"
            assert (await at.append(data, 10, 3))[0] == OTHER_END, "another one at the last one's place"
            assert await at.append(data, 10) == (Code.NONE, 10), "the last one again"

        await refused()
        dead = await leader_changes(cluster, at)
        await refused()
        assert await at.append(data, 20) == (Code.NONE, 20)
        assert await at.mark(fill, range(3), 1) == Code.NONE
        assert await at.append(data, 30) == (Code.NONE, 33), "markers of another id leave the numbers alone"
        assert await at.ends() == (43, 43)
        back(cluster, dead)


@on_loop
async def test_a_marker_of_the_next_epoch_shuts_out_whoever_writes_with_the_last_one(partition):
    async with partition as at:
        data = await at.new_id()
        await at.append(data, 0)
        assert await at.mark(data, [1], 1) == Code.NONE
        assert (await at.append(data, 10))[0] == OLD_EPOCH
        assert await at.append(data, 0, epoch=1) == (Code.NONE, 11)


@on_loop
async def test_a_leader_tells_of_a_batch_before_its_followers_have_it(cluster, partition):
    """The last sequence number is of the log's end, and not of the high watermark: never pair the two."""
    async with partition as at:
        data = await at.new_id()
        await at.append(data, 0)
        leader = await at.leader()
        followers = [number for number in range(3) if number != leader]
        for follower in followers:
            cluster.pause_broker(follower)
        try:
            answer = asyncio.create_task(at.append(data, 10, timeout_ms=3_000))
            while (await at.known())[data][1] != 19:
                assert not answer.done()
            assert await at.ends() == (10, 20)
            assert (await answer)[0] == Code.REQUEST_TIMED_OUT
        finally:
            for follower in followers:
                cluster.resume_broker(follower)
        cluster.wait_ready()
        assert await at.append(data, 10) == (Code.NONE, 10)
        assert await at.ends() == (20, 20)


@on_loop
async def test_after_a_lost_answer_the_end_and_the_epoch_tell_how_many_markers_were_appended(partition):
    async with partition as at:
        fill = await at.new_id()
        assert await at.mark(fill, [0], 1) == Code.NONE
        markers = [Marker(fill, epoch, 1, [at.place]) for epoch in range(1, 301)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.002):
                await at.wire.send_to_leader(*at.place, WriteTxnMarkersRequest(markers))
        await at.wire.close()
        await asyncio.sleep(3)
        appended = (await at.ends())[1] - 1
        assert (await at.known())[fill][0] == appended
        if appended < 300:
            assert await at.mark(fill, range(appended + 1, 301), 2) == Code.NONE
        assert await at.ends() == (301, 301)


@on_loop
async def test_a_batch_of_last_week_is_forgotten_and_then_any_number_is_accepted(partition):
    """So there the append is not conditional; a marker carries the broker's clock, and is remembered."""
    async with partition as at:
        data, fill, last_week = await at.new_id(), await at.new_id(), int(time.time() * 1000) - WEEK_MS
        assert await at.append(data, 0, at_ms=last_week) == (Code.NONE, 0)
        assert await at.mark(fill, [0], 1) == Code.NONE
        until = time.monotonic() + 30
        while data in await at.known():
            assert time.monotonic() < until
            await asyncio.sleep(0.5)
        assert await at.append(data, 40, at_ms=last_week) == (Code.NONE, 11)
        assert fill in await at.known()


@pytest.mark.parametrize("version", VERSIONS)
def test_only_a_marker_for_a_partition_that_is_not_there_tells_whether_markers_are_allowed(tmp_path, version):
    """A refusal is an error of each partition, and a request without markers has none."""
    alter = {"resource_type": "cluster", "name": "kafka-cluster", "pattern": "literal", "operation": "ALTER"}

    async def asked(bootstrap):
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        user = {"sasl_plain_username": "mm", "sasl_plain_password": PASSWORD}
        wire = WireCluster(
            {"bootstrap_servers": [bootstrap], **login, **user}, alias="east", client_id="offset-tools"
        )
        await wire.start()
        try:
            assert await wire.ask_any(WriteTxnMarkersRequest([])) == []
            await check_markers(wire)
        finally:
            await wire.close()

    with guarded_cluster(tmp_path, version) as guarded:
        grants = Grants({"east": guarded}, "mm")
        with pytest.raises(NotAuthorisedError, match="east denies ALTER on the cluster"):
            asyncio.run(asked(guarded.bootstrap))
        for operation in ("ALTER", "CLUSTER_ACTION"):
            grants.replace([alter | {"cluster": "east", "operation": operation}])
            time.sleep(0.5)
            asyncio.run(asked(guarded.bootstrap))
