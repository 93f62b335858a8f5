"""Flows that start late, or are taken again, beside the rounds of the others."""

import asyncio
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from kit.mirror import assigned
from kit.wire import on_loop
from mmtool.errors import NotAuthorisedError, OwnedElsewhereError, RefusedError, UnreachableError
from mmtool.events import is_for_people
from mmtool.kafka.state.claims import ClaimLostError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.plan.flow.phases import FlowEvent, FlowPhase
from mmtool.plan.topics.facts import HaltReason
from mmtool.replication.driver import supervisor
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.driver.supervisor import FlowSupervisor, RunOptions
from mmtool.replication.ownership.ownership import FlowLife
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError

AWAY = UnreachableError("cluster east does not answer")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(supervisor, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(supervisor, "check_led", Run._nothing)


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


@asynccontextmanager
async def supervised(run, begin=FlowSupervisor.lose):
    """Its supervisor, which has begun so, and what that says."""
    said = []
    taking = FlowSupervisor((), RunOptions(), asyncio.Event(), said.append, runs=[run])
    taking._schedulers[run.name] = SimpleNamespace(stop=run._nothing, start=lambda: None)
    if begun := begin(taking, run):
        await begun
    try:
        yield taking, said
    finally:
        await taking.end()


@on_loop
async def test_a_flow_is_away_until_it_is_taken_and_its_clusters_are_named_once():
    run = Run(AWAY, AWAY, None)
    async with supervised(run) as (taking, said):
        assert (run.life.is_claimed, taking.is_busy) == (False, True)
        await taking.wait(5)
        assert (run.life.is_claimed, taking.is_busy, taking.replan.is_set()) == (True, False, True)
    assert [(told.event, told.fields["flow"]) for told in said] == [
        ("ownership_lost", "a->b"),
        ("cluster_away", "a->b"),
        ("ownership_reacquired", "a->b"),
    ]
    assert list(filter(is_for_people, said)) == [
        "a->b: the last batches may be incomplete; checking them before mirroring restarts",
        "a->b: waiting for the clusters: cluster east does not answer; mmtool keeps trying",
    ]


@on_loop
async def test_a_claim_that_is_lost_to_an_earlier_try_of_our_own_is_made_again():
    run = Run(ClaimLostError("another mmtool claimed it"), FencedError("shard 1"), InDoubtError("runs"), None)
    async with supervised(run) as (taking, said):
        await taking.wait(5)
        assert (run.tried, taking.replan.is_set()) == (4, True)
    assert [(told.event, str(told)) for told in said[1:4]] == [
        ("ownership_lost", f"a->b: the flow could not be claimed: {why}; mmtool keeps trying")
        for why in ("another mmtool claimed it", "shard 1", "runs")
    ]


@on_loop
async def test_a_cluster_that_denies_a_right_is_not_waited_for_as_one_that_is_away():
    denied = NotAuthorisedError("west denies WRITE", remedy="grant it, then run the same command again")
    async with supervised(Run(denied, None)) as (taking, said):
        await taking.wait(5)
    assert "a->b: west denies WRITE; grant it; mmtool keeps trying" in said


@on_loop
async def test_while_the_source_is_away_nothing_is_fenced_on_the_target():
    """Each fence leaves a marker in each mirrored partition."""
    run = Run(None)
    run.source_away = [AWAY, AWAY, AWAY]
    async with supervised(run) as (taking, _):
        await taking.wait(5)
    assert run.tried == 1


@pytest.mark.long
@on_loop
async def test_only_what_was_just_lost_is_waited_for():
    """Else each round of the others would begin a second late for as long as an outage lasts."""
    async with supervised(Run(AWAY)) as (taking, _):
        times = [time.monotonic()]
        for _ in range(2):
            await taking.settle()
            times.append(time.monotonic())
    assert times[1] - times[0] >= supervisor._GRACE_SECONDS > 0.5 > times[2] - times[1]


@on_loop
async def test_what_cannot_be_taken_again_is_told():
    async with supervised(Run(OwnedElsewhereError("lost to somebody else"))) as (taking, _):
        await asyncio.sleep(0.01)
        assert taking.has_failed
        with pytest.raises(OwnedElsewhereError, match="somebody else"):
            await taking.settle()


class PutOff(Run):
    """A flow of which one partition waits for its source, which answers with ``ends`` in turn."""

    def __init__(self, monkeypatch, *ends):
        super().__init__(None)
        self.life = FlowLife(FlowPhase.OWNED)
        self.block = assigned().block
        self.ends, self.looks = list(ends), 0
        source = SimpleNamespace(refresh=self._refresh, topic_id=lambda _: self.block.about.topic_id)
        self.flow = SimpleNamespace(
            source=source, settings=SimpleNamespace(is_external=False, throttle_bytes_per_second=None)
        )
        monkeypatch.setattr(supervisor, "_LOOK_SECONDS", 0.001)
        monkeypatch.setattr(supervisor, "offsets_now", self._offsets_now)

    def partitions(self):
        return []

    async def _refresh(self, topics):
        if self.ends[0] is None:
            self.ends.pop(0)
            raise ConnectionLostError("no broker of source answers")

    async def _offsets_now(self, _cluster, _places, _seconds):
        self.looks += 1
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]

    async def take_to_mirror(self):
        place = self.block.about.topic_id, self.block.about.partition
        self.standing = OwnedState({}, {place: self.block})
        if not self.life.is_in_doubt:
            self.standing.put_off(place, HaltReason("orders-0 of source has no leader"))
            return self.life.happen(FlowEvent.CLAIM)
        return await super().take_to_mirror()


def looked_for(run):
    """The same of a flow with a partition that was put off."""
    return supervised(run, lambda taking, run: taking._claim(run, waits=False))


@on_loop
async def test_what_was_put_off_is_taken_up_once_its_source_answers_and_the_round_ends_for_it(monkeypatch):
    run = PutOff(monkeypatch, None, {}, {}, {"orders-0": 9})
    async with looked_for(run) as (taking, said):
        differs = taking.replan
        taking.recover_found()
        assert not taking.is_busy
        await asyncio.wait_for(differs.wait(), 5)
        taking.planned()
        assert differs.is_set()
        taking.recover_found()
        assert not run.life.is_claimed
        await taking.wait(5)
        taking.planned()
        assert (run.life.is_claimed, run.tried, differs.is_set(), taking.is_busy) == (True, 1, False, False)
    assert list(filter(is_for_people, said))[1:] == [
        "a->b: a partition on the source has a leader again, or was deleted; the flow checks its last writes first"
    ]
    assert run.looks == 3


@on_loop
async def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for(monkeypatch):
    """Taken again, its partition is told to be gone."""
    run = PutOff(monkeypatch, {})
    async with looked_for(run) as (taking, _):
        await asyncio.sleep(0.02)
        run.flow.source.topic_id = lambda _: None
        await asyncio.wait_for(taking.replan.wait(), 5)


@on_loop
async def test_a_flow_that_is_taken_again_for_another_reason_is_looked_at_once(monkeypatch):
    run = PutOff(monkeypatch, {})
    async with looked_for(run) as (taking, _):
        taking.lose(run)
        await taking.wait(5)
        looks = run.looks
        await asyncio.sleep(0.02)
        assert run.looks == looks


FAILED_OVER = RefusedError("flow a->b is not mirrored", remedy="release it", code="failed_over")


LACKING = RefusedError("topic mmtool-journal.internal is missing", remedy="make it", code="topics_missing")


class Meeting(FlowSupervisor):
    """Meets each flow with the next of its outcomes: an error, or None for a flow that starts."""

    def __init__(self, outcomes, said, *, has_goal=False):
        flows = [SimpleNamespace(name=name) for name in outcomes]
        super().__init__(flows, RunOptions(until={} if has_goal else None), asyncio.Event(), said)
        self.outcomes, self.met = outcomes, 0

    async def _meet(self, flow):
        self.met += 1
        outcome = self.outcomes[flow.name]
        outcome = outcome.pop(0) if len(outcome) > 1 else outcome[0]
        if outcome is not None:
            raise outcome
        return Started.__new__(Started)


class Started(FlowRun):
    name = "c->d"


def met(monkeypatch, outcomes, **options):
    """What was said while flow ``a->b`` was tried a few times beside another one; the flows still deferred."""

    async def scene():
        said = []
        flows = Meeting({"a->b": outcomes, "c->d": [None]}, said.append, **options)
        await flows.meet()
        for _ in range(400):
            if not flows._deferred or flows.met > 20:
                break
            await asyncio.sleep(0.001)
        await flows.end()
        return said, set(flows._deferred), set(flows.failed_over)

    monkeypatch.setattr(supervisor, "refuse_met_topics", Run._nothing)
    return asyncio.run(scene())


@pytest.mark.parametrize("kind", [NotAuthorisedError, UnsupportedByBrokerError, KeyError])
def test_whatever_keeps_a_deferred_flow_from_starting_is_said_once_and_it_is_tried_again(monkeypatch, kind):
    """Nobody else would try."""
    error = kind("DESCRIBE is denied")
    said, deferred, _ = met(monkeypatch, [AWAY, ConnectionLostError("gone again"), error])
    assert said == [
        "a->b: cluster east does not answer; this flow starts when the cluster answers; starting the other flows",
        f"a->b: cannot start yet: {error}; mmtool retries every 0.001 s",
    ]
    assert deferred == {"a->b"}


def test_a_flow_whose_topics_are_missing_waits_for_them_also_alone(monkeypatch):
    """It starts when they are there, and is no error of the process."""
    monkeypatch.setattr(supervisor, "refuse_met_topics", Run._nothing)
    said = []

    async def scene():
        flows = Meeting({"a->b": [LACKING]}, said.append)
        await flows.meet()
        for _ in range(400):
            if flows.met > 3:
                break
            await asyncio.sleep(0.001)
        await flows.end()
        assert flows.met > 3
        return list(flows.runs), set(flows._deferred)

    assert asyncio.run(scene()) == ([], {"a->b"})
    assert said == [f"a->b: cannot start yet: {LACKING.message}; make it; mmtool retries every 0.001 s"]


@pytest.mark.parametrize(("has_goal", "deferred"), [(False, {"a->b"}), (True, set())])
def test_a_flow_that_has_failed_over_keeps_no_other_one_back(monkeypatch, has_goal, deferred):
    """The way back has to run while it has; a release lets it begin, and a run that ends by itself waits for none."""
    said, *left = met(monkeypatch, [FAILED_OVER], has_goal=has_goal)
    assert said == ["flow a->b is not mirrored; release it; starting the other flows"]
    assert left == [deferred, {"a->b"}]


@pytest.mark.parametrize(
    ("outcomes", "has_goal"),
    [
        ({"a->b": [FAILED_OVER], "b->a": [FAILED_OVER]}, False),
        ({"a->b": [AWAY], "c->d": [None]}, True),
        ({"a->b": [LACKING], "c->d": [None]}, True),
    ],
    ids=["all have failed over", "a goal, and a cluster that is away", "a goal, and missing topics"],
)
def test_nothing_starts_without_a_flow_that_is_needed(outcomes, has_goal):
    flows = Meeting(outcomes, print, has_goal=has_goal)
    with pytest.raises(type(outcomes["a->b"][0])):
        asyncio.run(flows.meet())
