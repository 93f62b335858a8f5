"""What the driver does from its first look at the clusters to its first rounds, and how it ends; clusters are fakes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from mmtool.config import load_settings
from mmtool.config.changes import compare
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.replication import engine as driver
from mmtool.replication import latecomers, regaining
from mmtool.replication.engine import Engine
from mmtool.replication.mirror_topics import TopicsView
from mmtool.replication.run_options import RunOptions

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
    monkeypatch.setattr(latecomers, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(regaining, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(driver, "_IDLE_SECONDS", 0.01)


class Run:
    """As much of a flow as the driver touches. What is in ``failures`` is raised, one at a time, by who asks for it."""

    def __init__(self, settings):
        self.name, self.flow = settings.name, SimpleNamespace(settings=settings)
        self.ownership = SimpleNamespace(lost=asyncio.Event(), again=self._done("again"))
        self.standing = SimpleNamespace(shards={})
        self.watch = SimpleNamespace(news=[])
        self.view, self.warnings = TopicsView(matched=1), []
        self.is_away = self.wants_look = False
        self.joined = asyncio.Event()
        self.joined.set()
        self.did, self.failures, self.closed = [], {}, None

    def _done(self, what):
        async def do():
            self.did.append(what)
            for failure in self.failures.get(what, [])[:1]:
                self.failures[what].pop(0)
                raise failure

        return do

    async def join(self, *, standby, say):
        self.did.append("join")
        await self.joined.wait()

    async def matches(self):
        await self._done("matches")()
        return True

    async def take_to_mirror(self, *, in_doubt=False):
        await self._done("take in doubt" if in_doubt else "take")()

    async def refresh(self):
        await self._done("refresh")()
        return False

    async def adopt(self, settings):
        self.flow.settings = settings

    async def close(self, *, clean):
        self.closed = clean and not self.is_away

    def partitions(self):
        return []

    def loads(self):
        return []


class Duty:
    """Counts its turns, and knows the settings that it was made with."""

    name, seconds, closing = "counting", 0.001, False

    def __init__(self, run):
        self.interval, self.turns = run.flow.settings.sync_group_offsets_interval_seconds, 0

    async def perform(self):
        self.turns += 1


class Scene:
    """A driver of the flows of a file."""

    def __init__(self, path, monkeypatch, **options):
        self.path, self.said, self.duties, self.met = path, [], [], {}
        monkeypatch.setattr(driver, "FlowRun", Run)
        monkeypatch.setattr(driver, "duties_of", self._duties_of)
        monkeypatch.setattr(Engine, "_meet", self._meet)
        monkeypatch.setattr(Engine, "_open_spark", lambda _: SimpleNamespace(stop=lambda: None))
        self.runs = {flow.name: Run(flow) for flow in self.load()}
        self.engine = Engine(
            self.load(), RunOptions(**options), asyncio.Event(), lambda _: None, self.said.append
        )

    def load(self, more=""):
        self.path.write_text(FILE + more)
        return load_settings(self.path, {}).flows

    async def _meet(self, flow):
        run = self.runs[flow.name]
        run.flow.settings = flow
        await run._done("meet")()
        return run

    def _duties_of(self, run, *_):
        self.duties.append(Duty(run))
        return [self.duties[-1]]

    async def reload(self, more):
        new = {flow.name: flow for flow in self.load(more)}
        running = self.engine.settings
        await self.engine.adopt({flow.name: compare(flow, new[flow.name]) for flow in running}, ())

    @asynccontextmanager
    async def running(self):
        """The driver, until the end of the block."""
        task = asyncio.create_task(self.engine.run())
        try:
            yield task
        finally:
            self.engine.stop.set()
            await asyncio.wait_for(task, 2)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """What ``play`` makes of a scene."""

    def start(play, **options):
        async def scene():
            return await play(Scene(tmp_path / "mm2.properties", monkeypatch, **options))

        return asyncio.run(scene())

    return start


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never came to that")


def test_a_spark_that_dies_while_it_starts_is_told_in_one_line_with_the_remedy():
    async def scene():
        engine = Engine([], RunOptions(), asyncio.Event(), lambda _: None, lambda _: None)
        starting = asyncio.get_running_loop().create_future()
        starting.set_exception(ConnectionRefusedError(111, "Connection refused"))
        await engine._up(starting)

    with pytest.raises(MmtoolError, match=r"Spark did not start: .*Connection refused") as raised:
        asyncio.run(scene())
    assert "run the same command again" in str(raised.value.remedy)


def test_a_flow_that_begins_while_others_are_waited_for_is_taken_once_and_its_duties_end_with_it(played):
    """A second claim leaves a marker in each mirror, and duties that nobody can end commit for who is away."""

    async def play(scene):
        other, late = scene.runs.values()
        late.failures["meet"] = [AWAY]
        other.joined.clear()
        async with scene.running():
            await until(lambda: late in scene.engine.runs)
            other.joined.set()
            await until(scene.engine.ready.is_set)
        turns = [duty.turns for duty in scene.duties]
        await asyncio.sleep(0.02)
        return late.did.count("take"), [duty.turns for duty in scene.duties] == turns

    assert played(play) == (1, True)


def test_a_file_that_changes_while_a_flow_is_just_beginning_reaches_it(played):
    """It is in no list meanwhile, and every later look at the file finds nothing that has changed."""

    async def play(scene):
        _, late = scene.runs.values()
        late.failures["meet"] = [AWAY]
        late.joined.clear()
        async with scene.running():
            await until(lambda: "join" in late.did)
            await scene.reload("c->b.sync.group.offsets.interval.seconds = 77\n")
            late.joined.set()
            await until(lambda: late in scene.engine.runs)
        return late.flow.settings.sync_group_offsets_interval_seconds, scene.duties[-1].interval

    assert played(play) == (77, 77)
