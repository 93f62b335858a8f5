"""Minutes may pass between a question and its answer, and seconds until the lock is had: what came then counts."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.operations import heard
from kit.scene import all_mirrored
from mmtool.errors import MmtoolError, OwnedElsewhereError, PartlyAppliedError, RefusedError, UnreachableError
from mmtool.failover.commits import write as writing
from mmtool.failover.modes import emergency
from mmtool.failover.operation.marks import rehearse_release, release_marks
from mmtool.failover.operation.operation import Operation, StepState
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import roll_forward, take_back
from mmtool.failover.operation.states import OperationState, Trigger
from mmtool.plan.failover.steps import StepName
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.long

REMOTE = TopicPartition("east.orders", 0)


@pytest.fixture
def scene(tmp_path):
    """``app`` and ``late`` read ``orders``, whose 60 records are mirrored; ``app`` has a commit on the target."""
    made = all_mirrored(tmp_path)
    made.commits("app", "east.orders", 7, cluster=made.target)
    return made


def failed_over(scene, group, *, ahead=0.0):
    """An emergency of one group, completed; its name. ``ahead``: so many seconds is the clock of its host."""
    rehearsal = emergency.rehearse(scene.side, GroupSelection((group,)))
    context = scene.context(rehearsal)
    context.journal.clock = lambda: time.time() + ahead
    assert emergency.execute(rehearsal, context).operation.error is None
    context.lock.leave()
    return rehearsal.plan.operation_id


def taking_back(scene, name, meanwhile):
    """Rolled back by somebody who agrees to what was seen before something else came."""
    (one,) = [one for one in recorded(scene.journal.entries()) if one.operation_id == name]
    context = scene.context(emergency.rehearse(scene.side, GroupSelection(("app",))), since=one)
    rehearse = scene.taking_back(one, Trigger.ROLL_BACK)
    assert rehearse().refusal is None
    meanwhile()
    return lambda: take_back(rehearse, context)


def state_of(scene, name):
    return {one.operation_id: one.state for one in recorded(scene.journal.entries())}[name]


def goes_on(scene):
    scene.commits("app", "east.orders", 60, cluster=scene.target)


def is_started(scene):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)


@pytest.mark.parametrize(
    ("meanwhile", "code", "stands"), [(goes_on, "would_rewind", 60), (is_started, "active_on_target", 50)]
)
def test_a_group_that_went_on_while_the_question_stood_is_not_moved_back(scene, meanwhile, code, stands):
    name = failed_over(scene, "app")
    with pytest.raises(RefusedError) as refused:
        taking_back(scene, name, lambda: meanwhile(scene))()
    assert (refused.value.exit_code, refused.value.code) == (3, code)
    assert scene.target.groups.committed["app"] == {REMOTE: Commit(stands)}
    assert (scene.marks.failed_over, state_of(scene, name)) == ({"orders"}, OperationState.COMPLETED)


def test_a_topic_that_another_emergency_needs_since_the_question_stays_failed_over_and_is_told_so(scene):
    name = failed_over(scene, "app")
    taken = taking_back(scene, name, lambda: failed_over(scene, "late"))()
    assert [mark.failed_over for mark in taken.marks if mark.key == b"failed_over/orders"] == [True]
    assert (scene.marks.failed_over, scene.marks.moved) == ({"orders"}, {"late"})
    assert state_of(scene, name) is OperationState.ROLLED_BACK


def rolled_back_by_another(scene, name):
    taking_back(scene, name, lambda: None)()


def rolled_back_and_moved_again(scene, name):
    rolled_back_by_another(scene, name)
    scene.lock.leave()
    failed_over(scene, "app")


def moved_once_more(scene, _):
    failed_over(scene, "app")


@pytest.mark.parametrize("meanwhile", [rolled_back_by_another, rolled_back_and_moved_again, moved_once_more])
@pytest.mark.parametrize("behind", ["its look", "its commits"])
def test_who_was_frozen_while_taking_back_takes_nothing_from_whoever_came_meanwhile(scene, meanwhile, behind):
    """It wakes up when the others have left the lock again; the groups stand where it saw them last."""
    name, there = failed_over(scene, "app"), []
    (one,) = [one for one in recorded(scene.journal.entries()) if one.operation_id == name]
    context = scene.context(emergency.rehearse(scene.side, GroupSelection(("app",))), since=one)

    def frozen():
        context.lock.leave()
        meanwhile(scene, name)
        context.lock.leave()
        there.extend(everything(scene))

    def rehearse():
        seen = scene.taking_back(one, Trigger.ROLL_BACK, beside_others=False)()
        write = seen.undoing.write
        if behind == "its look":
            frozen()
            return seen
        undoing = SimpleNamespace(writable=True, refusal=None, write=lambda: (write(), frozen())[0])
        return replace(seen, undoing=undoing)

    with pytest.raises(MmtoolError, match="another process started, resumed or ended operation") as refused:
        take_back(rehearse, context)
    assert (refused.value.exit_code, everything(scene)) == (10 if behind == "its look" else 6, there)
    assert refused.value.remedy.count("run the same command again") == 1


def test_a_target_that_goes_away_behind_the_commits_of_a_rollback_is_six_and_the_rest_is_done_later(scene):
    name = failed_over(scene, "app")
    scene.marks.failure = UnreachableError("west is gone")
    with pytest.raises(PartlyAppliedError, match=f"operation {name} is undone in part: west is gone"):
        taking_back(scene, name, lambda: None)()
    assert scene.target.groups.committed["app"] == {REMOTE: Commit(7)}
    scene.marks.failure = None
    taking_back(scene, name, lambda: None)()
    assert (scene.marks.failed_over, state_of(scene, name)) == (set(), OperationState.ROLLED_BACK)


def test_an_operation_that_ended_before_ours_has_overtaken_nobody_whatever_its_host_s_clock_said(scene):
    failed_over(scene, "app", ahead=3600.0)
    name = failed_over(scene, "app")
    assert state_of(scene, name) is OperationState.COMPLETED


def test_an_operation_that_ended_since_ours_began_is_told_of_whatever_its_host_s_clock_said(scene):
    rehearsal, theirs = (emergency.rehearse(scene.side, GroupSelection(("app",))) for _ in range(2))
    journalist = scene.context(rehearsal).journal
    context = scene.context(theirs)
    context.journal.clock = lambda: time.time() - 3600.0
    begun = Operation(rehearsal.plan).after(Trigger.BEGIN)
    typed = Sleeps(SimpleNamespace(), StepName.WRITE, lambda: journalist.began(begun))
    assert emergency.execute(theirs, heard(context, typed)).operation.error is None
    with pytest.raises(OwnedElsewhereError, match="moved some of the same groups meanwhile"):
        journalist.open_others(("app",))


def test_an_emergency_that_took_the_place_of_ours_is_told_of(scene):
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app",)))
    journalist = scene.context(rehearsal).journal
    journalist.began(Operation(rehearsal.plan).after(Trigger.BEGIN))
    failed_over(scene, "app", ahead=-3600.0)
    with pytest.raises(OwnedElsewhereError, match="another process resumed or ended operation"):
        journalist.open_others(("app",))


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_what_was_begun_before_ours_is_in_its_way_whatever_its_host_s_clock_said(scene, first, ahead):
    """And what was begun later, and has written nothing, is not."""
    theirs, ours = (scene.context(emergency.rehearse(scene.side, GroupSelection(("app",)))) for _ in range(2))
    theirs.journal.clock = lambda: time.time() + ahead
    for context in (theirs, ours) if first == "theirs" else (ours, theirs):
        plan = replace(
            emergency.rehearse(scene.side, GroupSelection(("app",))).plan,
            operation_id=context.operation_id,
        )
        context.journal.began(Operation(plan).after(Trigger.BEGIN))
    in_the_way = [one.operation_id for one in ours.journal.open_others(("app",))]
    assert in_the_way == ([theirs.operation_id] if first == "theirs" else [])


def releasing(scene, meanwhile):
    """Released by somebody who agrees to what was seen before something else came."""
    found = rehearse_release(scene.side, scene.journal, ())
    meanwhile()
    return lambda: release_marks(found, scene.journal, scene.marks, scene.lock, "bob@host-2", 1)


@pytest.mark.parametrize("stays", [True, False], ids=["marked anew", "released"])
def test_a_mark_that_is_another_one_than_was_agreed_to_is_left_as_it_is(scene, stays):
    failed_over(scene, "app")
    anew = FailedOverRecord("orders", stays, "another-operation", "ann@host-1", 1)
    with pytest.raises(RefusedError, match="marked or released orders meanwhile") as refused:
        releasing(scene, lambda: scene.state.marked(anew))()
    assert (refused.value.exit_code, refused.value.code) == (3, "marks_changed")
    assert list(scene.state.view.failed_over.values()) == ([anew] if stays else [])


class Sleeps:
    """A `StepLog` under which the process is frozen for a minute before a step, in which something comes."""

    def __init__(self, journalist, step, meanwhile):
        self.journalist, self.step, self.meanwhile = journalist, step, meanwhile

    def changed(self, operation, step, state):
        if (step.name, state) == (self.step, StepState.RUNNING):
            self.meanwhile()
            self.journalist.clock = lambda: time.time() + 60.0

    def __getattr__(self, _):
        return lambda *_: None


def frozen_at(scene, step, meanwhile):
    """An emergency of ``app`` whose process is frozen at a step, after which ``meanwhile`` is done with it."""
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app",)))
    context = scene.context(rehearsal)
    sleeps = Sleeps(context.journal, step, lambda: meanwhile(scene, rehearsal.plan.operation_id))
    return lambda: emergency.execute(rehearsal, heard(context, sleeps))


def on_record(scene, name):
    (one,) = [one for one in recorded(scene.journal.entries()) if one.operation_id == name]
    return one


def resumed_and_gone_on(scene, name):
    """By another host; then its application is started, reads on and is stopped."""
    since = on_record(scene, name)
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app",)), operation_id=name)
    context = scene.context(rehearsal, since=since)
    if since.operation.point_of_no_return_passed:
        assert roll_forward(since, context)[0].error is None
    else:
        assert emergency.execute(rehearsal, context).operation.error is None
    goes_on(scene)


def cancelled(scene, name):
    one = on_record(scene, name)
    context = scene.context(emergency.rehearse(scene.side, GroupSelection(("app",))), since=one)
    take_back(scene.taking_back(one, Trigger.CANCEL, beside_others=False), context)


@pytest.mark.parametrize(
    ("step", "meanwhile"),
    [
        (StepName.TRANSLATE, resumed_and_gone_on),
        (StepName.VALIDATE, resumed_and_gone_on),
        (StepName.WRITE, resumed_and_gone_on),
        (StepName.TRANSLATE, cancelled),
        (StepName.VALIDATE, cancelled),
    ],
)
def test_who_was_frozen_while_another_host_ended_its_operation_changes_nothing_of_it(scene, step, meanwhile):
    """Nobody is in the lock any more when it wakes up: what stands in the journal tells it."""
    there = []

    def ended(scene, name):
        meanwhile(scene, name)
        there.extend(everything(scene))

    with pytest.raises(OwnedElsewhereError, match="another process resumed or ended operation"):
        frozen_at(scene, step, ended)()
    assert everything(scene) == there


def test_who_was_frozen_between_the_commits_of_two_groups_moves_the_second_one_no_more(scene, monkeypatch):
    """Another host has finished it, the application was started, has read on and was stopped."""
    scene.commits("zoo", "orders", 50)
    scene.told("zoo", "orders", (50, 50), at_ms=int(time.time() * 1000))
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app", "zoo")))
    context = scene.context(rehearsal)
    groups = scene.target.groups

    def frozen(name, offsets, kind, alter=groups.alter):
        monkeypatch.setattr(groups, "alter", alter)
        problems = alter(name, offsets, kind)
        since = on_record(scene, rehearsal.plan.operation_id)
        others = scene.context(rehearsal, since=since)
        assert roll_forward(since, others)[0].error is None
        scene.commits("zoo", "east.orders", 60, cluster=scene.target)
        context.journal.clock = lambda: time.time() + 60.0
        return problems

    monkeypatch.setattr(writing, "AT_ONCE", 1)
    monkeypatch.setattr(groups, "alter", frozen)
    with pytest.raises(OwnedElsewhereError, match="another process resumed or ended operation"):
        emergency.execute(rehearsal, context)
    assert groups.committed["zoo"] == {REMOTE: Commit(60)}
    assert state_of(scene, rehearsal.plan.operation_id) is OperationState.COMPLETED


def everything(scene):
    groups = {name: dict(of) for name, of in scene.target.groups.committed.items()}
    return [dict(scene.journal.stored), groups, scene.marks.failed_over, scene.marks.moved]


def test_a_word_that_was_on_its_way_when_the_process_was_frozen_does_not_make_it_awake(scene):
    """The journal has taken it; when its answer is read, a minute has passed."""
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app",)))
    journalist = scene.context(rehearsal).journal
    append, name = scene.journal.append, rehearsal.plan.operation_id

    def asleep(entries):
        append(entries)
        scene.journal.append = append
        cancelled(scene, name)
        journalist.clock = lambda: time.time() + 60.0

    scene.journal.append = asleep
    begun = Operation(rehearsal.plan).after(Trigger.BEGIN)
    journalist.began(begun)
    with pytest.raises(OwnedElsewhereError, match="another process resumed or ended operation"):
        journalist.changed(begun, rehearsal.plan.steps[0], StepState.RUNNING)
    assert state_of(scene, name) is OperationState.CANCELLED


@pytest.mark.parametrize("words", [1, 3])
def test_who_took_an_operation_over_is_seen_though_the_journal_has_not_heard_our_last_words(scene, words):
    """Both give the next entry the same number: it is not ours for that."""
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app",)))
    journalist = scene.context(rehearsal).journal
    begun, name = Operation(rehearsal.plan).after(Trigger.BEGIN), rehearsal.plan.operation_id
    journalist.began(begun)
    scene.journal.failure = UnreachableError("gone")
    for step in rehearsal.plan.steps[:words]:
        with pytest.raises(UnreachableError):
            journalist.changed(begun, step, StepState.RUNNING)
    scene.journal.failure = None
    cancelled(scene, name)
    journalist.clock = lambda: time.time() + 60.0
    failed = begun.after(Trigger.STEP_FAILED)
    with pytest.raises(OwnedElsewhereError, match="another process resumed or ended operation"):
        journalist.changed(failed, rehearsal.plan.steps[0], StepState.FAILED)
    assert state_of(scene, name) is OperationState.CANCELLED


def test_words_of_ours_that_the_journal_heard_and_did_not_answer_are_nobody_else_s(scene):
    rehearsal = emergency.rehearse(scene.side, GroupSelection(("app",)))
    journalist = scene.context(rehearsal).journal
    append, begun = scene.journal.append, Operation(rehearsal.plan).after(Trigger.BEGIN)
    journalist.began(begun)

    def unanswered(entries):
        append(entries)
        raise UnreachableError("gone")

    scene.journal.append = unanswered
    with pytest.raises(UnreachableError):
        journalist.changed(begun, rehearsal.plan.steps[0], StepState.RUNNING)
    scene.journal.append = append
    journalist.clock = lambda: time.time() + 60.0
    journalist.still_ours()
    journalist.changed(begun.after(Trigger.STEP_FAILED), rehearsal.plan.steps[0], StepState.FAILED)
    assert state_of(scene, rehearsal.plan.operation_id) is OperationState.FAILED
