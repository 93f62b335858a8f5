"""A share or streams group of the same name on the destination: every move is refused before anything is done."""

import pytest

from kit.scene import all_mirrored
from mmtool.failover.modes import drill, planned_mode
from mmtool.insight.translation import translate_groups
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.offsets import Rules

APP = GroupSelection(("app",))


@pytest.fixture
def scene(tmp_path):
    """All of ``orders`` is mirrored; ``app`` has read 50 of 60, on the source and by its checkpoints."""
    made = all_mirrored(tmp_path)
    made.commits("app", "orders", 50)
    return made


@pytest.mark.parametrize("mode", ["planned", "drill"])
def test_a_group_that_is_made_meanwhile_is_seen_before_the_drain(scene, mode):
    """Without it the move would end at the write, with producers fenced off."""
    service = {"planned": planned_mode, "drill": drill}[mode]
    rehearsal = service.rehearse(scene.look(), APP)
    scene.target.groups.others["app"] = "share"
    ended = service.execute(rehearsal, scene.context(rehearsal))
    assert (ended.operation.error.exit_code, ended.operation.error.message[:34]) == (
        3,
        "on west, group app is a share grou",
    )
    assert scene.drained == []


def test_a_translation_refuses_such_a_group_and_names_the_cluster(scene):
    scene.target.groups.others["app"] = "share"
    found = translate_groups(scene.look(), APP, Rules())
    assert [verdict.refusal for plan in found.plans for verdict in plan.verdicts] == ["active_on_target"]
    assert not found.writable
    assert any(told.startswith("on west, group app is a share group") for told in found.warnings)
