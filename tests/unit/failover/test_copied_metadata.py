"""Metadata that may hold the source's offsets is warned of, once per group, by every command that moves commits."""

import pytest

from kit.scene import all_mirrored
from kit.there_and_back import ThereAndBack
from mmtool.failover.commits.group_sync import GroupSync
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.insight.translation import translate_groups
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.groups.offsets import Rules
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
METADATA = "worker01"
COMMANDS = {
    "planned": lambda scene: planned_mode.rehearse(scene.look(), APP).warnings,
    "drill": lambda scene: drill.rehearse(scene.look(), APP).warnings,
    "emergency": lambda scene: emergency.rehearse(scene.side, APP).warnings,
    "translate-offsets": lambda scene: translate_groups(scene.look(), APP, Rules()).warnings,
    "groups sync": lambda scene: GroupSync(scene.clusters, APP).turn().warnings,
}


def metadata_told(warnings):
    return [told for told in warnings if "commit metadata" in told]


@pytest.mark.parametrize("command", COMMANDS)
def test_metadata_is_warned_of_once(tmp_path, command):
    scene = all_mirrored(tmp_path)
    scene.commits("app", "orders", 50)
    assert metadata_told(COMMANDS[command](scene)) == []
    scene.source.groups.committed["app"] = {TopicPartition("orders", 0): Commit(50, METADATA)}
    scene.told("app", "orders", (50, 50), metadata=METADATA)
    (told,) = metadata_told(COMMANDS[command](scene))
    assert told.startswith("mmtool copies the commit metadata of app (orders-0) unchanged")
    assert "offsets of east" in told


def test_a_failback_warns_of_the_target_s_offsets(tmp_path):
    scene = ThereAndBack(tmp_path)
    at, commit = next(iter(scene.target.groups.committed["app"].items()))
    scene.target.groups.committed["app"][at] = Commit(commit.offset, METADATA)
    (told,) = metadata_told(failback.rehearse(scene.both, APP).warnings)
    assert "offsets of west" in told
