"""Claims that a target forgets: transactional ids and producer ids that expire, and epochs that are used up.

Brokers forget a transactional id after a week without use, and a producer id whose last batch in a partition has no
timestamp of the last day; these do after seconds.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from kit.batches import PlainRecord, batch_of
from kit.mirror import fetched, mirror_of, produced
from kit.mirror_flow import Owner, flow_of
from kit.wire import NOW_MS, Producer, Wire, on_loop
from mmtool.kafka.state.claims import claim
from mmtool.kafka.wire.codes import Code
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, read_topic
from mmtool.replication.pump.batch_prep import InDoubtError

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(1800)]

FORGETFUL = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "3000",
    "producer.id.expiration.check.interval.ms": "1000",
}
FORGOTTEN_SECONDS = 8.0
EPOCHS = 32_767


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    directory = tmp_path_factory.mktemp("expire")
    shapes = {"source": Shape(), "target": Shape(properties=FORGETFUL)}
    made = Fleet([Cluster(name, directory / name, shape) for name, shape in shapes.items()])
    with made:
        yield made
    made.remove_data()


@pytest.fixture
def topic(clusters, topic_name):
    name = topic_name("expires")
    create_topic(clusters["source"].bootstrap, name)
    return name


@pytest.fixture
def settings(clusters, tmp_path, topic):
    return flow_of(clusters, tmp_path, "source", "target", topic)


def numbered(first, count):
    return batch_of([PlainRecord(n, NOW_MS, b"k", b"%d" % (first + n)) for n in range(count)])


async def written(clusters, settings, topic, first, count):
    log = await Wire(settings.source, clusters["source"].bootstrap).log(topic)
    assert (await log.produce(numbered(first, count).write())).error_code == Code.NONE


async def begun(clusters, settings, topic):
    """An owner that has mirrored ten records."""
    await written(clusters, settings, topic, 0, 10)
    owner = await Owner.take(settings)
    await owner.catch_up()
    return owner


def mirrored(clusters, settings, topic):
    remote = settings.remote_topic(topic)
    return [
        int(r.value) for r in read_topic(clusters["target"].bootstrap, remote, isolation="read_uncommitted")
    ]


@on_loop
async def test_an_owner_that_was_forgotten_goes_on_without_gap_or_repetition(clusters, settings, topic):
    owner = await begun(clusters, settings, topic)
    await asyncio.sleep(FORGOTTEN_SECONDS)
    await written(clusters, settings, topic, 10, 10)
    await owner.catch_up()
    assert (mirrored(clusters, settings, topic), owner.halted(topic)) == (list(range(20)), "")
    await owner.close()


@on_loop
async def test_a_successor_with_another_producer_id_finds_what_was_appended_and_never_booked(
    clusters, settings, topic
):
    first = await begun(clusters, settings, topic)
    await written(clusters, settings, topic, 10, 5)
    twin = replace(numbered(10, 5), producer=(*first.signature(topic), 10))
    assert (await (await first.target_log(topic)).produce(twin.write())).error_code == Code.NONE
    before = first.shard(topic).producer_id
    await first.kill()
    await asyncio.sleep(FORGOTTEN_SECONDS)
    second = await Owner.take(settings)
    assert second.shard(topic).producer_id != before
    assert second.runs(topic) == [(0, 0, 15)]
    await written(clusters, settings, topic, 15, 5)
    await second.catch_up()
    assert (mirrored(clusters, settings, topic), second.halted(topic)) == (list(range(20)), "")
    await second.close()


@on_loop
async def test_a_claim_whose_epochs_are_used_up_goes_on_under_another_producer_id(
    clusters, settings, topic, measured
):
    owner = await begun(clusters, settings, topic)
    shard = owner.shard(topic)
    name = owner.run.flow.identity.transactional_id(shard.shard)
    await owner.kill()
    wire, claims, producers = await Wire(settings.target, clusters["target"].bootstrap).cluster(), 0, set()
    while len(producers) < 2:
        producers.add((await claim(wire, name)).producer_id)
        claims += 1
        assert claims <= EPOCHS
    measured(f"{claims} claims used up the epochs of a producer id")
    second = await Owner.take(settings)
    assert second.shard(topic).producer_id != shard.producer_id
    await written(clusters, settings, topic, 10, 10)
    await second.catch_up()
    assert (mirrored(clusters, settings, topic), second.halted(topic)) == (list(range(20)), "")
    await second.close()


# --- records of last week ---------------------------------------------------------------------------------


def of_last_week(first, count):
    then_ms = NOW_MS - 7 * 86_400_000
    return batch_of([PlainRecord(n, then_ms, b"k", b"%d" % n) for n in range(first, first + count)])


@pytest.fixture
def target(clusters, settings):
    return Wire(settings.target, clusters["target"].bootstrap)


@pytest.fixture
def old(target, topic_name):
    """A topic of the target that keeps old records."""
    name = topic_name("old")
    create_topic(target.bootstrap, name, **{"retention.ms": "-1"})
    return name


async def forgotten(log):
    """Waits until the partition remembers nobody."""
    for _ in range(200):
        if not await log.producers():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the broker still remembers the producer")


async def send(mirror, log):
    while mirror.sendable:
        sent = mirror.next_to_send()
        mirror.answered(sent, await log.produce(bytes(sent.batch.payload)))


async def first_batch(log):
    """A mirror of records of last week whose first batch is acknowledged, and forgotten."""
    mirror = mirror_of()
    mirror.offer(fetched(of_last_week(0, 20).write(), end=20), now_ms=NOW_MS)
    await send(mirror, log)
    await forgotten(log)
    return mirror


async def values(log):
    return [int(record.value) for record in await log.records()]


@on_loop
async def test_a_producer_that_has_just_written_old_records_is_forgotten_and_may_go_on_anywhere(target, old):
    log = await target.log(old)
    us = Producer(4711, 0)
    first = await log.produce(replace(of_last_week(0, 3), producer=(*us, 0)).write())
    await forgotten(log)
    again = await log.produce(replace(of_last_week(0, 3), producer=(*us, 0)).write())
    await forgotten(log)
    anywhere = await log.produce(replace(of_last_week(0, 3), producer=(*us, 17)).write())
    assert [one.error_code for one in (first, again, anywhere)] == [Code.NONE] * 3
    assert await values(log) == [0, 1, 2] * 3


@on_loop
async def test_no_batch_of_old_records_is_appended_before_one_that_was_refused(target, old):
    log = await target.log(old)
    mirror = await first_batch(log)
    mirror.offer(
        fetched(*(of_last_week(at, 20).write() for at in range(20, 120, 20)), end=120), now_ms=NOW_MS
    )
    under_way = []
    while mirror.sendable:
        under_way.append(mirror.next_to_send())
    refused, *others = under_way
    mirror.answered(refused, produced(Code.NOT_ENOUGH_REPLICAS))
    for sent in others:
        mirror.answered(sent, await log.produce(bytes(sent.batch.payload)))
    await send(mirror, log)
    assert await values(log) == list(range(120))


@on_loop
async def test_a_batch_of_old_records_whose_answer_is_lost_is_appended_once(target, old):
    log = await target.log(old)
    mirror = await first_batch(log)
    mirror.offer(fetched(of_last_week(20, 20).write(), end=40), now_ms=NOW_MS)
    sent = mirror.next_to_send()
    await log.produce(bytes(sent.batch.payload))
    await forgotten(log)
    with suppress(InDoubtError):
        mirror.lost(sent)
    await send(mirror, log)
    assert await values(log) == list(range(40))
