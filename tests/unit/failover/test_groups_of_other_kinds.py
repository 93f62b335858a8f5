"""A share or streams group of the same name on the destination: every move is refused before anything is done."""

import pytest

from kit.scene import all_mirrored
from kit.there_and_back import ThereAndBack
from mmtool.failover.commits.exchange import check_import
from mmtool.failover.commits.group_sync import GroupSync
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.insight.translation import translate_groups
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.offsets import Rules
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
KINDS = pytest.mark.parametrize("kind", ["share", "streams"])


@pytest.fixture
def scene(tmp_path):
    """All of ``orders`` is mirrored; ``app`` has read 50 of 60, on the source and by its checkpoints."""
    made = all_mirrored(tmp_path)
    made.commits("app", "orders", 50)
    return made


def refused(rehearsal, sentence):
    error = rehearsal.refusal
    assert error is not None
    assert (error.exit_code, error.code) == (3, "active_on_target")
    assert error.message.startswith(sentence)
    assert "delete" in error.remedy


REHEARSALS = {
    "planned": lambda scene: planned_mode.rehearse(scene.look(), APP),
    "drill": lambda scene: drill.rehearse(scene.look(), APP),
    "emergency": lambda scene: emergency.rehearse(scene.side, APP),
}


@KINDS
@pytest.mark.parametrize("mode", REHEARSALS)
def test_a_rehearsal_refuses_a_group_whose_name_is_taken_on_the_target(scene, mode, kind):
    assert REHEARSALS[mode](scene).refusal is None
    scene.target.groups.others["app"] = kind
    refused(REHEARSALS[mode](scene), f"on west, group app is a {kind} group")


@KINDS
def test_a_failback_refuses_a_group_whose_name_is_taken_on_the_source(tmp_path, kind):
    scene = ThereAndBack(tmp_path)
    scene.source.groups.others["app"] = kind
    refused(failback.rehearse(scene.both, APP), f"on east, group app is a {kind} group")


@pytest.mark.parametrize("mode", ["planned", "drill"])
def test_a_group_that_is_made_meanwhile_is_seen_before_the_drain(scene, mode):
    """Without it the move would end at the write, with producers fenced off."""
    service = {"planned": planned_mode, "drill": drill}[mode]
    rehearsal = service.rehearse(scene.look(), APP)
    scene.target.groups.others["app"] = "share"
    context, journalist = scene.context(rehearsal)
    ended = service.execute(rehearsal, scene, context, journalist)
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


def test_an_import_refuses_such_a_group(scene):
    scene.target.groups.others["app"] = "streams"
    found = check_import(scene.target, {"app": {TopicPartition("east.orders", 0): 5}}, allow_rewind=False)
    assert not found.writable
    assert found.refusal.code == "active_on_target"
    assert any(told.startswith("on west, group app is a streams group") for told in found.warnings)


def test_a_group_sync_passes_such_a_group_over_and_says_why(scene):
    scene.commits("late", "orders", 40)
    scene.target.groups.others["app"] = "share"
    turn = GroupSync(scene.clusters, GroupSelection()).turn()
    rows = {row.group: (str(row.state), row.reason) for row in turn.rows}
    assert rows["app"] == ("active_on_target", "a share group, which has no consumer offsets")
    assert rows["late"] == ("synced", "")
    assert "app" not in scene.target.groups.committed
