"""A planned move of which producers are a part: fenced, watched, drained to the end; or everything is as it was."""

import signal
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from kit.clusters import FakeCluster
from kit.scene import Scene
from mmtool.config import load_settings
from mmtool.errors import RefusedError
from mmtool.failover.modes.cutover import Clock
from mmtool.failover.modes.planned_mode import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.operation_row import ended_row
from mmtool.failover.report.report import reverse_lines
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.groups.facts import GroupSelection
from mmtool.replication.ownership.limits import refuse_conflicts
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
PLACE = TopicPartition("orders", 0)
MAY = Binding("orders", "LITERAL", "User:alice", "*", "WRITE", "ALLOW")
FENCE = MAY._replace(permission="DENY")


@pytest.fixture
def scene(tmp_path):
    """``app`` has read 50 of 100 records that alice may write; 60 are mirrored."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    made.commits("app", "orders", 50)
    made.may_write("alice", "orders")
    return made


@pytest.fixture
def ran(scene):
    def run(kind=FenceKind.ACL, *, drain=None, patience=None):
        port = SimpleNamespace(drain=drain) if drain else scene
        rehearsal = rehearse(scene.look(), APP, fence=scene.fence(kind))
        return execute(rehearsal, replace(scene.context(rehearsal), drain=port, drain_seconds=patience))

    return run


def found(scene):
    (one,) = recorded(scene.journal.entries())
    return one


def test_what_was_let_in_just_before_the_fence_is_moved_as_well(scene, ran):
    scene.fences.after_create = lambda: scene.source.logs.update({PLACE: Bounds(0, 105)})
    ended = ran()
    assert (scene.drained, ended_row(ended)["rpo_records"]) == ([{PLACE: 105}], 0)


def test_what_is_going_to_be_denied_is_on_record_before(scene, ran):
    seen = []
    scene.fences.after_create = lambda: seen.append(
        (found(scene).fence_stands, found(scene).operation.plan.fence.denies)
    )
    ran()
    assert seen == [(True, (FENCE,))]


def test_who_still_writes_is_named_and_the_fence_is_taken_back(scene):
    """A super user, whom no rule holds."""
    pauses = count(1)
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    context = scene.context(rehearsal)

    def pause(_seconds):
        if next(pauses) % 3 == 0:
            scene.fences.produce("User:boss", PLACE, 7)

    ended = execute(rehearsal, replace(context, clock=Clock(pause=pause)))
    error = ended.operation.error
    assert (error.exit_code, error.code) == (4, "stray_producers")
    assert "1 record in orders-0 (by producer id 7)" in error.message
    assert (scene.fences.rules, scene.drained) == ({MAY}, [])
    assert not found(scene).fence_stands


def test_a_transaction_that_ends_is_waited_for(scene, ran):
    scene.fences.after_create = scene.fences.begin("User:alice", PLACE, "alice-tx")
    assert (ran().operation.error, scene.drained) == (None, [{PLACE: 102}])


@pytest.mark.parametrize("word", ["failed", "undone", "ended"])
def test_a_second_ctrl_c_while_the_journal_is_slow_leaves_no_fence_behind(scene, ran, word):
    append = scene.journal.append

    def slowly(entries):
        if word in {entries[0].kind, entries[0].body.get("step_state")}:
            signal.raise_signal(signal.SIGINT)
        append(entries)

    scene.journal.append = slowly
    ended = ran(drain=lambda *_: signal.raise_signal(signal.SIGINT))
    assert (ended.operation.error.exit_code, found(scene).state, scene.fences.rules) == (130, "failed", {MAY})


@pytest.mark.parametrize(
    "naming",
    [
        "",
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n",
        "replication.policy.separator = _\n",
        "east->west.mmtool.topic.rename.format = ${topic}.${source}\n",
        "source.cluster.alias = site\ntarget.cluster.alias = dr\n",
        "east.alias = plant\n",
        "replication.policy.separator =\nsource.cluster.alias =\ntarget.cluster.alias =\n",
    ],
)
def test_the_reverse_flow_is_ready_for_the_same_file(tmp_path, naming):
    scene = Scene(tmp_path, naming)
    scene.has("orders", 100)
    scene.commits("app", "orders", 50)
    scene.may_write("alice", "orders")
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    lines = reverse_lines(execute(rehearsal, scene.context(rehearsal)))
    scene.config.write_text("\n".join([scene.config.read_text(), *lines]))
    settings = load_settings(scene.config, {})
    back = next(flow for flow in settings.flows if flow.name == "west->east")
    there = next(flow for flow in settings.flows if flow.name == "east->west")
    assert (settings.warnings, there.way_back) == ((), back.origins)
    assert [back.topics.accepts(name) for name in ("orders", "orders-2", "bills")] == [True, False, False]
    assert [back.groups.accepts(name) for name in ("app", "apples")] == [True, False]
    assert back.keeps_names == there.keeps_names
    refuse_conflicts(settings.flows)
    assert back.keeps_names or not back.mirrors_topic(there.remote_topic("orders"))


def test_a_reverse_flow_that_is_there_already_is_not_told(tmp_path):
    scene = Scene(tmp_path, "west->east.enabled = true\n")
    scene.has("orders", 100)
    scene.commits("app", "orders", 50)
    scene.may_write("alice", "orders")
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    assert reverse_lines(execute(rehearsal, scene.context(rehearsal))) == []


@pytest.fixture
def telling(scene, monkeypatch):
    """Who has a transaction open cannot be told; that there is one, the last stable offset tells."""
    stable = []

    def refuse(_places):
        raise RefusedError("brokers of east cannot list producers")

    def bounds(places, *, committed=False):
        ends = FakeCluster.bounds(scene.source, places)
        return {at: Bounds(0, stable.pop(0) if stable else 100) for at in ends} if committed else ends

    def begin(looks):
        stable.extend([90] * looks)
        monkeypatch.setattr(scene.source, "bounds", bounds)

    monkeypatch.setattr(scene.fences, "writers", refuse)
    monkeypatch.setattr(scene.fences, "open_transactions", refuse)
    return begin


def test_a_transaction_is_waited_for_where_nobody_can_tell_whose_it_is(scene, telling):
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence(FenceKind.WATCH))
    telling(3)
    assert execute(rehearsal, scene.context(rehearsal)).operation.error is None
    assert scene.drained == [{PLACE: 100}]


def test_such_a_transaction_that_does_not_end_is_four_with_its_partition(scene, telling):
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence(FenceKind.WATCH))
    telling(9)
    error = execute(rehearsal, replace(scene.context(rehearsal), drain_seconds=0.01)).operation.error
    assert (error.exit_code, error.code, "orders-0" in error.message) == (4, "open_transactions", True)
