"""Identical names both ways on a compacted topic: what cleaners take out of either log, and who takes over on it."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from confluent_kafka import Producer

from kit.mirror_flow import Owner
from kit.quick_cleaner import quick_cleaner
from mmtool.config import load_settings
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic

pytestmark = pytest.mark.kafka

SIDES = ("source", "target")
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
KEYS, WAVES = 30, 3
SECONDS = 60


@pytest.fixture
def scene(fleet, tmp_path):
    """The topic on both sides, and the settings of the flow each way."""
    topic = f"compacted-{os.getpid()}"
    for side in SIDES:
        create_topic(fleet[side].bootstrap, topic, **COMPACTED)
    path = tmp_path / "mm2.properties"
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    path.write_text(
        fleet.properties([SIDES, SIDES[::-1]], topics=topic, **{"replication.policy.class": policy})
    )
    return topic, load_settings(path, {}).flows


def write(fleet, topic, wave):
    """Each side writes its own keys, every seventh of them as a tombstone."""
    for side in SIDES:
        producer = Producer({"bootstrap.servers": fleet[side].bootstrap, "compression.type": "lz4"})
        for key in range(KEYS):
            value = None if (key + wave) % 7 == 0 else b"%b %d of %d" % (side.encode(), wave, key)
            producer.produce(topic, value, b"%b-%d" % (side.encode(), key))
        producer.flush(SECONDS)
    time.sleep(0.15)


async def mirrored(flows, *, in_doubt):
    """Each way until its end."""
    for flow in flows:
        owner = await Owner.take(flow, in_doubt=in_doubt)
        await owner.catch_up()
        await owner.close()


def values(fleet, side, topic):
    return [(r.key, r.value) for r in read_topic(fleet[side].bootstrap, topic, isolation="read_uncommitted")]


def test_the_last_of_each_key_is_on_both_sides_and_nothing_goes_home(fleet, scene):
    """Also for owners who take over in doubt, and find their way on logs with holes."""
    topic, flows = scene
    for wave in range(WAVES):
        write(fleet, topic, wave)
        asyncio.run(mirrored(flows, in_doubt=wave % 2 == 1))
    for side in SIDES:
        with quick_cleaner(fleet[side].bootstrap):
            wait_until(
                lambda side=side: len(values(fleet, side, topic)) < 2 * KEYS * WAVES - KEYS,
                f"compaction on {side}",
                SECONDS,
            )
    write(fleet, topic, WAVES)
    asyncio.run(mirrored(flows, in_doubt=True))
    ends = {side: end_offsets(fleet[side].bootstrap, topic) for side in SIDES}
    asyncio.run(mirrored(flows, in_doubt=False))
    assert {side: end_offsets(fleet[side].bootstrap, topic) for side in SIDES} == ends

    here, there = ([*values(fleet, side, topic)] for side in SIDES)
    lived = [{key: value for key, value in dict(of).items() if value is not None} for of in (here, there)]
    assert lived[0] == lived[1]
    assert len(lived[0]) == 2 * sum((key + WAVES) % 7 != 0 for key in range(KEYS))
    for found in (here, there):
        written = [value for _, value in found if value is not None]
        assert len(written) == len(set(written))
