"""What the driver does from its first look at the clusters to its first rounds, and how it ends; clusters are fakes."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from kit.wire import on_loop
from mmtool.config import load_settings
from mmtool.config.changes import compare
from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.events import is_for_people
from mmtool.kafka.state.claims import ClaimLostError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import FlowEvent, FlowPhase
from mmtool.replication.driver import engine as driver
from mmtool.replication.driver import supervisor
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.driver.engine import Engine
from mmtool.replication.driver.supervisor import FlowSupervisor, RunOptions
from mmtool.replication.ownership.ownership import FlowLife
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.replication.spark.rounds import spark_up
from mmtool.replication.topics.mirror_topics import TopicsView

LOST = ConnectionLostError("connection to broker 1 of c: reset")
AWAY = UnreachableError("cluster c does not answer")
FILE = """
clusters = a, b, c
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
c.bootstrap.servers = localhost:3
a->b.enabled = true
c->b.enabled = true
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(supervisor, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "_TOGETHER_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "check_led", lambda _: asyncio.sleep(0))
    monkeypatch.setattr(driver, "_IDLE_SECONDS", 0.01)


class Run:
    """As much of a flow as the driver touches. What is in ``failures`` is raised, one at a time, by who asks for it."""

    def __init__(self, settings):
        self.name, self.answers = settings.name, True
        self.prefills = SimpleNamespace(is_busy=False)
        self.flow = SimpleNamespace(settings=settings, answers=self._answers)
        self.life = FlowLife()
        self.ownership = SimpleNamespace(again=self._again)
        self.standing = OwnedState({})
        self.watch = SimpleNamespace(news=[])
        self.view, self.warnings = TopicsView(matched=1), []
        self.wants_look = False
        self.joined = asyncio.Event()
        self.joined.set()
        self.did, self.failures, self.closed, self.hangs_at = [], {}, None, ""
        self.to_mirror = []

    def _done(self, what):
        async def do():
            self.did.append(what)
            if what == self.hangs_at:
                await asyncio.sleep(60)
            for failure in self.failures.get(what, [])[:1]:
                self.failures[what].pop(0)
                raise failure

        return do

    async def mirrored_names(self):
        return {}

    async def _again(self):
        await self._done("again")()
        if not self.life.is_leased:
            self.life.happen(FlowEvent.LEASE_HELD)

    async def _answers(self):
        return self.answers

    async def join(self, *, standby, say):
        self.did.append("join")
        self.life.happen(FlowEvent.JOIN)
        await self.joined.wait()
        self.life.happen(FlowEvent.LEASE_HELD)

    async def matches(self):
        await self._done("matches")()
        return True

    async def take_to_mirror(self):
        await self._done("take in doubt" if self.life.is_in_doubt else "take")()
        return self.life.happen(FlowEvent.CLAIM)

    async def refresh(self):
        await self._done("refresh")()
        return False

    async def adopt(self, settings):
        self.flow.settings = settings

    async def close(self, *, clean):
        self.closed = clean and self.life.phase is FlowPhase.RUNNING
        self.life.happen(FlowEvent.CLOSE)

    def partitions(self):
        return []

    def loads(self):
        return self.to_mirror

    def retry_halted(self):
        pass

    async def tidy(self):
        await self._done("renew")()

    has_reached_goal = False

    async def set_goal(self):
        await self._done("goal")()


class Duty:
    """Counts its turns, and knows the settings that it was made with."""

    name, seconds, extra = "counting", 0.001, ""

    def __init__(self, run):
        self.flow, self.turns = run.name, 0
        self.interval = run.flow.settings.sync_group_offsets_interval_seconds

    async def perform(self):
        self.turns += 1


class Scene:
    """A driver of the flows of a file."""

    def __init__(self, path, monkeypatch, **options):
        self.path, self.said, self.duties, self.met = path, [], [], {}
        monkeypatch.setattr(supervisor, "FlowRun", Run)
        monkeypatch.setattr(supervisor, "duties_of", self._duties_of)
        monkeypatch.setattr(FlowSupervisor, "_meet", self._meet)
        monkeypatch.setattr(Engine, "_open_spark", lambda _: SimpleNamespace(stop=lambda: None))
        self.runs = {flow.name: Run(flow) for flow in self.load()}
        self.flows = FlowSupervisor(self.load(), RunOptions(**options), asyncio.Event(), self._say)
        self.engine = Engine(self.flows, lambda _: None)

    def _say(self, sentence):
        if is_for_people(sentence):
            self.said.append(sentence)

    def load(self, more=""):
        self.path.write_text(FILE + more)
        return load_settings(self.path, {}).flows

    async def _meet(self, flow):
        run = self.runs[flow.name]
        run.flow.settings, run.life = flow, FlowLife()
        await run._done("meet")()
        return run

    def _duties_of(self, run, *_):
        self.duties.append(Duty(run))
        return [self.duties[-1]]

    async def reload(self, more):
        new = {flow.name: flow for flow in self.load(more)}
        running = self.flows.settings
        await self.flows.adopt({flow.name: compare(flow, new[flow.name]) for flow in running}, ())

    @asynccontextmanager
    async def running(self):
        """The driver, until the end of the block."""
        task = asyncio.create_task(self.engine.run())
        try:
            yield task
        finally:
            self.flows.stop.set()
            await asyncio.wait_for(task, 2)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Makes a scene with these options of the run."""
    return lambda **options: Scene(tmp_path / "mm2.properties", monkeypatch, **options)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never came to that")


def test_a_spark_that_dies_while_it_starts_is_told_in_one_line_with_the_remedy():
    async def scene():
        starting = asyncio.get_running_loop().create_future()
        starting.set_exception(ConnectionRefusedError(111, "Connection refused"))
        await spark_up(starting, asyncio.Event())

    with pytest.raises(MmtoolError, match=r"Spark did not start: .*Connection refused") as raised:
        asyncio.run(scene())
    assert "run the same command again" in str(raised.value.remedy)


@on_loop
async def test_a_flow_that_begins_while_others_are_waited_for_is_taken_once_and_its_duties_end_with_it(
    played,
):
    """A second claim leaves a marker in each mirror, and duties that nobody can end commit for who is away."""
    scene = played()
    other, late = scene.runs.values()
    late.failures["meet"] = [AWAY]
    other.joined.clear()
    async with scene.running():
        await until(lambda: late in scene.flows.runs)
        other.joined.set()
        await until(scene.flows.ready.is_set)
    turns = [duty.turns for duty in scene.duties]
    await asyncio.sleep(0.02)
    assert (late.did.count("take"), [duty.turns for duty in scene.duties] == turns) == (1, True)


@on_loop
async def test_the_flows_that_this_process_does_not_own_are_told_with_the_reason(played):
    scene = played()
    run, late = scene.runs.values()
    late.failures["meet"] = [AWAY]
    late.joined.clear()
    told = [scene.flows.unowned()]
    async with scene.running():
        await until(scene.flows.ready.is_set)
        told.append(scene.flows.unowned())
        run.life.happen(FlowEvent.LEASE_LOST)
        told.append(scene.flows.unowned())
        run.life.happen(FlowEvent.DOUBT)
        told.append(scene.flows.unowned())
    assert told == [
        ["a->b: not started yet", "c->b: not started yet"],
        ["c->b: not started yet"],
        ["a->b: lost the ownership lease; asking for it again", "c->b: not started yet"],
        ["a->b: reacquiring ownership", "c->b: not started yet"],
    ]


@on_loop
async def test_a_file_that_changes_while_a_flow_is_just_beginning_reaches_it(played):
    """It is in no list meanwhile, and every later look at the file finds nothing that has changed."""
    scene = played()
    _, late = scene.runs.values()
    late.failures["meet"] = [AWAY]
    late.joined.clear()
    async with scene.running():
        await until(lambda: "join" in late.did)
        await scene.reload("c->b.sync.group.offsets.interval.seconds = 77\n")
        late.joined.set()
        await until(lambda: late in scene.flows.runs)
    last = [duty for duty in scene.duties if duty.flow == late.name][-1]
    assert (late.flow.settings.sync_group_offsets_interval_seconds, last.interval) == (77, 77)


@on_loop
async def test_a_standby_runs_the_flow_whose_turn_has_come_and_waits_for_the_others_beside_it(played):
    """Two that were started together, each with a lease of one flow, would wait for each other for ever."""
    scene = played(standby=True)
    run, other = scene.runs.values()
    other.joined.clear()
    async with scene.running():
        await until(lambda: scene.flows.ready.is_set() and "take" in run.did)
        alone = list(scene.flows.runs) == [run] and other.closed is False
        other.joined.set()
        await until(lambda: other in scene.flows.runs)
    assert (alone, run.did.count("take"), other.did.count("take")) == (True, 1, 1)


@pytest.mark.parametrize("goal", [{"until_caught_up": True}, {}], ids=["with a goal", "no standby"])
@on_loop
async def test_all_flows_are_waited_for_where_some_are_not_enough(played, goal):
    scene = played(standby=bool(goal), **goal)
    run, other = scene.runs.values()
    other.joined.clear()
    async with scene.running():
        await until(lambda: "join" in other.did)
        await asyncio.sleep(0.05)
        before = "take" in run.did
        other.joined.set()
        await until(lambda: "take" in other.did)
    assert (before, len(scene.flows.runs)) == (False, 2)


@pytest.mark.parametrize(
    ("where", "failures"),
    [("take", [LOST, LOST]), ("take", [AWAY]), ("matches", [LOST, AWAY, LOST])],
    ids=["lost in the middle", "silent for a minute", "source away"],
)
@on_loop
async def test_a_cluster_that_goes_away_before_its_flow_is_taken_stops_no_other_and_is_waited_for(
    played, where, failures
):
    scene = played()
    other, run = scene.runs.values()
    run.failures[where], run.answers = [*failures], False
    async with scene.running():
        await until(lambda: scene.flows.ready.is_set() and run.life.is_claimed)
        await until(lambda: all(duty.turns for duty in scene.duties))
    took = [what for what in run.did if what.startswith("take")]
    tries, said = len(failures) + 1 if where == "take" else 1, scene.said
    assert (other.did.count("take"), took, run.closed, len(scene.duties)) == (1, ["take"] * tries, True, 2)
    assert said[0] == "a->b: owner of the flow; 0 partitions to mirror"
    assert said[1] == f"c->b: waiting for the clusters: {failures[0]}; mmtool keeps trying"
    assert said[-1] == "c->b: owner of the flow; 0 partitions to mirror"


DENIED = NotAuthorisedError("WRITE is denied")
LEADERLESS = UnreachableError("reading offsets of cluster b: c.orders-0 of b has no leader")


@pytest.mark.parametrize(
    ("failure", "answers", "options", "message"),
    [
        # that may last, and a restart after a crash cannot fence what nobody leads
        (LEADERLESS, True, {}, LEADERLESS.message),
        (DENIED, False, {}, "WRITE is denied"),
        (LOST, True, {"until": {"a->b": {}, "c->b": {}}}, f"c->b: {LOST}"),
    ],
    ids=["no leader, and its cluster answers", "a missing right", "a cluster that goes away, and a goal"],
)
@on_loop
async def test_what_is_not_waited_for_at_a_start_ends_the_run_and_is_named(
    played, failure, answers, options, message
):
    scene = played(**options)
    run = scene.runs["c->b"]
    run.failures["take"], run.answers = [failure], answers
    with pytest.raises(UnreachableError) as raised:
        await asyncio.wait_for(scene.engine.run(), 2)
    assert (raised.value.message, raised.value.exit_code, run.closed) == (message, 9, False)


@on_loop
async def test_a_lease_that_was_lost_while_others_were_taken_is_waited_for_before_anything_is_claimed(played):
    scene = played()
    run = scene.runs["c->b"]

    async def join_and_lose(**options):
        await Run.join(run, **options)
        run.life.happen(FlowEvent.LEASE_LOST)

    run.join = join_and_lose
    async with scene.running():
        await until(scene.flows.ready.is_set)
    assert run.did[2:5] == ["again", "matches", "take"]


@pytest.mark.parametrize(
    "lost", [ClaimLostError("another mmtool claimed it"), FencedError("shard 1"), InDoubtError("offset runs")]
)
@on_loop
async def test_a_claim_that_is_lost_to_an_earlier_try_of_our_own_is_made_again_at_a_start_as_well(
    played, lost
):
    """The lease is ours: nobody else runs the flow, so it is no 10, and no defect either."""
    scene = played()
    run = scene.runs["c->b"]
    run.failures["take"] = [lost]
    async with scene.running():
        await until(scene.flows.ready.is_set)
    assert (run.did.count("take"), run.closed) == (2, True)
    assert scene.said[-1] == "c->b: owner of the flow; 0 partitions to mirror"


@on_loop
async def test_a_lease_that_is_lost_ends_nothing_until_it_is_given_up(played):
    scene = played()
    run = scene.runs["c->b"]
    async with scene.running():
        await until(scene.flows.ready.is_set)
        run.life.happen(FlowEvent.LEASE_LOST)
        await asyncio.sleep(0.05)
        kept = scene.engine._must_stop(), "again" in run.did
        run.life.happen(FlowEvent.GIVE_UP)
        await until(lambda: "take in doubt" in run.did)
    assert (kept, scene.said[-1]) == ((False, False), "c->b: lost ownership; reacquiring")


@pytest.mark.parametrize(
    ("where", "closed", "options"),
    [
        ("meet", (False, None), {}),
        ("matches", (False, False), {"until_caught_up": True}),
        ("take", (False, False), {}),
        ("goal", (True, True), {"until_caught_up": True}),
        ("refresh", (True, True), {}),
        ("renew", (True, False), {}),
    ],
)
@on_loop
async def test_a_stop_is_heard_wherever_a_cluster_keeps_silent(played, where, closed, options):
    """Shards stay open on record where it is not known what the target was told last."""
    scene = played(**options)
    other, run = scene.runs.values()
    run.hangs_at, run.to_mirror = where, ["a load"] if where == "renew" else []
    task = asyncio.create_task(scene.engine.run())
    await until(lambda: where in run.did)
    await asyncio.sleep(0.01)
    scene.flows.stop.set()
    await asyncio.wait_for(task, 1)
    assert (other.closed, run.closed) == closed
