"""Whichever way an operation ends, no topic stays marked by one that is over: nothing would mirror it, unsaid."""

import time
from dataclasses import replace
from itertools import count

import pytest

from kit.operations import KilledError, Killing, heard
from kit.scene import Scene
from kit.there_and_back import ThereAndBack
from mmtool.errors import RefusedError, UnreachableError
from mmtool.failover.modes import emergency, failback
from mmtool.failover.operation.operation import StepState
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import roll_forward, take_back
from mmtool.failover.operation.states import OperationState, Trigger
from mmtool.plan.failover.steps import StepName
from mmtool.plan.groups.facts import GroupSelection, Member
from mmtool.plan.records.marks import FailedOverRecord, MovedGroupRecord
from mmtool.plan.words import Names

pytestmark = pytest.mark.long

WORDS = range(1, 40)


@pytest.fixture
def scenes(tmp_path):
    """Makes one after the other: ``app`` and ``late`` read ``orders``, ``late`` reads ``orders-late`` as well."""
    numbers = count(1)

    def make(kind=Scene):
        folder = tmp_path / f"scene-{next(numbers)}"
        folder.mkdir()
        made = kind(folder)
        made.folder = folder
        if kind is not Scene:
            released = FailedOverRecord("orders", False, "op-away", "ann@host-1", 1)
            made.state.marked(released)
            return made
        for topic in ("orders", "orders-late"):
            made.has(topic, 60)
            made.mirrored(topic, 0, [(0, 0, 60)], 60)
        for group, topic in (("app", "orders"), ("late", "orders"), ("late", "orders-late")):
            made.told(group, topic, (50, 50), at_ms=int(time.time() * 1000))
            made.commits(group, topic, 50)
        return made

    return make


@pytest.fixture
def scene(scenes):
    return scenes()


def began(scene, *groups, kill=None, since=None):
    """An emergency, killed at a word or taken up again; its operation, or None."""
    name = since and since.operation_id
    rehearsal = emergency.rehearse(scene.side, GroupSelection(groups), operation_id=name)
    context = _killing(scene.context(rehearsal, since=since), kill)
    return _run(scene, lambda: emergency.execute(rehearsal, context).operation)


def went_home(scene, kill=None, since=None, groups=("app", "late")):
    """A failback of both groups, likewise."""
    name = since and since.operation_id
    rehearsal = failback.rehearse(scene.both, GroupSelection(groups), operation_id=name)
    context = _killing(scene.context(rehearsal, since=since, home=True), kill)
    return _run(scene, lambda: failback.execute(rehearsal, context, folder=scene.folder).operation)


def _killing(context, kill):
    return context if kill is None else heard(context, Killing(kill))


def _run(scene, run):
    try:
        return run()
    except KilledError:
        return None
    finally:
        scene.lock.leave()


def operations(scene):
    entries = scene.journal.entries()
    order = list(dict.fromkeys(entry.operation_id for entry in entries))  # two may begin in one millisecond
    return sorted(recorded(entries), key=lambda one: order.index(one.operation_id))


def newest(scene):
    return operations(scene)[-1]


def taken_back(scene, one, event, *, home=False):
    rehearsal = replace(emergency.rehearse(scene.side, GroupSelection(("app",))), plan=one.operation.plan)
    context = scene.context(rehearsal, since=one, home=home)
    take_back(scene.taking_back(one, event, context.destination), context)
    scene.lock.leave()


def all_taken_back(scene):
    """Everything that can be, the newest first."""
    for one in reversed(operations(scene)):
        for event in (Trigger.CANCEL, Trigger.ROLL_BACK):
            if one.may(event):
                taken_back(scene, one, event)


def marked_by(scene):
    return {name: mark.operation_id for name, mark in scene.state.view.failed_over.items()}


def is_started(scene, group="app"):
    scene.target.groups.members[group] = (Member(f"{group}-1", "/10.0.0.7"),)


def early(scenes, kind=Scene, act=lambda scene, word: began(scene, "app", kill=word)):
    """One scene for each word at which an operation can be killed while nothing is written."""
    for word in WORDS:
        made = scenes(kind)
        ended = act(made, word)
        (one,) = operations(made)
        if ended is not None or not one.may(Trigger.CANCEL):
            return
        yield made, one


def test_an_emergency_that_is_typed_again_has_the_marks_of_the_one_that_was_killed(scenes):
    seen = set()
    for made, killed in early(scenes):
        seen |= made.marks.failed_over
        assert began(made, "app").error is None
        assert marked_by(made) == {"orders": newest(made).operation_id}
        taken_back(made, newest(made), Trigger.ROLL_BACK)
        assert (made.marks.failed_over, made.marks.moved) == (set(), set()), killed.head.steps
    assert seen == {"orders"}


@pytest.mark.parametrize("again", range(1, 9))
def test_two_emergencies_that_were_killed_one_after_the_other_leave_nothing_once_they_are_taken_back(
    scenes, again
):
    for made, _ in early(scenes):
        began(made, "app", kill=again)
        all_taken_back(made)
        assert made.marks.failed_over == set()


def test_killed_before_it_has_the_marks_of_the_first_that_one_is_not_ended(scene):
    began(scene, "app", kill=5)
    write = scene.marks.write

    def dies(_):
        raise KilledError

    scene.marks.write = dies
    began(scene, "app")
    scene.marks.write = write
    assert [one.state for one in operations(scene)] == [OperationState.RUNNING] * 2
    all_taken_back(scene)
    assert scene.marks.failed_over == set()


def test_an_emergency_that_is_resumed_and_fails_early_takes_back_what_it_had_marked(scenes):
    for made, killed in early(scenes):
        was_marked = bool(made.marks.failed_over)
        is_started(made)
        ended = began(made, "app", since=killed)
        assert (ended.standing.state, ended.error.code) == (OperationState.FAILED, "active_on_target")
        assert made.marks.failed_over == set()
        assert (newest(made).head.steps.get(StepName.MARK) is StepState.UNDONE) == was_marked


def test_one_that_was_never_marked_says_nothing_of_marks_when_it_is_resumed(scene):
    began(scene, "app", kill=1)
    scene.marks.failure = UnreachableError("west takes no marks")
    is_started(scene)
    error = began(scene, "app", since=newest(scene)).error
    assert (type(error), error.exit_code) == (RefusedError, 3)


def test_marks_on_another_flow_are_said_when_their_operation_is_superseded(scene, capsys):
    began(scene, "app", kill=5)
    left_marked = newest(scene)
    log = scene.context(emergency.rehearse(scene.side, GroupSelection(("app",)))).journal
    log.operation = left_marked.operation
    log.about = replace(log.about, names=Names("north", "west"))
    log.supersede(left_marked)
    assert "mmtool failover release -c FILE -s east -t west" in capsys.readouterr().err


# --- the way home, of topics that were released before ------------------------------------------------------


def homeward(scenes):
    return early(scenes, ThereAndBack, lambda scene, word: went_home(scene, kill=word))


def test_a_failback_that_is_resumed_and_fails_early_takes_back_what_it_had_marked(scenes):
    seen = set()
    for made, killed in homeward(scenes):
        seen |= made.marks.failed_over
        is_started(made)
        ended = went_home(made, since=killed)
        assert (ended.standing.state, made.marks.failed_over) == (OperationState.FAILED, set())
    assert seen == {"orders"}


def test_an_emergency_in_place_of_a_failback_has_its_marks(scenes):
    for made, _ in homeward(scenes):
        made.told("app", "orders", (10, 10))
        assert began(made, "app").error is None
        taken_back(made, newest(made), Trigger.ROLL_BACK)
        assert made.marks.failed_over == set()


def test_a_failback_that_fails_does_not_mark_for_an_emergency_whose_topics_were_released(scenes):
    made = scenes(ThereAndBack)
    made.told("app", "orders", (8, 8))
    began(made, "app")
    made.state.marked(FailedOverRecord("orders", False, "released", "ann@host-1", 0))
    time.sleep(0.005)  # its last word is older than the mark that comes
    made.source.groups.rights_missing = ["READ on group app"]
    assert went_home(made).error.exit_code == 9
    assert made.marks.failed_over == set()


def finished_forward(scene, one):
    """A failback that was killed behind the point of no return is resumed."""
    rehearsal = replace(emergency.rehearse(scene.side, GroupSelection(("app",))), plan=one.operation.plan)
    context = scene.context(rehearsal, since=one, home=True)
    return _run(scene, lambda: roll_forward(one, context)[0])


def test_a_failback_that_was_taken_up_again_releases_what_it_planned_to_release_then(scenes):
    """``late`` was away when it began, and went home before it was taken up."""
    made = scenes(ThereAndBack)
    went_home(made, groups=("app",), kill=6)
    went_home(made, groups=("late",))
    assert made.marks.failed_over == {"orders"}
    went_home(made, groups=("app",), since=operations(made)[0], kill=19)
    assert operations(made)[0].operation.point_of_no_return_passed
    assert finished_forward(made, operations(made)[0]).error is None
    assert (made.marks.failed_over, made.marks.moved) == (set(), set())


@pytest.mark.parametrize("resumed", [True, False], ids=["killed", "frozen"])
def test_a_topic_that_an_emergency_has_moved_other_groups_of_meanwhile_is_not_released(
    scenes, resumed, capsys
):
    made = scenes(ThereAndBack)
    made.state.marked(MovedGroupRecord("late", False, "op-home", "ann@host-1", 1))
    made.told("late", "orders", (7, 7), at_ms=int(time.time() * 1000))
    write, wrote = made.marks.write, []

    def lost_again(marks):
        if not wrote and any(isinstance(mark, MovedGroupRecord) for mark in marks):
            wrote.append(marks)
            made.lock.leave()
            assert began(made, "late").error is None
            if resumed:
                raise KilledError
        write(marks)

    made.marks.write = lost_again
    went_home(made, groups=("app",))
    home, second = operations(made)
    if resumed:
        assert finished_forward(made, home).error is None
    assert (operations(made)[0].state, made.marks.moved) == (OperationState.COMPLETED, {"late"})
    assert marked_by(made) == {"orders": second.operation_id}
    assert (
        f"orders stays failed over, as the newer operation {second.operation_id}" in capsys.readouterr().err
    )
