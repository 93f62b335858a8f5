"""Shares of a throttle are told when they have changed, and again when the target did not take them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import UnreachableError
from mmtool.plan.records.documents import UseRecord
from mmtool.replication.driver import slot_watch as throttling
from mmtool.replication.driver.slot_watch import Throttling

FLOW = "src-tgt"
ROUND = 3


class Run(SimpleNamespace):
    """A flow without prefills."""

    @property
    def worker_rate(self):
        return self.flow.settings.throttle_bytes_per_second


class Scene:
    """One flow in two tasks that begin with 300 and 700 bytes per second, and a clock."""

    def __init__(self, monkeypatch, rate=1000, shares=(300.0, 700.0)):
        self.now = 100.0
        self.written = []
        self.away = False
        monkeypatch.setattr(throttling.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(throttling, "write_documents", self._write)
        identity = SimpleNamespace(flow=FLOW, control_topic="control")
        settings = SimpleNamespace(throttle_bytes_per_second=rate)
        self.run = Run(
            owner="me",
            flow=SimpleNamespace(identity=identity, settings=settings),
            watch=SimpleNamespace(uses={}),
        )
        tasks = [
            SimpleNamespace(index=n, flows=[SimpleNamespace(identity=identity, bytes_per_second=share)])
            for n, share in enumerate(shares)
        ]
        self.throttling = Throttling(ROUND, [self.run], tasks)

    async def _write(self, flow, topic, documents):
        if self.away:
            raise UnreachableError("away")
        self.written += documents

    def uses(self, *used, of_round=ROUND):
        for task, (count, is_all) in enumerate(used):
            self.run.watch.uses[task] = UseRecord("me", of_round, task, count, is_all)

    def after(self, seconds):
        """The news then, told."""
        self.now += seconds
        news = self.throttling.news()
        if news:
            asyncio.run(self.throttling.tell(news))
        return news.get(FLOW)


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_what_the_last_round_carried_counts_until_the_tasks_have_spoken(scene):
    assert scene.after(0) is None
    scene.uses((300, True), (700, True), of_round=ROUND - 1)
    assert scene.after(1) is None
    scene.uses((300, True), (700, True))
    assert scene.after(1) == {0: 500, 1: 500}


def test_a_task_that_does_not_run_gives_its_share_away(scene):
    scene.uses((300, True))
    assert scene.after(2) is None
    told = scene.after(2)
    assert told[0] > 980
    assert 0 < told[1] < 20


def test_another_rate_is_told_at_once_also_the_first_and_none(scene):
    scene.run.flow.settings.throttle_bytes_per_second = 1020
    assert sum(scene.after(1).values()) == pytest.approx(1020)
    scene.run.flow.settings.throttle_bytes_per_second = None
    assert scene.after(1) == {0: None, 1: None}
    assert scene.after(1) is None
    scene.run.flow.settings.throttle_bytes_per_second = 500
    assert scene.after(1) == {0: 250, 1: 250}
    assert [record.shares for record in scene.written[1:]] == [{"0": None, "1": None}, {"0": 250, "1": 250}]


def test_what_the_target_did_not_take_is_told_again(scene):
    scene.run.flow.settings.throttle_bytes_per_second = 400
    scene.away = True
    first = scene.after(1)
    scene.away = False
    assert (scene.after(1), len(scene.written)) == (first, 1)


def test_no_share_is_told_as_none_at_all(monkeypatch):
    scene = Scene(monkeypatch, rate=1, shares=(1e9, 1e9))
    scene.after(1)
    assert scene.written[0].shares == {"0": 1, "1": 1}


def test_a_flow_without_a_throttle_is_not_spoken_of(monkeypatch):
    scene = Scene(monkeypatch, rate=None, shares=(None, None))
    assert [scene.after(1) for _ in range(5)] == [None] * 5
