"""A topic that was deleted and created again is another topic, and a real broker says so."""

from __future__ import annotations

import asyncio

import pytest

from kit.lab_admin import delete_topic
from kit.wire import Wire, on_loop, settings_of, signed
from mmtool.kafka.wire.codes import Code
from mmtool.lab.topics import create_topic


@pytest.fixture
def target(fleet, tmp_path):
    return Wire(settings_of(fleet, tmp_path).clusters["target"], fleet["target"].bootstrap)


@pytest.fixture
def topic(target, topic_name):
    name = topic_name("recreated")
    create_topic(target.bootstrap, name)
    return name


async def recreate(target, topic):
    """The same name, another topic; ready to be written to."""
    await asyncio.to_thread(delete_topic, target.bootstrap, topic)
    create_topic(target.bootstrap, topic)
    return await target.log(topic)


async def settled(attempt):
    """The first answer that is not about a broker that has yet to hear of it."""
    for _ in range(100):
        answer = await attempt()
        if answer.error_code != Code.NOT_LEADER_OR_FOLLOWER:
            return answer
        await asyncio.sleep(0.05)
    return answer


@on_loop
async def test_a_fetch_by_topic_id_does_not_read_a_topic_that_came_back_under_the_name(target, topic):
    old = await target.log(topic)
    await old.produce(signed([b"old"] * 3))
    new = await recreate(target, topic)
    await new.produce(signed([b"new"] * 5))
    assert new.topic_id != old.topic_id
    answers = [await settled(lambda log=log: log.fetch(3)) for log in (old, new)]
    assert [answer.error_code for answer in answers] == [Code.UNKNOWN_TOPIC_ID, Code.NONE]


@on_loop
async def test_a_produce_by_topic_id_does_not_write_to_a_topic_that_came_back_under_the_name(target, topic):
    old = await target.log(topic)
    new = await recreate(target, topic)
    refused = await settled(lambda: old.produce(signed([b"for the old one"])))
    assert refused.error_code == Code.UNKNOWN_TOPIC_ID
    assert await new.bounds() == (0, 0)


@on_loop
async def test_metadata_tells_the_new_id_of_a_recreated_topic(target, topic):
    old = await target.log(topic)
    await recreate(target, topic)
    cluster = await target.cluster()
    assert (await cluster.refresh([topic]))[topic].topic_id == cluster.topic_id(topic) != old.topic_id


@on_loop
async def test_asking_for_metadata_creates_no_topic(target, topic_name):
    name = topic_name("never")
    cluster = await target.cluster()
    answers = [(await cluster.refresh([name]))[name].error_code for _ in range(2)]
    assert answers == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert name not in await cluster.refresh(None)


@on_loop
async def test_a_cluster_says_who_it_is(target, fleet):
    cluster = await target.cluster()
    assert cluster.identify() == fleet["target"].cluster_id
