"""A standby that had to wait for its turn, and MirrorMaker 2, which may run the flow by then."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import OwnedElsewhereError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication import flow_run
from mmtool.replication.flow_run import FlowRun
from mmtool.replication.taking_over import Predecessor

AWAY = ConnectionLostError("no broker of the source answers")
RUNS = OwnedElsewhereError("MirrorMaker 2 runs flow a->b")


async def nothing(*_, **__):
    pass


@pytest.fixture
def standby(monkeypatch):
    """A flow whose questions for MM2 end one after the other as ``answers`` say; what it did is in ``did``."""
    monkeypatch.setattr(flow_run, "make_internal_topics", nothing)
    monkeypatch.setattr(flow_run, "refuse_lost_runs", nothing)
    predecessor = Predecessor.__new__(Predecessor)
    predecessor.take_over, predecessor._again = False, None
    run = FlowRun.__new__(FlowRun)
    run.did, run.answers = [], []

    async def refuse(_):
        run.did.append("asked")
        if run.answers and (answer := run.answers.pop(0)):
            raise answer

    async def take(**_):
        run.did.append("taken")

    predecessor._guard = SimpleNamespace(refuse=refuse)
    run.flow, run._predecessor = None, predecessor
    run.ownership = SimpleNamespace(acquire=nothing)
    run._positions, run.standing = {}, SimpleNamespace(blocks={})
    run.take, run.refresh = take, nothing
    return run


def tries(run, count):
    """How each try to take the flow ended, after it was joined."""

    async def scene():
        await run.join(standby=True, say=print)
        return await asyncio.gather(*[run.take_to_mirror() for _ in range(count)], return_exceptions=True)

    return asyncio.run(scene())


def test_a_source_that_is_away_when_a_standby_has_its_turn_ends_nothing_and_is_asked_when_it_is_back(standby):
    """Its owner may have died with it, and nobody else is there to run the flow."""
    standby.answers = [AWAY]
    assert tries(standby, 3) == [AWAY, None, None]
    assert standby.did == ["asked", "asked", "taken", "taken"]


def test_a_standby_claims_nothing_where_mirror_maker_runs_the_flow_by_then(standby):
    standby.answers = [AWAY, RUNS]
    assert tries(standby, 2) == [AWAY, RUNS]
    assert standby.did == ["asked", "asked"]
