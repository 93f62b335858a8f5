"""The drill on clusters in memory: the path of a failover, on shadows, beside groups that are at work."""

import pytest

from kit.operations import lines_of
from kit.scene import Scene
from mmtool.errors import GateError, RefusedError, UnreachableError
from mmtool.failover.modes.drill import NoLock, drilled_row, emergency_now, execute, rehearse
from mmtool.failover.operation.recovery import find, require
from mmtool.failover.operation.states import Event
from mmtool.failover.report.report import ways_on
from mmtool.kafka.errors import Problem
from mmtool.plan.failover.steps import ORDER, Mode
from mmtool.plan.groups.facts import Commit, GroupSelection, Member, select_groups

APP = GroupSelection(("app",))
CONTENTS = [f"record {n}" for n in range(20)]


@pytest.fixture
def scene(tmp_path):
    """``app`` is at work on the source, at 12 of 20; the mirror is at 15."""
    made = Scene(tmp_path)
    made.has("orders", 20)
    made.mirrored("orders", 0, [(0, 0, 15)], 15, source_end=20)
    made.commits("app", "orders", 12)
    made.told("app", "orders", (12, 12))
    made.source.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    made.holds(made.source, "orders", enumerate(CONTENTS))
    made.holds(made.target, "east.orders", enumerate(CONTENTS))
    return made


@pytest.fixture
def ran(scene):
    def run(drain=None):
        rehearsal = rehearse(scene.look(), APP)
        context, journalist = scene.context(rehearsal)
        port = scene if drain is None else type("Port", (), {"drain": staticmethod(drain)})
        return execute(rehearsal, port, context, journalist)

    return run


def test_a_drill_goes_the_whole_path_beside_a_group_that_is_at_work(scene, ran):
    drilled = ran()
    assert drilled.operation.error is None
    assert [step.name for step in drilled.rehearsal.plan.steps] == list(ORDER[Mode.DRILL])
    assert (drilled.cutover.figures.rpo_records, drilled.cutover.figures.reread_records) == (0, 0)


def test_nothing_is_written_for_the_group_itself_and_its_shadow_is_gone_afterwards(scene, ran):
    seen = []
    alter = scene.target.groups.alter
    scene.target.groups.alter = lambda group, offsets: seen.append((group, offsets)) or alter(group, offsets)
    ran()
    ((shadow, offsets),) = seen
    assert shadow.startswith("mmtool.app.drill-")
    assert list(offsets.values()) == [Commit(12)]
    assert not [name for name in scene.target.groups.listing().consumers if "drill" in name]
    assert (scene.marks.failed_over, scene.marks.moved) == (set(), set())


def test_no_selector_and_no_sync_matches_a_shadow(scene, ran):
    seen = []
    alter = scene.target.groups.alter
    scene.target.groups.alter = lambda group, offsets: seen.append(group) or alter(group, offsets)
    ran()
    everything = select_groups(GroupSelection(everything=True), [*seen, "app"], lambda _: True)
    assert everything.known == ("app",)


def test_records_behind_the_offset_are_read_on_both_sides(ran):
    assert ran().records_read == 8


def test_other_records_behind_the_offset_are_seven_and_the_shadow_is_gone_all_the_same(scene, ran):
    foreign = [(n, "foreign" if n == 17 else content) for n, content in enumerate(CONTENTS)]
    scene.holds(scene.target, "east.orders", foreign)
    drilled = ran()
    assert (drilled.operation.error.exit_code, drilled.operation.error.code) == (7, "check_failed")
    assert drilled.operation.sentence == "every offset is written and was read back; a later step failed"
    assert not [name for name in scene.target.groups.listing().consumers if "drill" in name]


def test_shadows_that_cannot_be_deleted_are_said_with_the_way_and_do_not_hide_what_ended_it(
    scene, ran, capsys
):
    """They could not be read back either: the target is away."""

    def away(*_):
        raise UnreachableError("west does not answer")

    def alter(group, offsets):
        done = committed(group, offsets)
        scene.target.groups.fresh = away
        scene.target.groups.delete = lambda names: dict.fromkeys(
            names, Problem("unreachable", "west does not answer")
        )
        return done

    committed, scene.target.groups.alter = scene.target.groups.alter, None
    scene.target.groups.alter = alter
    drilled = ran()
    assert drilled.operation.error is not None
    assert "could not be deleted" not in drilled.operation.error.message
    said = capsys.readouterr().err
    assert "the copies of 1 group could not be deleted on west" in said
    assert f"mmtool failover rollback {drilled.rehearsal.plan.operation_id} -c FILE --execute" in said


def test_a_drill_that_ended_on_its_way_is_drilled_again_and_not_taken_up(scene, ran):
    foreign = [(n, "foreign" if n == 17 else content) for n, content in enumerate(CONTENTS)]
    scene.holds(scene.target, "east.orders", foreign)
    drilled = ran()
    found = find(scene.journal, drilled.rehearsal.plan.operation_id)
    with pytest.raises(RefusedError, match="is a drill, and drills are not resumed") as refused:
        require(found, Event.RESUME)
    assert "failover rollback" in refused.value.remedy
    assert lines_of(ways_on(found.operation)).startswith(
        "delete the copies of the groups:\nmmtool failover rollback"
    )
    assert "resume" not in lines_of(ways_on(found.operation))


def test_what_an_emergency_would_have_cost_is_told_beside_it(scene, ran):
    costs = emergency_now(scene.side, APP)
    row = drilled_row(ran(), costs)
    assert (row["lag_records_before"], row["emergency_rpo_records"], row["records_read"]) == (5, 5, 8)
    assert (row["mode"], row["state"], row["rpo_records"]) == ("drill", "completed", 0)


def test_a_drain_that_takes_too_long_ends_it_with_nothing_written(scene, ran):
    def drain(*_):
        raise GateError("not within 8 s")

    drilled = ran(drain)
    assert (drilled.operation.error.exit_code, scene.target.groups.committed) == (4, {})


def test_a_drill_keeps_no_real_operation_out():
    lock = NoLock()
    lock.join()
    lock.hold()
    lock.leave()


def test_a_rehearsal_changes_nothing(scene):
    rehearse(scene.look(), APP)
    assert (scene.target.groups.committed, scene.drained, scene.journal.stored) == ({}, [], {})
