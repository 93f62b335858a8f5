"""How a broker treats idempotent batches: the rules that make a mirror exact, tried on a real one."""

import pytest

from kit.lab_admin import alter_topic
from kit.wire import Producer, Remembered, Wire, on_loop, settings_of, signed
from mmtool.kafka.state.claims import claim
from mmtool.kafka.wire.codes import Code
from mmtool.lab.topics import create_topic

LAST = (1 << 31) - 1


@pytest.fixture
def target(fleet, tmp_path):
    return Wire(settings_of(fleet, tmp_path).clusters["target"], fleet["target"].bootstrap)


@pytest.fixture
def topic(target, topic_name):
    name = topic_name("rules")
    create_topic(target.bootstrap, name, 2)
    return name


async def claimed(target, transactional_id):
    taken = await claim(await target.cluster(), transactional_id)
    return Producer(taken.producer_id, taken.epoch)


def values(records):
    return [record.value for record in records]


@on_loop
async def test_a_batch_that_is_sent_again_gets_its_first_offset_again_while_it_is_among_the_last_five(
    target, topic
):
    log = await target.log(topic)
    us = await claimed(target, topic)
    batches = [signed([b"%d" % number], us, number) for number in range(6)]
    for batch in batches:
        assert (await log.produce(batch)).error_code == Code.NONE
    again = [await log.produce(batch) for batch in batches[1:]]
    assert [(a.error_code, a.base_offset) for a in again] == [(Code.NONE, at) for at in range(1, 6)]
    sixth_last = await log.produce(batches[0])
    assert sixth_last.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values(await log.records()) == [b"0", b"1", b"2", b"3", b"4", b"5"]


@on_loop
async def test_a_gap_in_the_numbers_is_refused_by_a_partition_that_remembers_the_producer(target, topic):
    log = await target.log(topic)
    us = await claimed(target, topic)
    await log.produce(signed([b"first"], us, 0))
    behind = await log.produce(signed([b"third"], us, 2))
    assert behind.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    answers = [await log.produce(signed([b"second"], us, 1)), await log.produce(signed([b"third"], us, 2))]
    assert [a.error_code for a in answers] == [Code.NONE, Code.NONE]


@on_loop
async def test_a_partition_that_remembers_nobody_takes_any_first_number(target, topic):
    """So nothing may overtake the first batch: the first one could then never be appended."""
    log = await target.log(topic)
    us = await claimed(target, topic)
    overtaking = await log.produce(signed([b"second"], us, 17))
    first = await log.produce(signed([b"first"] * 17, us, 0))
    assert (overtaking.error_code, first.error_code) == (Code.NONE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)


@on_loop
async def test_numbers_wrap_from_the_largest_int_to_zero_also_within_a_batch(target, topic):
    log = await target.log(topic)
    us = await claimed(target, topic)
    answers = [
        await log.produce(signed([b"a"], us, LAST - 1)),
        await log.produce(signed([b"b", b"c", b"d"], us, LAST)),
        await log.produce(signed([b"e"], us, 2)),
    ]
    assert [a.error_code for a in answers] == [Code.NONE] * 3
    assert await log.producers() == [Remembered(*us, 2)]


@on_loop
async def test_a_task_s_own_producer_on_moving_partitions_loses_data_without_a_word(target, topic):
    """Why a partition keeps its shard: a used number is answered with success and not appended."""
    log = await target.log(topic)
    one, other = await claimed(target, f"{topic}-task-1"), await claimed(target, f"{topic}-task-2")
    await log.produce(signed([b"1", b"2", b"3"], one, 0))
    await log.produce(signed([b"4", b"5", b"6"], other, 0))  # the partition moved to the second task
    back = await log.produce(signed([b"7", b"8", b"9"], one, 0))  # and back, to a task that counts from 0
    assert (back.error_code, back.base_offset) == (Code.NONE, 0)
    assert values(await log.records()) == [b"1", b"2", b"3", b"4", b"5", b"6"]


@on_loop
async def test_the_leader_describes_producers_as_they_were_last_appended(target, topic):
    log = await target.log(topic)
    us, other = await claimed(target, topic), await claimed(target, f"{topic}-other")
    assert await log.producers() == []
    await log.produce(signed([b"a", b"b", b"c"], us, 0))
    await log.produce(signed([b"a"], other, 0))
    await log.produce(signed([b"d"], us, 3))
    assert sorted(await log.producers()) == [Remembered(*us, 3), Remembered(*other, 0)]


@on_loop
async def test_a_batch_that_is_there_and_too_large_by_now_is_refused_not_recognised(target, topic_name):
    """Size comes before numbers: so a refused batch whose first answer was lost may be on the target."""
    name = topic_name("shrinks")
    create_topic(target.bootstrap, name)
    log = await target.log(name)
    us = await claimed(target, name)
    batch = signed([b"x" * 2000], us, 0)
    assert (await log.produce(batch)).error_code == Code.NONE
    alter_topic(target.bootstrap, name, max_message_bytes="1000")
    codes = set()
    for _ in range(40):
        codes.add((await log.produce(batch)).error_code)
        if Code.MESSAGE_TOO_LARGE in codes:
            break
    assert codes - {Code.NONE} == {Code.MESSAGE_TOO_LARGE}
    assert await log.bounds() == (0, 1)
