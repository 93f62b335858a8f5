"""Flows that are taken again beside the rounds of the others."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from kit.mirror import assigned
from mmtool.errors import NotAuthorisedError, OwnedElsewhereError, UnreachableError
from mmtool.events import is_for_people
from mmtool.kafka.state.claims import ClaimLostError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import FlowEvent, FlowPhase
from mmtool.plan.topics.facts import HaltReason
from mmtool.replication.driver import waiting_flows as regaining
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.driver.waiting_flows import Reacquirer
from mmtool.replication.ownership.ownership import FlowLife
from mmtool.replication.pump.in_flight import FencedError, InDoubtError

AWAY = UnreachableError("cluster east does not answer")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(regaining, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(regaining, "check_led", Run._nothing)


class Run:
    """As much of a flow as is taken again; ``outcomes`` is what each attempt ends with."""

    name = "a->b"

    def __init__(self, *outcomes):
        self.outcomes, self.tried = outcomes, 0
        self.life = FlowLife(FlowPhase.RUNNING)
        self.ownership = SimpleNamespace(again=self._nothing)
        self.flow = None
        self.source_away = []
        self.standing = OwnedState({})

    async def _nothing(self):
        pass

    async def matches(self):
        if self.source_away:
            raise self.source_away.pop()

    async def take_to_mirror(self):
        assert self.life.is_in_doubt
        self.tried += 1
        outcome = self.outcomes[min(self.tried, len(self.outcomes)) - 1]
        if outcome is not None:
            raise outcome
        return self.life.happen(FlowEvent.CLAIM)


def scene(run, play, begin=Reacquirer.begin):
    """What ``play`` made of it, and what was said."""

    async def played():
        said, regained = [], asyncio.Event()
        scheduler = SimpleNamespace(stop=run._nothing, start=lambda: None)
        taking = Reacquirer({run.name: scheduler}, said.append, regained, begun=None)
        begin(taking, run)
        try:
            return await play(taking, regained), said
        finally:
            await taking.stop()

    return asyncio.run(played())


def test_a_flow_is_away_until_it_is_taken_and_its_clusters_are_named_once():
    run = Run(AWAY, AWAY, None)

    async def play(taking, regained):
        before = (run.life.is_claimed, taking.is_busy)
        await taking.wait(5)
        return before, (run.life.is_claimed, taking.is_busy, regained.is_set())

    found, said = scene(run, play)
    assert found == ((False, True), (True, False, True))
    assert [(told.event, told.fields["flow"]) for told in said] == [
        ("ownership_lost", "a->b"),
        ("cluster_away", "a->b"),
        ("ownership_reacquired", "a->b"),
    ]
    assert list(filter(is_for_people, said)) == [
        "a->b: the last batches may be incomplete; checking them before mirroring restarts",
        "a->b: waiting for the clusters: cluster east does not answer; mmtool keeps trying",
    ]


def test_a_claim_that_is_lost_to_an_earlier_try_of_our_own_is_made_again():
    run = Run(ClaimLostError("another mmtool claimed it"), FencedError("shard 1"), InDoubtError("runs"), None)

    async def play(taking, regained):
        await taking.wait(5)
        return run.tried, regained.is_set()

    found, said = scene(run, play)
    assert found == (4, True)
    assert [(told.event, str(told)) for told in said[1:4]] == [
        ("ownership_lost", f"a->b: the flow could not be claimed: {why}; mmtool keeps trying")
        for why in ("another mmtool claimed it", "shard 1", "runs")
    ]


def test_a_cluster_that_denies_a_right_is_not_waited_for_as_one_that_is_away():
    run = Run(
        NotAuthorisedError("west denies WRITE", remedy="grant it, then run the same command again"), None
    )

    async def play(taking, _):
        await taking.wait(5)

    assert "a->b: west denies WRITE; grant it; mmtool keeps trying" in scene(run, play)[1]


def test_while_the_source_is_away_nothing_is_fenced_on_the_target():
    """Each fence leaves a marker in each mirrored partition."""
    run = Run(None)
    run.source_away = [AWAY, AWAY, AWAY]

    async def play(taking, _):
        await taking.wait(5)
        return run.tried

    assert scene(run, play)[0] == 1


@pytest.mark.long
def test_only_what_was_just_lost_is_waited_for():
    """Else each round of the others would begin a second late for as long as an outage lasts."""

    async def play(taking, _):
        began = time.monotonic()
        await taking.settle()
        first = time.monotonic() - began
        began = time.monotonic()
        await taking.settle()
        return first, time.monotonic() - began

    (first, later), _ = scene(Run(AWAY), play)
    assert first >= regaining._GRACE_SECONDS > 0.5 > later


def test_what_cannot_be_taken_again_is_told():
    async def play(taking, _):
        await asyncio.sleep(0.01)
        failed = taking.has_failed
        with pytest.raises(OwnedElsewhereError, match="somebody else"):
            await taking.settle()
        return failed

    assert scene(Run(OwnedElsewhereError("lost to somebody else")), play)[0] is True


class PutOff(Run):
    """A flow of which one partition waits for its source, which answers with ``ends`` in turn."""

    def __init__(self, monkeypatch, *ends):
        super().__init__(None)
        self.block = assigned().block
        self.ends, self.looks = list(ends), 0
        source = SimpleNamespace(refresh=self._refresh, topic_id=lambda _: self.block.about.topic_id)
        self.flow = SimpleNamespace(source=source)
        place = self.block.about.topic_id, self.block.about.partition
        self.standing = OwnedState({}, {place: self.block})
        self.standing.put_off(place, HaltReason("orders-0 of source has no leader"))
        monkeypatch.setattr(regaining, "_LOOK_SECONDS", 0.001)
        monkeypatch.setattr(regaining, "offsets_now", self._offsets_now)

    async def _refresh(self, topics):
        if self.ends[0] is None:
            self.ends.pop(0)
            raise ConnectionLostError("no broker of source answers")

    async def _offsets_now(self, _cluster, _places, _seconds):
        self.looks += 1
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]

    async def take_to_mirror(self):
        claimed = await super().take_to_mirror()
        self.standing = OwnedState({})
        return claimed


def looked_for(run, play):
    """What ``play`` made of a flow with a partition that was put off."""
    return scene(run, play, Reacquirer.look_for_sources)


def test_what_was_put_off_is_taken_up_once_its_source_answers_and_the_round_ends_for_it(monkeypatch):
    run = PutOff(monkeypatch, None, {}, {}, {"orders-0": 9})

    async def play(taking, differs):
        taking.begin_found([run])
        before = (taking.has_found, taking.is_busy)
        await asyncio.wait_for(differs.wait(), 5)
        found = taking.has_found
        taking.begin_found([run])
        mirrored = run.life.is_claimed
        await taking.wait(5)
        return before, found, mirrored, (run.life.is_claimed, run.tried, taking.has_found, taking.is_busy)

    found, said = looked_for(run, play)
    assert found == ((False, False), True, False, (True, 1, False, False))
    assert list(filter(is_for_people, said)) == [
        "a->b: a partition on the source has a leader again, or was deleted; the flow checks its last writes first"
    ]
    assert run.looks == 3


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for(monkeypatch):
    """Taken again, its partition is told to be gone."""
    run = PutOff(monkeypatch, {})

    async def play(_, differs):
        await asyncio.sleep(0.02)
        run.flow.source.topic_id = lambda _: None
        await asyncio.wait_for(differs.wait(), 5)

    looked_for(run, play)


def test_a_flow_that_is_taken_again_for_another_reason_is_looked_at_once(monkeypatch):
    run = PutOff(monkeypatch, {})

    async def play(taking, _):
        taking.begin(run)
        await taking.wait(5)
        looks = run.looks
        await asyncio.sleep(0.02)
        return run.looks - looks, taking.has_found

    assert looked_for(run, play)[0] == (0, False)
