"""The batch wire's view of a cluster, where it is an odd one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.config import ClusterSettings
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import BrokerAddress


@pytest.fixture
def cluster():
    return wire_cluster(ClusterSettings(alias="a", bootstrap_servers="nowhere:1"), "test", role="admin")


def answering(cluster, monkeypatch, *listed):
    """A cluster whose answers list these brokers, one list after the other, and that coordinates every group at 7."""
    left = list(listed)

    class Answers:
        def close(self):
            pass

        def connected(self):
            return True

        async def send(self, request):
            if "Metadata" in type(request).__name__:
                return SimpleNamespace(cluster_id="id", brokers=left.pop(0), topics=())
            return SimpleNamespace(error_code=Code.NONE, node=7, host="h", port=1)

    async def connected(*_):
        return Answers()

    monkeypatch.setattr(cluster, "_connect", connected)


def test_a_coordinator_is_found_when_brokers_are_listed_again(cluster, monkeypatch):
    """Who began in the moment in which none was listed would ask nobody, for ever."""
    answering(cluster, monkeypatch, [], [], [BrokerAddress(7, "h", 1)])

    async def find():
        await cluster.start()
        return await cluster.coordinator("app", seconds=5)

    assert asyncio.run(find()) == 7


def test_a_cluster_that_lists_no_broker_is_away(cluster, monkeypatch):
    """As one does whose only broker hung for longer than its session: its controller answers, and has fenced it."""

    async def answered():
        pass

    monkeypatch.setattr(cluster, "start", answered)
    with pytest.raises(ConnectionLostError, match="cluster a knows of no broker"):
        asyncio.run(cluster.refresh(()))
