"""The drill on clusters in memory: the path of a failover, on shadows, beside groups that are at work."""

import pytest

from kit.scene import Scene
from mmtool.errors import UnreachableError
from mmtool.failover.modes.drill import execute, rehearse
from mmtool.kafka.errors import Problem
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
    def run():
        rehearsal = rehearse(scene.look(), APP)
        return execute(rehearsal, scene.context(rehearsal))

    return run


def test_nothing_is_written_for_the_group_but_for_a_shadow_that_no_selector_matches_and_that_is_gone_then(
    scene, ran
):
    seen = []
    alter = scene.target.groups.alter
    scene.target.groups.alter = lambda group, offsets, kind=None: (
        seen.append((group, offsets)) or alter(group, offsets, kind)
    )
    ran()
    ((shadow, offsets),) = seen
    assert shadow.startswith("mmtool.app.drill-")
    assert list(offsets.values()) == [Commit(12)]
    everything = select_groups(GroupSelection(everything=True), [shadow, "app"], lambda _: True)
    assert everything.known == ("app",)
    assert not [name for name in scene.target.groups.listing().states if "drill" in name]
    assert (scene.marks.failed_over, scene.marks.moved) == (set(), set())


def test_records_behind_the_offset_are_read_on_both_sides(ran):
    assert ran().records_read == 8


def test_shadows_that_cannot_be_deleted_are_said_with_the_way_and_do_not_hide_what_ended_it(
    scene, ran, capsys
):
    """They could not be read back either: the target is away."""

    def away(*_):
        raise UnreachableError("west does not answer")

    def alter(group, offsets, kind=None):
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
