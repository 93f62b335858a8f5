"""The batch wire's view of a cluster, where it is an odd one."""

from __future__ import annotations

import asyncio

import pytest

from mmtool.config import ClusterSettings
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.wire.cluster import ConnectionLostError


def test_a_cluster_that_lists_no_broker_is_away(monkeypatch):
    """As one does whose only broker hung for longer than its session: its controller answers, and has fenced it."""
    cluster = wire_cluster(ClusterSettings(alias="a", bootstrap_servers="nowhere:1"), "test", role="admin")

    async def answered():
        pass

    monkeypatch.setattr(cluster, "start", answered)
    with pytest.raises(ConnectionLostError, match="cluster a knows of no broker"):
        asyncio.run(cluster.refresh(()))
