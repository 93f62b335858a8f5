"""``--diverged topic NAME`` on clusters in memory: each record is written once, and no group reads it twice."""

import pytest

from kit.batches import data
from kit.one_name import AT_HOME, ORDERS, OneName
from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.failover.modes.failback import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.operation_row import ended_row
from mmtool.failover.service.execution import judged
from mmtool.kafka.batches import CorruptBatchError
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.choices import diverged_of
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.translation.types import TopicPartition

BOTH = GroupSelection(("app", "late"))
SALVAGE = TopicPartition("salvage", 0)
TAIL = [b"v%d" % n for n in range(10, 15)]


@pytest.fixture
def scene(tmp_path):
    return OneName(tmp_path)


@pytest.fixture
def ran(scene, tmp_path):
    def run(words, selection=BOTH, since=None):
        name = since and since.operation_id
        rehearsal = rehearse(scene.both, selection, operation_id=name, diverged=diverged_of(words))
        assert rehearsal.plan.guards == ()
        context = scene.context(rehearsal, home=True, since=since)
        return execute(rehearsal, context, folder=tmp_path, writer=scene.writer_for(words))

    return run


def found(scene):
    (one,) = recorded(scene.journal.entries())
    return one


def test_into_a_file_groups_of_one_name_go_home_behind_the_tail(scene, ran):
    assert ended_row(ran("file"))["state"] == "completed"
    assert (scene.source.groups.committed, scene.frontier) == (AT_HOME, 10)


def test_where_everything_was_mirrored_nothing_is_written(scene, ran):
    scene.source.add_topic("orders", "id-orders", 10)
    scene.home.logs[ORDERS] = data(0, 10)
    ran("topic salvage")
    assert scene.writer.ours == {}


def test_where_the_tail_goes_is_on_record_before_its_first_record(scene, ran):
    seen = []
    append = scene.writer.append
    scene.writer.append = lambda *of: seen.append(found(scene).tail) or append(*of)
    ran("topic salvage")
    assert [(begun.ends, begun.records) for begun in seen] == [({SALVAGE: 3}, 5)] * 2
    assert found(scene).tail is None


def test_a_home_that_does_not_answer_in_the_middle_leaves_it_to_be_resumed(scene, ran):
    scene.writer.lives, scene.writer.dies = [1], UnreachableError("east is gone")
    ended = ran("topic salvage")
    assert ended.operation.error.exit_code == 6
    assert "mmtool failover resume" in ended.operation.error.remedy
    again = ran("topic salvage", since=found(scene))
    assert (again.operation.error, scene.writer.values(SALVAGE)) == (None, TAIL)
    assert (scene.source.groups.committed, scene.frontier) == (AT_HOME, 10)


def test_what_came_home_between_two_kills_is_written_whole_and_once(scene, ran):
    """Who finishes what was begun goes on with what came since: the numbers of the one are none of the other."""
    words, writer, place = "topic salvage", scene.writer, SALVAGE
    writer.lives, writer.dies = [1, 2], UnreachableError("gone")
    ran(words)
    scene.home.logs[ORDERS] += data(15, 2) + data(17, 2)
    scene.source.logs[ORDERS] = Bounds(0, 19)
    assert ran(words, since=found(scene)).operation.error.exit_code == 6
    assert writer.values(place) == [*TAIL, b"v15", b"v16"]
    assert ran(words, since=found(scene)).operation.error is None
    assert writer.values(place) == [*TAIL, b"v15", b"v16", b"v17", b"v18"]


@pytest.mark.parametrize("dies", [CorruptBatchError("a bad batch", 12), RefusedError("INVALID_RECORD")])
def test_a_record_that_is_not_taken_leaves_nothing_half_way(scene, ran, dies):
    scene.writer.lives, scene.writer.dies = [1], dies
    error = ran("topic salvage").operation.error
    assert (error.exit_code, error.message) == (6, f"{dies.message}; 2 of 5 diverged records are written")
    assert f"mmtool failover resume {found(scene).operation_id}" in error.remedy
    assert (found(scene).tail, found(scene).salvaged[ORDERS][0].records) == (None, 2)
    again = ran("topic salvage", since=found(scene))
    assert (again.operation.error, scene.writer.values(SALVAGE)) == (None, TAIL)
    assert (scene.source.groups.committed, ended_row(again)["diverged_records"]) == (AT_HOME, 5)


def test_where_nobody_may_write_nothing_is_on_record_as_begun(scene, ran):
    def denied(*_):
        raise NotAuthorisedError("east denies WRITE on transactional id")

    scene.writer.appended = denied
    error = ran("topic salvage").operation.error
    assert (error.exit_code, found(scene).tail, found(scene).salvaged) == (9, None, {})


def test_where_the_first_record_cannot_be_written_nothing_has_happened(scene, ran):
    scene.writer.lives, scene.writer.dies = [0], CorruptBatchError("a bad batch", 12)
    error = ran("topic salvage").operation.error
    assert (error.message, scene.writer.ours, found(scene).tail) == ("a bad batch", {}, None)


def test_what_may_be_written_in_part_keeps_other_failbacks_of_the_same_groups_out(scene, ran):
    scene.writer.lives, scene.writer.dies = [1], UnreachableError("east is gone")
    first = ran("topic salvage")
    assert first.operation.error.exit_code == 6
    error = ran("file").operation.error
    assert (error.code, scene.writer.values(SALVAGE)) == ("open_operation", TAIL[:2])


def test_home_is_not_asked_again_for_what_is_written(scene, ran):
    append = scene.journal.append

    def unwritten(entries):
        if any(entry.body.get("stands") is False for entry in entries):
            raise UnreachableError("west is gone")
        append(entries)

    scene.journal.append = unwritten
    assert ran("topic salvage").operation.error.exit_code == 6
    scene.journal.append, scene.home.logs[ORDERS] = append, b""
    again = ran("topic salvage", since=found(scene))
    assert (again.operation.error, scene.writer.values(SALVAGE)) == (None, TAIL)


# --- the tail is deleted while it is written ---------------------------------------------------------------


def test_where_the_tail_is_deleted_while_it_is_written_a_resume_says_that_only_a_cancel_ends_it(scene, ran):
    scene.writer.lives, scene.writer.dies = [1], UnreachableError("gone")
    ran("topic salvage")
    scene.home.logs[ORDERS] = data(12, 3)
    scene.source.logs[ORDERS] = Bounds(12, 15)
    error = ran("topic salvage", since=found(scene)).operation.error
    assert (error.exit_code, error.code) == (6, "ambiguous")
    assert error.remedy.startswith(
        f"run `mmtool failover cancel {found(scene).operation_id} -c FILE --execute`"
    )


def test_a_group_that_never_committed_at_home_goes_home_as_well(scene, ran):
    del scene.source.groups.committed["app"]
    ran("topic salvage")
    assert scene.source.groups.committed["app"] == {ORDERS: Commit(19)}


@pytest.mark.parametrize("how", ["completed", "failed", "cut off"])
def test_what_another_failback_has_written_into_the_same_topic_is_told_before_it_is_written_again(
    scene, ran, how
):
    """Groups that come home in two goes, or a command that is typed again: the tail is tail until it is mirrored."""
    if how == "failed":
        scene.source.groups.rights_missing = ["READ on group app"]
    if how == "cut off":
        scene.writer.lives, scene.writer.dies = [1], UnreachableError("east is gone")
    ran("topic salvage", GroupSelection(("app",)))
    before, said = found(scene), []
    for words in ("topic salvage", "topic other", "file"):
        scene.source.add_topic("other", "id-other", 0)
        rehearsal = rehearse(scene.both, GroupSelection(("late",)), diverged=diverged_of(words))
        said.append(judged(rehearsal, [scene.journal], scene.lock, 0, is_resumed=False).warnings)
    told = (
        f"operation {before.operation_id} already wrote up to 5 diverged records into topic salvage of east"
    )
    assert [sum(told in warning for warning in of) for of in said] == [1, 0, 0]
    if how == "completed":
        ran("topic salvage", GroupSelection(("late",)))
        assert scene.writer.values(SALVAGE) == [*TAIL, *TAIL]
