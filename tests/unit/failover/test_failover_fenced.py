"""A planned move of which producers are a part: fenced, watched, drained to the end; or everything is as it was."""

import signal
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from kit.clusters import FakeCluster
from kit.operations import KilledError, lines_of
from kit.scene import Scene
from mmtool.config import load_settings
from mmtool.errors import GateError, RefusedError, UnreachableError
from mmtool.failover.modes.cutover import Clock
from mmtool.failover.modes.planned_mode import execute, rehearse
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import rehearse_taking_back, roll_forward, take_back
from mmtool.failover.operation.states import Event
from mmtool.failover.report.report import ended_row, next_steps, rehearsed_row, reverse_lines
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.steps import ORDER, Mode, order_of
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.plan.records.identity import FlowIdentity
from mmtool.replication.ownership.limits import refuse_conflicts
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
PLACE = TopicPartition("orders", 0)
REMOTE = TopicPartition("east.orders", 0)
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
    def run(kind=FenceKind.ACL, *, drain=None, fence=None, **patience):
        port = SimpleNamespace(drain=drain) if drain else scene
        rehearsal = rehearse(scene.look(), APP, fence=fence or scene.fence(kind))
        assert rehearsal.refusal is None
        context, journalist = scene.context(rehearsal)
        return execute(rehearsal, port, context, journalist, **patience)

    return run


def found(scene):
    (one,) = recorded(scene.journal.entries())
    return one


def states(ended):
    return {step["name"]: step["state"] for step in ended_row(ended)["steps"]}


def after_drain(scene, then):
    """A drain, and what somebody does behind it."""

    def drain(flow, until, timeout_seconds):
        scene.drain(flow, until, timeout_seconds)
        then()

    return drain


def written_by(scene, principal, count=3):
    assert scene.fences.produce(principal, PLACE, 7, count) == ""


def test_the_steps_of_a_fence_stand_before_the_drain_and_only_where_one_is_asked_for():
    fenced, plain = order_of(Mode.PLANNED, FenceKind.ACL), order_of(Mode.PLANNED)
    assert (plain, [name for name in fenced if name in plain]) == (ORDER[Mode.PLANNED], list(plain))
    assert fenced[:5] == ("check_groups", "fence", "await_transactions", "watch_ends", "drain")


def test_a_rehearsal_says_who_is_denied_what_and_denies_nobody(scene):
    row = rehearsed_row(rehearse(scene.look(), APP, fence=scene.fence()))
    said = next(step["sentence"] for step in row["steps"] if step["name"] == "fence")
    assert (
        said
        == "on east, deny WRITE to User:alice on orders (the topics of east->west in which app has commits)"
    )
    assert (scene.fences.rules, scene.drained) == ({MAY}, [])


def test_only_topics_that_the_groups_have_commits_for_are_fenced(scene):
    scene.has("orders-2", 10)
    scene.may_write("alice", "orders-2")
    assert rehearse(scene.look(), APP, fence=scene.fence()).plan.fence.denies == (FENCE,)


def test_producers_are_denied_and_everything_is_moved(scene, ran):
    row = ended_row(ran())
    assert (scene.fences.rules, row["state"]) == ({MAY, FENCE}, "completed")
    assert (row["rpo_records"], row["reread_records"], row["diverged_records"]) == (0, 0, 0)
    assert scene.fences.produce("User:alice", PLACE, 7) == "TOPIC_AUTHORIZATION_FAILED"
    assert scene.target.groups.committed["app"] == {REMOTE: Commit(50)}


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


def test_where_the_source_stood_still_is_on_record(scene, ran):
    ran()
    assert found(scene).operation.plan.fence.ends == {PLACE: 100}


def test_somebody_else_at_work_keeps_the_fence_down(scene, ran):
    scene.lock.failure = GateError("somebody else")
    assert (ran().operation.error.exit_code, scene.fences.rules) == (4, {MAY})


def test_who_still_writes_is_named_and_the_fence_is_taken_back(scene):
    """A super user, whom no rule holds."""
    pauses = count(1)
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    context, journalist = scene.context(rehearsal)

    def pause(_seconds):
        if next(pauses) % 3 == 0:
            written_by(scene, "User:boss", 1)

    ended = execute(rehearsal, scene, replace(context, clock=Clock(pause=pause)), journalist)
    error = ended.operation.error
    assert (error.exit_code, error.code) == (4, "stray_producers")
    assert "1 record in orders-0 (by producer id 7)" in error.message
    assert (scene.fences.rules, states(ended)["fence"], scene.drained) == ({MAY}, "undone", [])
    assert not found(scene).fence_stands


def test_a_transaction_that_does_not_end_is_listed_and_the_fence_is_taken_back(scene, ran):
    scene.fences.begin("User:alice", PLACE, "alice-tx")
    ended = ran(timeout_seconds=0.01)
    assert (ended.operation.error.exit_code, ended.operation.error.code) == (4, "open_transactions")
    assert ("alice-tx" in ended.operation.error.message, scene.fences.rules) == (True, {MAY})


def test_a_transaction_that_ends_is_waited_for(scene, ran):
    scene.fences.after_create = scene.fences.begin("User:alice", PLACE, "alice-tx")
    assert (ran().operation.error, scene.drained) == (None, [{PLACE: 102}])


def test_records_that_come_behind_the_fence_are_seven_and_told(scene, ran):
    ended = ran(drain=after_drain(scene, lambda: written_by(scene, "User:boss")))
    row = ended_row(ended)
    assert (ended.operation.error.exit_code, ended.operation.error.code) == (7, "past_the_fence")
    assert ("3 records in orders-0" in ended.operation.error.message, row["diverged_records"]) == (True, 3)
    assert (row["point_of_no_return_passed"], scene.fences.rules) == (True, {MAY, FENCE})


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_anything_is_written_lowers_the_fence(scene, ran, signum, code):
    ended = ran(drain=lambda *_: signal.raise_signal(signum))
    assert (ended.operation.error.exit_code, scene.fences.rules) == (code, {MAY})


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


def test_a_failure_before_anything_is_written_lowers_the_fence(scene, ran):
    def too_long(*_):
        raise GateError("not drained")

    ended = ran(drain=too_long)
    assert (states(ended)["fence"], scene.fences.rules, found(scene).fence_stands) == ("undone", {MAY}, False)


def test_a_write_that_is_refused_whole_lowers_the_fence(scene, ran):
    scene.target.groups.denied = {REMOTE}
    ended = ran()
    assert (ended.operation.error.exit_code, scene.fences.rules) == (3, {MAY})


def test_a_refusal_behind_the_write_leaves_the_fence_up_for_groups_that_have_moved(scene, ran):
    """A control topic that cannot be made while a broker is down, as a flow has none that MirrorMaker 2 ran."""
    scene.marks.failure = RefusedError("west refuses to create the control topic: INVALID_REPLICATION_FACTOR")
    ended = ran()
    row = ended_row(ended)
    assert (ended.operation.error.exit_code, row["point_of_no_return_passed"]) == (6, True)
    assert (states(ended)["fence"], scene.fences.rules) == ("done", {MAY, FENCE})
    assert (scene.target.groups.committed["app"], found(scene).may(Event.CANCEL)) == (
        {REMOTE: Commit(50)},
        False,
    )


def test_a_fence_that_cannot_be_lowered_is_six_with_the_way_to_lower_it(scene, ran):
    scene.fences.undeletable = {FENCE}
    ended = ran(drain=lambda *_: signal.raise_signal(signal.SIGINT))
    error = ended.operation.error
    assert (error.exit_code, error.code, found(scene).fence_stands) == (6, "fence_left", True)
    assert "--topic orders --deny-principal User:alice" in error.remedy


def test_a_rule_that_somebody_else_made_is_left_alone(scene, ran):
    scene.fences.rules.add(FENCE)
    ran(drain=lambda *_: signal.raise_signal(signal.SIGINT))
    assert scene.fences.rules == {MAY, FENCE}


@pytest.mark.parametrize("kind", [FenceKind.ACL, FenceKind.WATCH])
def test_a_group_that_came_alive_is_refused_before_anybody_is_denied(scene, ran, kind):
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence(kind))
    scene.source.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    context, journalist = scene.context(rehearsal)
    ended = execute(rehearsal, scene, context, journalist)
    assert (ended.operation.error.code, scene.fences.rules) == ("active_on_source", {MAY})


def test_everything_that_forbids_a_fence_is_told(scene):
    scene.fences.may_alter = False
    scene.may_write("*", "orders")
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    told = [rehearsal.refusal, *rehearsal.further_refusals]
    assert (rehearsal.refusal.exit_code, rehearsal.plan.executable) == (3, False)
    assert "cannot create ACLs" in told[0].message
    assert [error.code for error in told[1:]] == ["everybody_may_write"]
    assert all("--fence" in error.remedy for error in told)


def test_a_cluster_without_an_authorizer_cannot_be_fenced(scene):
    scene.fences.rules = None
    assert rehearse(scene.look(), APP, fence=scene.fence()).refusal.code == "no_authorizer"


def test_watched_alone_nobody_is_denied_and_the_move_is_proven_all_the_same(scene, ran):
    scene.fences.rules = None
    row = ended_row(ran(FenceKind.WATCH))
    assert (row["state"], row["rpo_records"], row["diverged_records"]) == ("completed", 0, 0)


def test_watched_alone_a_producer_that_was_not_stopped_is_found(scene, ran):
    ended = ran(FenceKind.WATCH, drain=after_drain(scene, lambda: written_by(scene, "User:alice")))
    assert ended.operation.error.exit_code == 7


def test_the_next_steps_start_producers_and_say_how_the_fence_comes_down(ran):
    ended = ran()
    said = lines_of(next_steps(ended))
    operation_id = ended.operation.plan.operation_id
    assert "start the producers of orders with bootstrap.servers=west-1:9092" in said
    assert (
        "kafka-acls.sh --bootstrap-server east-1:9092 --remove --force --topic orders --deny-principal User:alice"
        " --deny-host '*' --operation Write"
    ) in said
    assert (
        "to restore the groups' previous offsets and lift the fence, before clients continue on west:" in said
    )
    assert f"mmtool failover rollback {operation_id} --execute" in said
    assert "keep `mmtool replicate` running" not in said


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
    context, journalist = scene.context(rehearsal)
    lines = reverse_lines(execute(rehearsal, scene, context, journalist))
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
    context, journalist = scene.context(rehearsal)
    assert reverse_lines(execute(rehearsal, scene, context, journalist)) == []


def on_record(scene, one):
    return Rehearsal(scene.settings, one.source_id, one.target_id, one.operation.plan)


def taken_back(scene, event):
    one = found(scene)
    identity = FlowIdentity(one.source_id, one.target_id, "east", "west")
    context, log = scene.context(on_record(scene, one), since=one)

    def rehearse():
        return rehearse_taking_back(one, event, scene.target, scene.state, identity, "bob@host-2", 0)

    return take_back(rehearse, context, log, scene.fence(since=one))


def test_a_rollback_lowers_the_fence(scene, ran):
    ran()
    assert taken_back(scene, Event.ROLL_BACK).question.endswith("lift the fence on east")
    assert (scene.fences.rules, found(scene).fence_stands, found(scene).state) == (
        {MAY},
        False,
        "rolled_back",
    )


def killed_while_raising(scene):
    """Some denies are made, and nobody is left to take them back."""

    def die(*_):
        raise KilledError

    scene.fences.after_create = die
    remove, scene.fences.remove = scene.fences.remove, die
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    context, journalist = scene.context(rehearsal)
    with pytest.raises(KilledError):
        execute(rehearsal, scene, context, journalist)
    scene.fences.after_create, scene.fences.remove = lambda: None, remove
    assert (scene.fences.rules, found(scene).fence_stands) == ({MAY, FENCE}, True)


def resumed(scene):
    one = found(scene)
    rehearsal = rehearse(scene.look(), APP, operation_id=one.operation_id, fence=scene.fence(since=one))
    context, log = scene.context(rehearsal, since=one)
    return execute(rehearsal, scene, context, log, since=one.operation.standing)


def test_killed_while_it_is_raised_the_fence_is_raised_again_and_is_still_ours(scene):
    killed_while_raising(scene)
    assert resumed(scene).operation.error is None
    assert found(scene).operation.plan.fence.denies == (FENCE,)
    taken_back(scene, Event.ROLL_BACK)
    assert scene.fences.rules == {MAY}


def test_killed_while_it_is_raised_a_cancel_takes_it_away(scene):
    killed_while_raising(scene)
    taken_back(scene, Event.CANCEL)
    assert (scene.fences.rules, found(scene).state) == ({MAY}, "cancelled")


def test_resumed_and_refused_at_once_the_fence_of_before_is_lowered(scene):
    killed_while_raising(scene)
    one = found(scene)
    rehearsal = rehearse(scene.look(), APP, operation_id=one.operation_id, fence=scene.fence(since=one))
    scene.source.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    context, log = scene.context(rehearsal, since=one)
    ended = execute(rehearsal, scene, context, log, since=one.operation.standing)
    assert (ended.operation.error.code, scene.fences.rules) == ("active_on_source", {MAY})
    assert not found(scene).fence_stands


def test_rules_that_changed_while_nobody_was_there_are_fenced_at_the_second_try(scene):
    killed_while_raising(scene)
    scene.may_write("bob", "orders")
    assert resumed(scene).operation.error.code == "fence_stale"
    assert not found(scene).fence_stands
    assert resumed(scene).operation.error is None
    assert {deny.principal for deny in found(scene).operation.plan.fence.denies} == {"User:alice", "User:bob"}


def test_a_fence_on_record_that_leaves_a_topic_out_is_refused(scene):
    killed_while_raising(scene)
    scene.has("orders-2", 10)
    scene.commits("app", "orders-2", 5)
    one = found(scene)
    refusal = rehearse(scene.look(), APP, fence=scene.fence(since=one)).refusal
    assert (refusal.code, "orders-2" in refusal.message) == ("fence_stale", True)


def killed_at_the_hand_over(scene):
    """Offsets are written, and a super user has got past the fence."""

    def die(_marks):
        raise KilledError

    write, scene.marks.write = scene.marks.write, die
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence())
    context, journalist = scene.context(rehearsal)
    with pytest.raises(KilledError):
        execute(rehearsal, scene, context, journalist)
    scene.marks.write = write
    written_by(scene, "User:boss")


def finished(scene):
    one = found(scene)
    context, log = scene.context(on_record(scene, one), since=one)
    return roll_forward(one, context, log, scene.fence(since=one))


def test_finished_forward_the_fence_is_proven_where_the_source_answers(scene):
    killed_at_the_hand_over(scene)
    operation, cutover = finished(scene)
    assert (operation.error.exit_code, cutover.figures.diverged_records) == (7, 3)


def test_who_has_been_told_what_came_behind_the_fence_can_end_the_operation(scene):
    killed_at_the_hand_over(scene)
    finished(scene)
    operation, cutover = finished(scene)
    assert (operation.error, found(scene).state, cutover.figures.diverged_records) == (None, "completed", 3)


def test_finished_forward_with_the_source_away_the_groups_arrive(scene, capsys):
    killed_at_the_hand_over(scene)
    scene.source.failure = UnreachableError("east is away")
    assert finished(scene)[0].error is None
    said = "mmtool does not know whether a producer wrote on east in spite of the fence: east is away"
    assert said in capsys.readouterr().err


@pytest.fixture
def hooked(scene, tmp_path):
    """The operator's own fence: what it is told is in a file, and it fails when it is asked to."""
    path = tmp_path / "fence.sh"
    path.write_text(
        f"#!/bin/sh\necho $MMTOOL_STEP $MMTOOL_ACTION $MMTOOL_TOPICS >> {tmp_path}/told\ntest ! -e {tmp_path}/fail\n"
    )
    path.chmod(0o755)
    scene.settings = scene.settings.model_copy(update={"hooks": {"fence": str(path)}})
    scene.state.stored.clear()  # a flow that never ran
    scene._shipped.clear()
    return lambda: (tmp_path / "told").read_text().splitlines()


def test_an_own_fence_is_run_and_told_the_topics(scene, ran, hooked):
    ended = ran(FenceKind.HOOK)
    assert (ended.operation.error, hooked(), scene.fences.rules) == (None, ["fence do orders"], {MAY})
    said = next(step["sentence"] for step in ended_row(ended)["steps"] if step["name"] == "fence")
    assert "run mmtool.hook.fence, which stops the producers of orders on east" in said
    assert said.endswith("fence.sh")
    assert ("; this hook is /" in said, "then run the hook" in said) == (True, False)
    assert "fence.sh raised on east stays" in lines_of(next_steps(ended))


def test_an_own_fence_is_told_to_undo_when_a_later_step_fails(scene, ran, hooked):
    ran(FenceKind.HOOK, drain=lambda *_: signal.raise_signal(signal.SIGINT))
    assert (hooked(), found(scene).fence_stands) == (["fence do orders", "fence undo orders"], False)


def test_an_own_fence_that_fails_ends_it_before_anything_is_mirrored(scene, ran, hooked, tmp_path):
    (tmp_path / "fail").touch()
    ended = ran(FenceKind.HOOK)
    assert (ended.operation.error.exit_code, ended.operation.error.code) == (6, "hook_failed")
    assert (scene.drained, hooked()) == ([], ["fence do orders", "fence undo orders"])


def test_an_own_fence_is_told_to_undo_by_a_rollback(scene, ran, hooked):
    ran(FenceKind.HOOK)
    taken_back(scene, Event.ROLL_BACK)
    assert hooked()[-1] == "fence undo orders"


def test_a_hook_of_the_fence_goes_with_rules_as_well(scene, ran, hooked):
    ran(drain=lambda *_: signal.raise_signal(signal.SIGINT))
    assert (hooked(), scene.fences.rules) == (["fence do orders", "fence undo orders"], {MAY})


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
    context, journalist = scene.context(rehearsal)
    assert execute(rehearsal, scene, context, journalist).operation.error is None
    assert scene.drained == [{PLACE: 100}]


def test_such_a_transaction_that_does_not_end_is_four_with_its_partition(scene, telling):
    rehearsal = rehearse(scene.look(), APP, fence=scene.fence(FenceKind.WATCH))
    telling(9)
    context, journalist = scene.context(rehearsal)
    error = execute(rehearsal, scene, context, journalist, timeout_seconds=0.01).operation.error
    assert (error.exit_code, error.code, "orders-0" in error.message) == (4, "open_transactions", True)


def test_an_operation_that_has_left_its_fence_behind_gives_way_to_no_other(scene, ran):
    scene.fences.undeletable = {FENCE}
    ran(drain=lambda *_: signal.raise_signal(signal.SIGINT))
    scene.fences.undeletable = set()
    assert ran().operation.error.code == "open_operation"
    assert scene.fences.rules == {MAY, FENCE}


def test_one_that_has_lowered_it_does(scene, ran):
    ran(drain=lambda *_: signal.raise_signal(signal.SIGINT))
    assert (ran().operation.error, scene.fences.rules) == (None, {MAY, FENCE})
