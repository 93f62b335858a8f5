"""The first records that mirrors lack, looked at while the source dies."""

from __future__ import annotations

import asyncio
import time

import pytest

from kit.batches import PlainRecord, batch_of
from kit.mirror import SOURCE_ID, fetched
from mmtool.config import ClusterSettings
from mmtool.kafka.logs import log_bounds
from mmtool.kafka.logs.log_bounds import first_missing_times
from mmtool.kafka.ports import FirstMissing
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
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


class Telling(Dying):
    """One whose partition begins with a record of this time."""

    def __init__(self, timestamp):
        self.timestamp = timestamp

    async def refresh(self, _):
        return {}

    def leader(self, *_):
        return 1

    async def send(self, *_, **__):
        batch = batch_of([PlainRecord(5, self.timestamp), PlainRecord(6, 9_000)]).write()
        return FetchAnswer(0, Code.NONE, [fetched(batch, end=7)])


@pytest.mark.parametrize(("timestamp", "told"), [(7_000, [7_000]), (-1, [])])
def test_a_record_that_carries_no_time_tells_none(timestamp, told, monkeypatch):
    """Else it had waited since 1970, and the source would be about to delete it at any moment."""
    monkeypatch.setattr(log_bounds, "wire_cluster", lambda *_, **__: Telling(timestamp))
    times = first_missing_times(EAST, [FirstMissing("orders", SOURCE_ID, 0, 5)], 1.0, read_committed=True)
    assert list(times.values()) == told


def test_of_a_source_whose_brokers_are_gone_by_now_nothing_is_told(monkeypatch):
    monkeypatch.setattr(log_bounds, "wire_cluster", lambda *_, **__: Dying())
    places = [FirstMissing("orders", TopicId("id"), 0, 5)]
    assert first_missing_times(EAST, places, 1.0, read_committed=True) == {}


def test_a_broker_that_does_not_answer_is_waited_for_no_longer_than_the_look_may_take(monkeypatch):
    class Hanging(Telling):
        async def send(self, *_, **__):
            await asyncio.sleep(60)

    monkeypatch.setattr(log_bounds, "wire_cluster", lambda *_, **__: Hanging(0))
    began = time.monotonic()
    places = [FirstMissing("orders", TopicId("id"), 0, 5)]
    assert first_missing_times(EAST, places, 0.3, read_committed=True) == {}
    assert time.monotonic() - began < 20
