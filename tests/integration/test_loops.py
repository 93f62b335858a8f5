"""Identical names both ways would mirror records back and forth for ever."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka.admin import AdminClient

from mmtool.config import load_settings
from mmtool.errors import UsageError
from mmtool.kafka.admin import TopicAdmin
from mmtool.replication.context import connect
from mmtool.replication.limits import check_loop
from mmtool.replication.stateful import flow_record, internal_topics, write_documents

_IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def test_a_way_back_that_somebody_runs_elsewhere_is_found_on_the_source(fleet, tmp_path):
    there = _flow(fleet, tmp_path / "there.properties", "source", "target")
    back = _flow(fleet, tmp_path / "back.properties", "target", "source")

    async def scene():
        running, other_way = await connect(there), await connect(back)
        control = running.identity.control_topic
        try:
            await check_loop(other_way)
            topics = [t for t in internal_topics(running.identity, there) if t.name == control]
            TopicAdmin(there.target).create_internal(topics)
            await write_documents(running, control, [flow_record(running)])
            with pytest.raises(UsageError, match="back and forth for ever"):
                await check_loop(other_way)
        finally:
            await asyncio.gather(running.close(), other_way.close())
            admin = AdminClient({"bootstrap.servers": fleet["target"].bootstrap})
            admin.delete_topics([control])[control].result(10)

    asyncio.run(scene())


def _flow(fleet, path, source, target):
    """Under aliases of its own: other tests of this session run the same two clusters as source and target."""
    text = fleet.properties([(source, target)], **_IDENTITY)
    path.write_text(text.replace("source", "loop-a").replace("target", "loop-b"))
    return load_settings(path, {}).flows[0]
