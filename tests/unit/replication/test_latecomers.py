"""Flows that cannot begin yet, beside others that run."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication import latecomers
from mmtool.replication.latecomers import Latecomers

AWAY = UnreachableError("cluster east does not answer")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(latecomers, "_AGAIN_SECONDS", 0.001)


def played(outcomes):
    """What was said, how often it was tried, and who is still expected."""
    said, tried = [], []

    async def begin(flow):
        tried.append(flow.name)
        outcome = outcomes[min(len(tried), len(outcomes)) - 1]
        if outcome is not None:
            raise outcome

    async def scene():
        late = Latecomers(begin, said.append)
        late.expect(SimpleNamespace(name="a->b"), AWAY)
        for _ in range(400):
            if not late.flows or len(tried) > 20:
                break
            await asyncio.sleep(0.001)
        await late.stop()
        return set(late.flows)

    return said, tried, asyncio.run(scene())


def test_it_begins_once_its_clusters_answer():
    said, tried, left = played([AWAY, ConnectionLostError("gone again"), None])
    assert said == ["a->b: cluster east does not answer; this flow begins when it does, the others begin now"]
    assert (len(tried), left) == (3, set())


def test_what_else_keeps_it_is_said_once_and_tried_again():
    said, tried, left = played([NotAuthorisedError("DESCRIBE is denied")])
    assert said[1:] == ["a->b: cannot begin yet: DESCRIBE is denied"]
    assert (len(tried) > 5, left) == (True, {"a->b"})
