"""Flows that cannot start yet, beside others that run."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.replication.driver import waiting_flows as latecomers
from mmtool.replication.driver.waiting_flows import DeferredFlows

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
        late = DeferredFlows(begin, said.append)
        flows = [SimpleNamespace(name="a->b"), SimpleNamespace(name="c->d")]
        late.sort(flows, [AWAY, SimpleNamespace()], has_goal=False)
        for _ in range(400):
            if not late.flows or len(tried) > 20:
                break
            await asyncio.sleep(0.001)
        await late.stop()
        return set(late.flows)

    return said, tried, asyncio.run(scene())


def test_it_begins_once_its_clusters_answer():
    said, tried, left = played([AWAY, ConnectionLostError("gone again"), None])
    (told,) = said
    assert told.startswith("a->b: cluster east does not answer; this flow starts when")
    assert (len(tried), left) == (3, set())


@pytest.mark.parametrize("kind", [NotAuthorisedError, UnsupportedByBrokerError, KeyError])
def test_what_else_keeps_it_is_said_once_and_tried_again(kind):
    """Whatever that is: nobody else would try."""
    error = kind("DESCRIBE is denied")
    said, tried, left = played([error])
    assert said[1:] == [f"a->b: cannot start yet: {error}; mmtool retries every 0.001 s"]
    assert (len(tried) > 5, left) == (True, {"a->b"})


FAILED_OVER = RefusedError("flow a->b is not mirrored", remedy="release it", code="failed_over")
FLOWS = [SimpleNamespace(name="a->b"), SimpleNamespace(name="b->a")]
BEGUN = SimpleNamespace()


def sorted_out(found, *, has_goal=False):
    """What was said, who is expected, and who was left out because it has failed over."""

    async def scene():
        said = []
        late = DeferredFlows(lambda _: asyncio.sleep(9), said.append)
        late.sort(FLOWS, found, has_goal=has_goal)
        await late.stop()
        return said, set(late.flows), set(late.failed_over)

    return asyncio.run(scene())


@pytest.mark.parametrize(("has_goal", "expected"), [(False, {"a->b"}), (True, set())])
def test_a_flow_that_has_failed_over_keeps_no_other_one_back(has_goal, expected):
    """The way back has to run while it has; a release lets it begin, and a run that ends by itself waits for none."""
    said, late, left_out = sorted_out([FAILED_OVER, BEGUN], has_goal=has_goal)
    assert said == ["flow a->b is not mirrored; release it; starting the other flows"]
    assert (late, left_out) == (expected, {"a->b"})


def test_nothing_begins_where_everything_has_failed_over():
    with pytest.raises(RefusedError) as raised:
        sorted_out([FAILED_OVER, FAILED_OVER])
    assert raised.value.code == "failed_over"


def test_a_run_with_a_goal_does_not_begin_without_a_flow_whose_cluster_is_away():
    with pytest.raises(UnreachableError):
        sorted_out([AWAY, BEGUN], has_goal=True)


def test_a_flow_begins_when_its_mark_is_released():
    said, tried, left = played([FAILED_OVER, FAILED_OVER, None])
    (told,) = said[1:]
    assert told.startswith("a->b: cannot start yet: flow a->b is not mirrored; release it; ")
    assert (len(tried), left) == (3, set())
