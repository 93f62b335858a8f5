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
        try:
            await check_loop(other_way)
            TopicAdmin(there.target).create_internal(internal_topics(running.identity, there))
            await write_documents(running, running.identity.control_topic, [flow_record(running)])
            with pytest.raises(UsageError, match="back and forth for ever"):
                await check_loop(other_way)
        finally:
            await asyncio.gather(running.close(), other_way.close())
            _forget(fleet["target"].bootstrap, [t.name for t in internal_topics(running.identity, there)])

    asyncio.run(scene())


def _flow(fleet, path, source, target):
    path.write_text(fleet.properties([(source, target)], **_IDENTITY))
    return load_settings(path, {}).flows[0]


def _forget(bootstrap, topics):
    """Other tests of this session find clusters on which this flow never ran."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_topics(topics).values():
        done.result(10)
