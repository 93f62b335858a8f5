"""Claims and fences on a real broker: what an older owner can still do, and from when on it cannot."""

import asyncio

import pytest

from kit.wire import Producer, Wire, on_loop, settings_of, signed
from mmtool.kafka.state.claims import claim, fence, take_shards
from mmtool.kafka.wire.codes import Code
from mmtool.lab.topics import create_topic, read_topic
from mmtool.translation.types import TopicPartition


@pytest.fixture
def target(fleet, tmp_path):
    return Wire(settings_of(fleet, tmp_path).clusters["target"], fleet["target"].bootstrap)


@pytest.fixture
def topic(target, topic_name):
    name = topic_name("claims")
    create_topic(target.bootstrap, name, 3)
    return name


def of(claimed):
    return Producer(claimed.producer_id, claimed.epoch)


def all_of(topic):
    return [TopicPartition(topic, partition) for partition in range(3)]


@on_loop
async def test_without_a_marker_an_older_owner_still_writes_where_the_new_one_has_not(target, topic):
    """The race that the fence closes."""
    wire = await target.cluster()
    written, untouched = await target.log(topic, 0), await target.log(topic, 1)
    old = of(await claim(wire, topic))
    for log in (written, untouched):
        await log.produce(signed([b"old"], old, 0))
    new = of(await claim(wire, topic))
    assert (await written.produce(signed([b"new"], new, 0))).error_code == Code.NONE
    codes = [(await log.produce(signed([b"zombie"], old, 1))).error_code for log in (written, untouched)]
    assert codes == [Code.INVALID_PRODUCER_EPOCH, Code.NONE]


@on_loop
async def test_an_empty_aborted_transaction_fences_every_older_epoch_on_all_its_partitions(target, topic):
    wire = await target.cluster()
    logs = [await target.log(topic, partition) for partition in range(3)]
    owners = [of(await claim(wire, topic)) for _ in range(3)]
    await logs[0].produce(signed([b"old"], owners[2], 0))  # of the others nobody ever wrote
    await fence(wire, topic, await claim(wire, topic), all_of(topic))
    codes = [
        (await log.produce(signed([b"zombie"], owner, 1))).error_code for log in logs for owner in owners
    ]
    assert codes == [Code.INVALID_PRODUCER_EPOCH] * 9


@on_loop
async def test_a_fence_holds_no_read_committed_reader_up(target, topic):
    wire, log = await target.cluster(), await target.log(topic)
    us = of(await claim(wire, topic))
    await log.produce(signed([b"before"], us, 0))
    us = of(await fence(wire, topic, await claim(wire, topic), all_of(topic)))
    await log.produce(signed([b"behind"], us, 0))
    answer = await log.fetch(read_committed=True)
    assert answer.last_stable_offset == answer.high_watermark == 3
    read = read_topic(target.bootstrap, topic, isolation="read_committed")
    assert [record.value for record in read] == [b"before", b"behind"]


@on_loop
async def test_a_fence_leaves_out_partitions_that_are_gone(target, topic):
    wire, log = await target.cluster(), await target.log(topic)
    old = of(await claim(wire, topic))
    await log.produce(signed([b"a"], old, 0))
    places = [*all_of(topic), TopicPartition(topic, 99), TopicPartition(f"{topic}-gone", 0)]
    await fence(wire, topic, await claim(wire, topic), places)
    assert (await log.produce(signed([b"b"], old, 1))).error_code == Code.INVALID_PRODUCER_EPOCH


@on_loop
async def test_two_who_fence_at_once_end_with_one_owner(target, topic):
    """Each may learn that the other was later; at most one of them can write then."""

    async def take(wire):
        try:
            return of((await take_shards(wire, {0: topic}, {0: all_of(topic)}))[0])
        except Exception as lost:  # noqa: BLE001  whichever way it is told
            return lost

    wires = [await target.open() for _ in range(3)]
    taken = await asyncio.gather(*(take(wire) for wire in wires))
    owners = [owner for owner in taken if isinstance(owner, Producer)]
    log = await target.log(topic)
    newest = max(owners)
    assert (await log.produce(signed([b"owner"], newest, 0))).error_code == Code.NONE
    others = [(await log.produce(signed([b"x"], owner, 0))).error_code for owner in owners if owner != newest]
    assert set(others) <= {Code.INVALID_PRODUCER_EPOCH}


@on_loop
async def test_many_shards_are_taken_at_once(target, topic):
    wire = await target.cluster()
    ids = {shard: f"{topic}.{shard}" for shard in range(32)}
    first = await take_shards(wire, ids, {})
    second = await take_shards(wire, ids, {shard: all_of(topic) for shard in (0, 7)})
    assert len({claimed.producer_id for claimed in first.values()}) == 32
    raised = {shard: second[shard].epoch - first[shard].epoch for shard in ids}
    assert raised == {shard: 2 if shard in (0, 7) else 1 for shard in ids}
