"""A process that dies at any word of an operation: the journal alone leads on, to the same end, or back."""

import time
from contextlib import suppress
from itertools import count

import pytest

from mmtool.failover import emergency, planned
from mmtool.failover.journal import Both
from mmtool.failover.operation import StepState
from mmtool.failover.recorded import recorded
from mmtool.failover.states import Event, OperationState, can
from mmtool.failover.taking_up import finish_forward, rehearse_taking_back, take_back
from mmtool.plan.group_facts import Commit, GroupSelection
from mmtool.plan.identity import FlowIdentity
from mmtool.plan.steps import Mode
from mmtool.testing.operations import KilledError, Killing
from mmtool.testing.scene import Scene
from mmtool.translation.types import TopicPartition

GROUPS = GroupSelection(("app", "late"))
REMOTE = TopicPartition("east.orders", 0)
END = {"app": {REMOTE: Commit(50)}, "late": {REMOTE: Commit(60)}}
BEFORE = {"app": {REMOTE: Commit(7)}}


def made(directory):
    """Both groups can be moved in either mode; ``app`` has a commit on the target already."""
    scene = Scene(directory)
    scene.has("orders", 60)
    scene.mirrored("orders", 0, [(0, 0, 60)], 60)
    for group, offset in (("app", 50), ("late", 60)):
        scene.commits(group, "orders", offset)
        scene.told(group, "orders", (offset, offset), at_ms=int(time.time() * 1000))
    scene.commits("app", "east.orders", 7, cluster=scene.target)
    return scene


def rehearsed(scene, mode, **more):
    if mode is Mode.EMERGENCY:
        return emergency.rehearse(scene.side, GROUPS, **more)
    return planned.rehearse(scene.look(), GROUPS, **more)


def executed(scene, mode, rehearsal, ways, log, **more):
    if mode is Mode.EMERGENCY:
        return emergency.execute(rehearsal, ways, log, **more)
    return planned.execute(rehearsal, scene, ways, log, **more)


def killed_at(scene, mode, word, *, unheard=False):
    """Execute until the process dies at that word, ``unheard`` by the journal; whether it came to that."""
    rehearsal = rehearsed(scene, mode)
    ways, journalist = scene.ways(rehearsal)
    killing = Killing(word)
    try:
        log = Both(killing, journalist) if unheard else Both(journalist, killing)
        executed(scene, mode, rehearsal, ways, log)
    except KilledError:
        return True
    return False


def found(scene):
    (one,) = recorded(scene.journal.entries())
    return one


def resumed(scene, mode):
    """As `mmtool failover resume` does, on another host."""
    one = found(scene)
    rehearsal = rehearsed(scene, mode, operation_id=one.operation_id)
    ways, log = scene.ways(rehearsal, since=one)
    if one.operation.point_of_no_return_passed:
        return finish_forward(one, ways, log)[0]
    return executed(scene, mode, rehearsal, ways, log, since=one.operation.standing).operation


def taken_back(scene, mode, event):
    one = found(scene)
    identity = FlowIdentity(one.source_id, one.target_id, "east", "west")
    taking = rehearse_taking_back(one, event, scene.target, scene.state, identity, "bob@host-2", 0)
    assert taking.refusal is None
    ways, log = scene.ways(rehearsed(scene, mode, operation_id=one.operation_id), since=one)
    take_back(taking, ways, log)


def words(tmp_path, mode):
    """How many words an operation says, and so at how many places it can be killed."""
    return next(n for n in count(1) if not killed_at(made(_folder(tmp_path, n)), mode, n)) - 1


def _folder(tmp_path, n):
    folder = tmp_path / f"try-{n}"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(params=Mode, ids=lambda mode: mode.value)
def mode(request):
    return request.param


def test_killed_before_it_is_on_record_that_it_begins_nothing_has_happened(tmp_path, mode):
    scene = made(tmp_path)
    assert killed_at(scene, mode, 1, unheard=True)
    assert (scene.target.groups.committed, scene.marks.failed_over, scene.journal.stored) == (
        BEFORE,
        set(),
        {},
    )


@pytest.mark.parametrize("unheard", [False, True], ids=["on record", "not on record any more"])
def test_killed_at_any_word_and_resumed_it_ends_the_same(tmp_path, mode, unheard):
    said = words(tmp_path, mode)
    assert said >= 18
    for word in range(1 + unheard, said + 1):
        scene = made(_folder(tmp_path, word))
        assert killed_at(scene, mode, word, unheard=unheard)
        if found(scene).state is not OperationState.COMPLETED:
            assert resumed(scene, mode).error is None, word
        assert scene.target.groups.committed == END, word
        assert (found(scene).state, scene.marks.moved) == (OperationState.COMPLETED, {"app", "late"}), word
        assert scene.marks.failed_over == ({"orders"} if mode is Mode.EMERGENCY else set()), word


@pytest.mark.parametrize("unheard", [False, True], ids=["on record", "not on record any more"])
def test_killed_at_any_word_and_taken_back_everything_is_as_it_was(tmp_path, mode, unheard):
    for word in range(1 + unheard, words(tmp_path, mode) + 1):
        scene = made(_folder(tmp_path, word))
        killed_at(scene, mode, word, unheard=unheard)
        standing = found(scene).operation.standing
        event = Event.CANCEL if can(standing, Event.CANCEL) else Event.ROLL_BACK
        taken_back(scene, mode, event)
        left = {group: of for group, of in scene.target.groups.committed.items() if of}
        assert (left, scene.marks.moved, scene.marks.failed_over) == (BEFORE, set(), set()), word
        assert found(scene).state in {OperationState.CANCELLED, OperationState.ROLLED_BACK}, word


def test_killed_again_while_it_is_resumed_it_is_resumed_again(tmp_path, mode):
    for word in range(1, words(tmp_path, mode) + 1):
        scene = made(_folder(tmp_path, word))
        killed_at(scene, mode, word)
        for again in range(1, 4):
            one = found(scene)
            if one.state is OperationState.COMPLETED:
                break
            with suppress(KilledError):
                _killed_while_resumed(scene, mode, one, again)
        if found(scene).state is not OperationState.COMPLETED:
            assert resumed(scene, mode).error is None, word
        assert scene.target.groups.committed == END, word


def _killed_while_resumed(scene, mode, one, word):
    rehearsal = rehearsed(scene, mode, operation_id=one.operation_id)
    ways, journalist = scene.ways(rehearsal, since=one)
    log = Both(journalist, Killing(word))
    if one.operation.point_of_no_return_passed:
        finish_forward(one, ways, log)
    else:
        executed(scene, mode, rehearsal, ways, log, since=one.operation.standing)


def test_what_was_checked_before_a_crash_is_checked_again(tmp_path, mode):
    scene = made(tmp_path)
    assert killed_at(scene, mode, 6)
    one = found(scene)
    assert not one.operation.point_of_no_return_passed
    resumed(scene, mode)
    kinds = [
        (entry.body["step"], entry.body["step_state"])
        for entry in scene.journal.entries()
        if entry.kind == "step" and entry.body["step_state"] == StepState.DONE
    ]
    assert kinds.count(("check_groups", StepState.DONE)) == 2


def killed_while_writing(scene, mode):
    """One of two groups has its offsets when the process dies."""
    alter, done = scene.target.groups.alter, []

    def one_only(group, offsets):
        if done:
            raise KilledError
        done.append(group)
        return alter(group, offsets)

    scene.target.groups.alter = one_only
    rehearsal = rehearsed(scene, mode)
    ways, journalist = scene.ways(rehearsal)
    with pytest.raises(KilledError):
        executed(scene, mode, rehearsal, ways, journalist)
    scene.target.groups.alter = alter


def test_killed_between_two_groups_the_second_is_written_when_it_is_resumed(tmp_path, mode):
    scene = made(tmp_path)
    killed_while_writing(scene, mode)
    assert resumed(scene, mode).error is None
    assert scene.target.groups.committed == END


def test_a_group_that_has_been_started_and_read_on_meanwhile_counts_as_arrived(tmp_path, mode):
    scene = made(tmp_path)
    killed_while_writing(scene, mode)
    (first,) = [g for g, of in scene.target.groups.committed.items() if of == END[g]]
    scene.commits(first, "east.orders", 60, cluster=scene.target)
    assert resumed(scene, mode).error is None
    assert scene.target.groups.committed[first] == {REMOTE: Commit(60)}


def test_a_group_that_somebody_else_has_moved_meanwhile_is_left_alone_and_it_is_six(tmp_path, mode):
    scene = made(tmp_path)
    killed_while_writing(scene, mode)
    left = "late" if scene.target.groups.committed["app"] == END["app"] else "app"
    scene.commits(left, "east.orders", 33, cluster=scene.target)
    assert resumed(scene, mode).error.exit_code == 6
    assert scene.target.groups.committed[left] == {REMOTE: Commit(33)}


def test_an_operation_that_was_begun_and_not_ended_keeps_others_of_the_same_groups_out(tmp_path):
    scene = made(tmp_path)
    killed_at(scene, Mode.PLANNED, 4)
    rehearsal = rehearsed(scene, Mode.PLANNED)
    ways, journalist = scene.ways(rehearsal)
    ended = executed(scene, Mode.PLANNED, rehearsal, ways, journalist)
    assert (ended.operation.error.exit_code, ended.operation.error.code) == (3, "open_operation")
    assert "resume (or cancel)" in ended.operation.error.remedy


def test_an_emergency_takes_the_place_of_one_that_has_written_nothing(tmp_path):
    scene = made(tmp_path)
    killed_at(scene, Mode.PLANNED, 4)
    rehearsal = rehearsed(scene, Mode.EMERGENCY)
    ways, journalist = scene.ways(rehearsal)
    assert executed(scene, Mode.EMERGENCY, rehearsal, ways, journalist).operation.error is None
    states = {one.mode: (one.state, one.operation.sentence) for one in recorded(scene.journal.entries())}
    assert states[Mode.EMERGENCY][0] is OperationState.COMPLETED
    assert states[Mode.PLANNED][0] is OperationState.CANCELLED
    assert rehearsal.plan.operation_id in states[Mode.PLANNED][1]


def test_an_emergency_does_not_take_the_place_of_one_that_has_begun_to_write(tmp_path):
    scene = made(tmp_path)
    killed_while_writing(scene, Mode.PLANNED)
    rehearsal = rehearsed(scene, Mode.EMERGENCY)
    ways, journalist = scene.ways(rehearsal)
    error = executed(scene, Mode.EMERGENCY, rehearsal, ways, journalist).operation.error
    assert (error.exit_code, error.code) == (3, "open_operation")
