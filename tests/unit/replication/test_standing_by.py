"""A standby that had to wait for its turn, and MirrorMaker 2, which may run the flow by then."""

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import FlowPhase
from mmtool.plan.records.holds import Holds
from mmtool.replication.driver import flow_run
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.mm2.takeover import Mm2Takeover
from mmtool.replication.ownership.ownership import FlowLife
from mmtool.replication.same_offsets.prefill import Prefills

AWAY = ConnectionLostError("no broker of the source answers")
RUNS = OwnedElsewhereError("MirrorMaker 2 runs flow a->b")


async def nothing(*_, **__):
    return ()


@pytest.fixture
def standby(monkeypatch):
    """A flow whose questions for MM2 end one after the other as ``answers`` say; what it did is in ``did``."""
    monkeypatch.setattr(flow_run, "make_internal_topics", nothing)
    monkeypatch.setattr(flow_run, "refuse_lost_runs", nothing)
    predecessor = Mm2Takeover.__new__(Mm2Takeover)
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
    run.life = FlowLife(FlowPhase.OWNED)
    run.ownership = SimpleNamespace(acquire=nothing, claimed=lambda: None)
    run._positions, run.standing = {}, SimpleNamespace(blocks={})
    run._claim, run.refresh = take, nothing
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


def test_a_flow_whose_target_does_not_take_the_last_word_is_left_all_the_same(monkeypatch):
    """A failover that has drained it goes on in this process: the lease would be held until that ends."""
    did = []

    async def write(*_, **__):
        raise UnreachableError("topic mmtool-control.a.internal on cluster b: no answer")

    async def done(what):
        did.append(what)

    monkeypatch.setattr(flow_run, "write_documents", write)
    monkeypatch.setattr(flow_run, "closed_records", lambda *_: [])
    run = FlowRun.__new__(FlowRun)
    run.life, run.owner, run.shard_count = FlowLife(FlowPhase.RUNNING), "me", 1
    run.standing = SimpleNamespace(shards={0: None}, clear=lambda _: [])
    run.ownership = SimpleNamespace(release=lambda: done("left the lease"))
    run.prefills = Prefills(None, "me", Holds, [], [])
    run.watch = SimpleNamespace(stop=lambda: did.append("stopped following"))
    identity = SimpleNamespace(control_topic="control")
    run.flow = SimpleNamespace(identity=identity, close=lambda: done("closed"))
    with pytest.raises(UnreachableError):
        asyncio.run(run.close(clean=True))
    assert did == ["stopped following", "left the lease", "closed"]
