"""The control topic is followed through whatever its cluster answers meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.own_records import own_batches
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.plan.marks import FailedOverRecord
from mmtool.replication import feed
from mmtool.replication.feed import ControlFeed
from mmtool.translation.types import TopicId

MARK = FailedOverRecord("orders", True, "fo-7", "ann@host-1", 1)


class Cluster:
    """Fails once, and has one mark then."""

    def __init__(self, failure):
        self.answers = [failure, own_batches([(MARK.key, MARK.encode())], 1)[0].payload]

    async def send_to_leader(self, *_, **__):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(partitions=[SimpleNamespace(error_code=Code.NONE, records=answer)])


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionLostError("broker 1 did not answer in time"),
        NotAuthorisedError("cluster west refuses the credentials"),
        UnreachableError("cluster west does not answer"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_what_is_marked_after_a_failure_is_heard_of(monkeypatch, failure):
    """Its broker was restarted, and did not know users yet when we connected anew."""
    monkeypatch.setattr(feed, "_PAUSE_SECONDS", 0.0)
    follower = ControlFeed(Cluster(failure), "mmtool-control", TopicId("id"), 0)

    async def twice():
        return [await follower.next(), await follower.next()]

    assert asyncio.run(twice()) == [[], [MARK]]
