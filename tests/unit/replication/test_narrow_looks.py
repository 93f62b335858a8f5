"""Who asks about some topics of a flow is answered though a partition of another topic has no leader."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kit.scene import Scene
from mmtool.errors import UnreachableError, UsageError
from mmtool.insight.flow_progress import copied_by_mm2, short_of
from mmtool.replication.flow_state import flow_moves
from mmtool.replication.flow_state.flow_moves import rehearse_forget, rehearse_seek
from mmtool.translation.types import TopicPartition, UpstreamOffset

ORDERS = TopicPartition("orders", 0)
BAD = UnreachableError("orders-other-0 has no leader")


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = Scene(tmp_path)
    made.has("orders", 10)
    made.has("orders-other", 5)
    made.source.unanswered[TopicPartition("orders-other", 0)] = BAD
    monkeypatch.setattr(flow_moves, "owner_now", lambda *_: None)
    return made


@pytest.fixture
def mirrored(scene):
    for topic, end in (("orders", 10), ("orders-other", 5)):
        scene.mirrored(topic, 0, [(0, 0, end)], end)
    return scene


def test_a_seek_of_some_partitions_is_rehearsed(mirrored):
    assert rehearse_seek(mirrored.look(), {ORDERS: UpstreamOffset(5)}).refusal is None


def test_a_forget_of_one_topic_is_rehearsed(mirrored, monkeypatch):
    asked = []

    async def starts(_, places, __):
        asked.extend(places)
        return dict.fromkeys(places, 0)

    monkeypatch.setattr(flow_moves, "ask_starts", starts)
    monkeypatch.setattr(flow_moves, "read_control", lambda *_: SimpleNamespace(positions={}))
    rows = rehearse_forget(mirrored.look(), ("orders",)).rows
    assert ([row.topic for row in rows], asked) == (["orders"], [ORDERS])


def test_a_forget_of_a_topic_that_the_flow_does_not_know_is_refused(mirrored, monkeypatch):
    monkeypatch.setattr(flow_moves, "read_control", lambda *_: SimpleNamespace(positions={}))

    async def starts(_, places, __):
        return dict.fromkeys(places, 0)

    monkeypatch.setattr(flow_moves, "ask_starts", starts)
    with pytest.raises(UsageError) as caught:
        rehearse_forget(mirrored.look(), ("nope", "order"))
    assert caught.value.message == (
        "east->west neither mirrors nor has stored state of nope, order; did you mean orders?"
    )
    assert caught.value.remedy == "name topics that `mmtool status -c FILE -s east -t west` shows"


def test_of_what_mirror_maker_has_to_copy_no_log_of_another_topic_is_asked_for(scene, monkeypatch):
    """A log whose leader is away is waited for until the time is up, at each look."""
    scene.mirrored_by_mm2("orders", 0, 10, (0, 0), (10, 10))
    asked, goal = set(), {ORDERS: UpstreamOffset(10)}
    for cluster in (scene.source, scene.target):
        monkeypatch.setattr(cluster, "bounds_each", noted(cluster.bounds_each, asked))
    assert short_of(scene.look(), goal) == 0
    assert copied_by_mm2(scene.look(), goal) == goal
    assert asked == {"orders", "east.orders"}


def noted(ask, asked):
    def bounds_each(places, *, committed=False):
        asked.update(place.topic for place in places)
        return ask(places, committed=committed)

    return bounds_each
