"""The proof before the first commit: the records next to each offset are the same on both sides."""

import pytest

from kit.scene import Scene
from mmtool.failover.modes.drain import boundaries
from mmtool.failover.modes.planned_mode import execute, rehearse
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import plans_by, read_groups
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.offsets import Direction, Rules

APP = GroupSelection(("app",))


@pytest.fixture
def scene(tmp_path):
    """Ten records of which the fifth is a marker on the source; ``app`` has read to it."""
    made = Scene(tmp_path)
    made.has("orders", 10)
    made.mirrored("orders", 0, [(0, 0, 5), (6, 5, 4)], 10)
    made.commits("app", "orders", 6)
    contents = [f"record {n}" for n in range(9)]
    offsets = [*range(5), *range(6, 10)]
    made.holds(made.source, "orders", zip(offsets, contents, strict=True))
    made.holds(made.target, "east.orders", enumerate(contents))
    made.drain = lambda *_: None
    return made


def ran(scene):
    rehearsal = rehearse(scene.look(), APP)
    return execute(rehearsal, scene.context(rehearsal))


def test_the_last_record_before_and_the_first_one_after_are_looked_up_over_holes(scene):
    flow = scene.look()
    facts = partition_facts(flow, Direction.FORWARD)
    plans = plans_by(flow, read_groups(flow, ["app"], Direction.FORWARD), facts, Rules())
    (found,) = boundaries(plans, facts, 10)
    assert found.records == ((4, 4), (6, 5))


def test_a_record_before_it_that_is_another_one_stops_it_before_anything_is_written(scene):
    contents = [(n, "foreign" if n == 4 else f"record {n}") for n in range(9)]
    scene.holds(scene.target, "east.orders", contents)
    ended = ran(scene)
    error = ended.operation.error
    assert (error.exit_code, error.code, scene.target.groups.committed) == (3, "boundary_differs", {})


def test_a_record_that_one_log_has_deleted_is_no_difference(scene):
    scene.holds(scene.source, "orders", [(6, "record 5")])
    assert ran(scene).operation.error is None


def test_of_very_many_offsets_evenly_chosen_ones_are_looked_at(tmp_path):
    scene = Scene(tmp_path)
    scene.has("orders", 100)
    scene.mirrored("orders", 0, [(0, 0, 100)], 100)
    for number in range(100):
        scene.commits(f"app-{number}", "orders", number)
    flow = scene.look()
    facts = partition_facts(flow, Direction.FORWARD)
    names = [f"app-{number}" for number in range(100)]
    plans = plans_by(flow, read_groups(flow, names, Direction.FORWARD), facts, Rules())
    assert [found.commit for found in boundaries(plans, facts, 4)] == [0, 25, 50, 75]
