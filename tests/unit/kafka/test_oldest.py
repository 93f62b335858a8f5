"""The first records that mirrors lack, looked at while the source dies."""

from __future__ import annotations

from mmtool.config import ClusterSettings
from mmtool.kafka import oldest
from mmtool.kafka.oldest import first_missing_times
from mmtool.kafka.ports import FirstMissing
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.translation.types import TopicId

EAST = ClusterSettings(alias="east", bootstrap_servers="nowhere:1")


class Dying:
    """A cluster that introduces itself, and whose brokers do not answer."""

    async def start(self):
        pass

    async def close(self):
        pass

    async def refresh(self, _):
        raise ConnectionLostError("connection refused")

    def leader(self, *_):
        return None


def test_of_a_source_whose_brokers_are_gone_by_now_nothing_is_told(monkeypatch):
    monkeypatch.setattr(oldest, "wire_cluster", lambda *_, **__: Dying())
    places = [FirstMissing("orders", TopicId("id"), 0, 5)]
    assert first_missing_times(EAST, places, 1.0, read_committed=True) == {}
