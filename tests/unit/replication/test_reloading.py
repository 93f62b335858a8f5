"""A changed file is taken over once, refused once, and never ends what runs."""

import asyncio
import errno
from pathlib import Path

import pytest

from kit.wire import on_loop
from mmtool.config import load_settings
from mmtool.config.live import Chosen, LiveFile
from mmtool.errors import ConfigError
from mmtool.replication.driver.reload import Reloader

BASE = """
clusters = a, b, c
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
c.bootstrap.servers = localhost:3
a->b.enabled = true
"""


class Engine:
    """As much of an engine as the reloader knows."""

    def __init__(self, chosen):
        self.settings, self.heartbeats_only = chosen.flows, chosen.heartbeats_only
        self.ready = asyncio.Event()
        self.ready.set()
        self.adopted = 0

    async def adopt(self, changes, heartbeats_only):
        self.settings = [changes[flow.name].settings for flow in self.settings]
        self.heartbeats_only = heartbeats_only
        self.adopted += any(c.applied for c in changes.values())


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path / "mm2.properties")


class Scene:
    def __init__(self, path):
        self.path = path
        self.write("")
        self.engine = Engine(self.load())
        self.said, self.warned = [], []
        self.reloader = Reloader(LiveFile(path, self.load), self.engine, self.said.append, self.warned.append)

    def write(self, more):
        self.path.write_text(BASE + more)

    def load(self):
        settings = load_settings(self.path, {})
        return Chosen(settings.flows, settings.heartbeats_only)

    def reload(self, more, *, asked=False):
        self.write(more)
        asyncio.run(self.reloader._reload(asked=asked))

    @property
    def flow(self):
        return self.engine.settings[0]

    @property
    def beating(self):
        return [pair.name for pair in self.engine.heartbeats_only]


def test_what_was_applied_is_said_in_one_line(scene):
    scene.reload("topics = orders\nmmtool.throttle.bytes.per.second = 5000")
    assert scene.said == [f"{scene.path} reloaded: changed in a->b: topics, mmtool.throttle.bytes.per.second"]
    assert (scene.flow.topics.include, scene.flow.throttle_bytes_per_second) == (("orders",), 5000)


def test_a_file_that_says_the_same_is_no_news_unless_somebody_asks(scene):
    scene.reload("# a comment")
    assert scene.said == []
    scene.reload("# another one", asked=True)
    assert scene.said == [f"{scene.path} reloaded: no change for the running flows"]
    assert scene.engine.adopted == 0


def test_a_file_that_cannot_be_used_is_said_once_in_one_line_and_nothing_changes(scene):
    for _ in range(3):
        scene.reload("topics = (\nmmtool.shards = many")
    (warned,) = scene.warned
    assert warned.startswith(f"{scene.path}:7: topics = (: expected")
    assert f"; the file has 1 more error: `mmtool config check -c {scene.path}` lists" in warned
    assert warned.endswith("; the old configuration stays in force")
    assert scene.flow.topics.include == (".*",)

    scene.reload("topics = (\nmmtool.shards = many", asked=True)
    assert scene.warned == [warned, warned]
    scene.reload("")
    scene.reload("topics = (\nmmtool.shards = many")
    assert scene.said == [f"{scene.path} reloaded: no change for the running flows"]
    assert scene.warned == [warned] * 3


def test_whatever_happens_while_a_file_is_read_the_flow_goes_on(scene):
    def fails():
        raise ValueError("hush")

    scene.reloader.file = LiveFile(scene.path, fails)
    scene.reload("")
    assert scene.warned == [f"{scene.path}: ValueError; the old configuration stays in force"]


def test_a_file_without_the_flow_leaves_it_as_it_is(scene):
    scene.path.write_text(BASE.replace("a->b", "b->c"))
    asyncio.run(scene.reloader._reload(asked=False))
    new, gone = "flow b->c is new: it starts at", "flow a->b is no longer enabled: it runs until"
    then = "the next start of `mmtool replicate`"
    assert scene.warned == [f"{scene.path}: {new} {then}; {gone} {then}"]
    assert scene.flow.name == "a->b"


def test_what_waits_for_the_next_start_is_named_once_and_without_its_value(scene):
    sasl = "a.security.protocol = SASL_SSL\na.sasl.mechanism = PLAIN\na.sasl.username = u\n"
    for _ in range(2):
        scene.reload(f"{sasl}a.sasl.password = hush\nmmtool.shards = 5")
    security = "a->b: the next start of `mmtool replicate` applies the changes of a.security.protocol"
    shards = "a->b: mmtool.shards cannot change after the flow's first start"
    (warned,) = scene.warned
    assert warned.startswith(f"{scene.path}: {security}; {shards}: ")


def test_pairs_that_only_beat_follow_the_file(scene):
    assert scene.beating == ["a->c", "b->a", "b->c", "c->a", "c->b"]
    scene.reload("b->a.emit.heartbeats.enabled = false\nc->a.enabled = true")
    assert scene.beating == ["a->c", "b->c", "c->b", "c->a"]  # c->a goes on until it is started as a flow


@on_loop
async def test_nothing_is_read_before_the_flow_is_owned_and_then_at_once_when_asked(scene):
    scene.engine.ready.clear()
    task = asyncio.create_task(scene.reloader.run())
    scene.write("topics = orders")
    scene.reloader.asked.set()
    await asyncio.sleep(0.1)
    before = scene.engine.adopted
    said, scene.reloader.say = asyncio.Event(), lambda sentence: said.set()
    scene.engine.ready.set()
    await asyncio.wait_for(said.wait(), 5)
    task.cancel()
    assert before == 0
    assert scene.engine.adopted == 1


def test_a_file_is_found_missing_by_its_error(scene):
    scene.path.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        scene.load()
    asyncio.run(scene.reloader._reload(asked=False))
    assert scene.warned == [f"{scene.path}: no such file; the old configuration stays in force"]


@pytest.mark.long
@on_loop
async def test_a_file_that_cannot_be_looked_at_for_a_while_is_read_again_afterwards(scene, monkeypatch):
    """As on a network disk that is away: the watch outlives it."""
    looked, away = Path.stat, [True]

    def stat(path, **how):
        if away and path == scene.path:
            raise OSError(errno.ESTALE, "Stale file handle")
        return looked(path, **how)

    warned, said = asyncio.Event(), asyncio.Event()
    scene.reloader.warn, scene.reloader.say = lambda _: warned.set(), lambda _: said.set()
    monkeypatch.setattr(Path, "stat", stat)
    scene.reloader.file = LiveFile(scene.path, lambda: stat(scene.path) and scene.load())
    task = asyncio.create_task(scene.reloader.run())
    await asyncio.sleep(0.1)
    scene.reloader.asked.set()
    await asyncio.wait_for(warned.wait(), 5)
    away.clear()
    scene.write("topics = orders")
    await asyncio.wait_for(said.wait(), 5)
    task.cancel()
    assert scene.flow.topics.include == ("orders",)


def test_whatever_happens_while_settings_are_taken_over_later_ones_are_heard_of(scene, monkeypatch):
    async def fails(*_):
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(scene.engine, "adopt", fails)
        scene.reload("topics = orders")
    said = "was applied in part (TimeoutError): restart `mmtool replicate` to apply the rest"
    assert scene.warned == [f"{scene.path} {said}"]
    scene.reload("topics = orders", asked=True)
    assert scene.flow.topics.include == ("orders",)
