"""``mmtool.offsets = same``: every mirrored record has its source's offset, on real brokers, record by record."""

import asyncio

import pytest
from confluent_kafka import Producer

from kit.mirror_flow import Owner, flow_of, mirror
from kit.same_offsets import KINDS, RECORDS, check_growing, check_same, plain, transactional
from mmtool.kafka.state.journal import KafkaMarks
from mmtool.lab.topics import end_offsets
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka


@pytest.fixture
def ends(fleet):
    return fleet["source"].bootstrap, fleet["target"].bootstrap


@pytest.fixture
def settings(fleet, tmp_path, topic_name):
    """The flow of one topic, and that topic's name."""
    topic = topic_name("same")
    return flow_of(fleet, tmp_path, "source", "target", topic, **{"mmtool.offsets": "same"}), topic


ALL_KINDS = pytest.mark.parametrize("write", KINDS)


async def taken_over(flow):
    """Take the flow and catch up; again where the owner before wrote in between, as ``replicate`` does it."""
    for _ in range(5):
        owner = await Owner.take(flow, in_doubt=True)
        try:
            await owner.catch_up()
        except InDoubtError:
            await owner.kill()
        else:
            return owner
    raise AssertionError("no owner could go on")


@ALL_KINDS
def test_every_record_has_its_sources_offset(ends, settings, write):
    flow, topic = settings
    check_growing(ends, flow, topic, write)


@pytest.mark.chaos
def test_owners_that_are_killed_leave_no_record_twice_and_no_marker_too_many(ends, settings):
    flow, topic = settings
    transactional(ends[0], topic)

    async def kills():
        for number in range(3):
            owner = await Owner.take(flow, in_doubt=True)
            owner.start()
            await asyncio.sleep(0.1 + 0.15 * number)
            await owner.kill()
            await asyncio.to_thread(transactional, ends[0], topic, RECORDS * (number + 1))
        await (await taken_over(flow)).close()

    asyncio.run(kills())
    check_same(ends, flow, topic)


@pytest.mark.chaos
def test_an_owner_that_does_not_know_that_it_was_replaced_appends_nothing_more(ends, settings):
    """It goes on while the next one reads the log, until its offset runs are refused; only one gets its records in."""
    flow, topic = settings
    transactional(ends[0], topic)

    async def two_owners():
        old = await Owner.take(flow)
        pumping = old.start()
        await asyncio.sleep(0.3)
        new = await taken_over(flow)
        await asyncio.to_thread(transactional, ends[0], topic, RECORDS)
        (ended,) = await asyncio.gather(pumping, return_exceptions=True)
        assert isinstance(ended, (FencedError, InDoubtError)), ended
        await old.kill()
        await new.kill()
        await (await taken_over(flow)).close()

    asyncio.run(two_owners())
    check_same(ends, flow, topic)


def foreign_record(bootstrap, topic):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    producer.produce(topic, b"not of the source", partition=0)
    assert producer.flush(30) == 0


def test_a_foreign_record_between_two_owners_halts_its_partition_alone(ends, settings):
    flow, topic = settings
    source, target = ends
    plain(source, topic)
    mirror(flow)
    before = end_offsets(source, topic)
    foreign_record(target, flow.remote_topic(topic))
    plain(source, topic, RECORDS)

    async def again():
        owner = await Owner.take(flow, in_doubt=True)
        for _ in range(3):
            await owner.pump(1.0)
        reasons = [owner.halted(topic, number) for number in range(2)]
        await owner.close()
        return reasons

    halted, goes_on = asyncio.run(again())
    told = f"has offset {before[0]} on the source, and would have {before[0] + 1} on the target"
    assert ("offsets_differ" in halted, told in halted, goes_on) == (True, True, "")
    assert end_offsets(target, flow.remote_topic(topic))[1] == end_offsets(source, topic)[1]


def test_an_owner_that_translates_offsets_and_mirrors_nothing_leaves_a_mirror_as_it_is(ends, settings):
    """A file without the key, by mistake, after a crash: a fence in the mirror would take the next record's offset."""
    flow, topic = settings
    plain(ends[0], topic)
    mirror(flow)
    before = end_offsets(ends[1], flow.remote_topic(topic))

    async def by_mistake():
        for _ in range(2):
            owner = await Owner.take(flow.model_copy(update={"offsets": "translated"}), in_doubt=True)
            await owner.pump(1.0)
            await owner.kill()

    asyncio.run(by_mistake())
    assert end_offsets(ends[1], flow.remote_topic(topic)) == before
    plain(ends[0], topic, RECORDS)
    asyncio.run(close(flow))
    check_same(ends, flow, topic)


async def close(flow):
    await (await taken_over(flow)).close()


def test_a_promotion_shuts_out_an_owner_of_before(ends, settings):
    """It was frozen, and thaws when applications produce to the target: nothing of it gets in."""
    flow, topic = settings
    plain(ends[0], topic)

    async def thaws():
        owner = await Owner.take(flow)
        await owner.catch_up()
        runs = owner.start()
        await asyncio.sleep(1)
        places = [TopicPartition(flow.remote_topic(topic), number) for number in range(2)]
        marks = KafkaMarks(flow.target, owner.run.flow.identity, 1, 30.0)
        await asyncio.to_thread(marks.promote, places)
        before = end_offsets(ends[1], flow.remote_topic(topic))
        await asyncio.to_thread(plain, ends[0], topic, RECORDS)
        await asyncio.wait([runs], timeout=5)
        await owner.kill()
        return before

    before = asyncio.run(thaws())
    assert end_offsets(ends[1], flow.remote_topic(topic)) == before
