"""Filler that was deleted and that a crashed broker shows again: brokers store log starts once a minute."""

import asyncio

import pytest

from kit.far_starts import bounds_of, create_far
from kit.load import Load, produce
from kit.mirror_flow import Owner, flow_of
from mmtool.lab.cluster import Cluster
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]

FAR = {0: 1_200_000, 1: 500_001}


async def mirrored(flow):
    owner = await Owner.take(flow, in_doubt=True)
    await owner.catch_up()
    await owner.close()


def test_filler_that_a_crashed_broker_shows_again_is_deleted_at_the_next_start(fleet, tmp_path, topic_name):
    topic, source = topic_name("crashed"), fleet["source"].bootstrap
    create_far(source, topic, FAR)
    produce(source, Load(topic, 300, len(FAR), 100))
    with Cluster("target", tmp_path / "target") as target:
        clusters = Fleet([fleet["source"], target])
        flow = flow_of(clusters, tmp_path, "source", "target", topic, **{"mmtool.offsets": "same"})
        mirror = flow.remote_topic(topic)
        asyncio.run(mirrored(flow))
        target.kill_broker(0)
        target.start_broker(0)
        wait_until(lambda: len(bounds_of(target.bootstrap, mirror)) == len(FAR), "the logs' leaders", 30)
        assert bounds_of(target.bootstrap, mirror)[0][0] < FAR[0]
        asyncio.run(mirrored(flow))
        assert bounds_of(target.bootstrap, mirror) == bounds_of(source, topic)
        assert read_topic(target.bootstrap, mirror) == read_topic(source, topic)
