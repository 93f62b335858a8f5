"""Mirrors with ``mmtool.offsets = same`` that begin far above offset 0: their target logs are filled up to there."""

import asyncio

import pytest

from kit.far_starts import bounds_of, create_far
from kit.lab_admin import configs_of
from kit.load import Load, produce
from kit.mirror_flow import Owner, flow_of
from mmtool.errors import RefusedError
from mmtool.lab.ports import patience
from mmtool.lab.topics import end_offsets, read_topic, topics_of
from mmtool.plan.records.documents import PositionRecord, State
from mmtool.replication.driver.context import connect
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.ownership.checks import was_mirrored

pytestmark = pytest.mark.kafka

FAR, RECORDS = {0: 3_200_000, 1: 1_500_001, 2: 7}, 300
SECONDS = 60
KINDS = pytest.mark.parametrize("policy", ["delete", "compact"])


@pytest.fixture
def ends(fleet):
    return fleet["source"].bootstrap, fleet["target"].bootstrap


@pytest.fixture
def settings(fleet, tmp_path, topic_name):
    """The flow of one topic, and that topic's name; a function of further keys."""
    topic = topic_name("far")

    def made(**keys):
        return flow_of(
            fleet, tmp_path, "source", "target", topic, **{"mmtool.offsets": "same", **keys}
        ), topic

    return made


def write(bootstrap, topic, policy):
    create_far(bootstrap, topic, FAR, policy)
    produce(bootstrap, Load(topic, RECORDS, len(FAR), 100, keys="sequence"))


def check_same(ends, flow, topic, policy):
    source, target = ends
    mirror = flow.remote_topic(topic)
    for isolation in ("read_committed", "read_uncommitted"):
        assert read_topic(target, mirror, isolation=isolation) == read_topic(source, topic), isolation
    assert end_offsets(target, mirror) == end_offsets(source, topic)
    assert {n: start for n, (start, _) in bounds_of(target, mirror).items()} == {**FAR, 2: 0}
    assert configs_of(target, [mirror])[mirror].get("cleanup.policy", "delete") == policy


async def seen(owner, when):
    """The positions of the partitions that are being filled, once ``when`` holds for them."""
    async with asyncio.timeout(patience(SECONDS)):
        while True:
            if when(owner.run.prefills.positions()):
                return owner.run.known_positions()
            await asyncio.sleep(0.005)


def one_of(positions, number):
    return next(position for position in positions if position.partition == number)


@KINDS
def test_a_mirror_begins_where_its_source_does_and_kills_on_the_way_change_nothing(ends, settings, policy):
    flow, topic = settings()
    write(ends[0], topic, policy)

    async def killed_twice():
        for end in (1_000_000, 2_000_000):
            owner = await Owner.take(flow, in_doubt=True)
            positions = await seen(owner, lambda at, end=end: at and one_of(at, 0).downstream_position >= end)
            await owner.kill()
            filling = one_of(positions, 0)
            assert not was_mirrored(PositionRecord.decode(filling.encode()))
            assert (filling.state, filling.reason.split(":")[0]) == (State.STARTING, "prefill")
        owner = await Owner.take(flow, in_doubt=True)
        said = [sentence for sentence in owner.run.warnings if "prefill" in sentence]
        await owner.catch_up()
        await owner.close()
        return said

    (cost,) = asyncio.run(killed_twice())
    assert "empty records, which are deleted at once" in cost
    check_same(ends, flow, topic, policy)


def test_more_offsets_than_allowed_are_refused_before_anything_is_created(ends, settings):
    flow, topic = settings(**{"mmtool.prefill.max.offsets": "4000000"})
    create_far(ends[0], topic, FAR)

    async def checked():
        run = FlowRun(await connect(flow))
        try:
            await run.check(lambda _: None)
            await run.check_topics()
        finally:
            await run.close(clean=False)

    with pytest.raises(RefusedError) as refused:
        asyncio.run(checked())
    assert "4,700,001 offsets of 2 partitions" in refused.value.message
    assert "mmtool.prefill.max.offsets = 4700001" in refused.value.remedy
    assert flow.remote_topic(topic) not in topics_of(ends[1])
