"""Share groups: moved as such, and refused before anything is done where the destination cannot take one."""

import pytest

from kit.scene import all_mirrored
from mmtool.failover.commits.group_configs import bring_configs
from mmtool.failover.modes import drill, planned_mode
from mmtool.insight.translation import translate_groups
from mmtool.plan.groups.facts import GroupKind, GroupSelection, GroupStanding, Member, make_room
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict, Rules
from mmtool.translation.answers import BACK, FORWARD, Reason, Sides
from mmtool.translation.types import TopicPartition

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


def test_a_share_group_is_refused_where_brokers_do_not_know_such_groups(scene):
    scene.source.groups.others["app"] = "share"
    scene.target.groups.knows_share_groups = False
    found = translate_groups(scene.look(), APP, Rules())
    assert not found.writable
    assert [
        "the brokers of west have no share groups" in plan.why(plan.verdicts[0]) for plan in found.plans
    ] == [True]


def test_a_share_group_is_moved_as_one(scene):
    scene.source.groups.others["app"] = "share"
    rehearsal = planned_mode.rehearse(scene.look(), APP)
    ended = planned_mode.execute(rehearsal, scene.context(rehearsal))
    assert ended.operation.error is None
    assert scene.target.groups.listing().kind("app") is GroupKind.SHARE


def test_configs_of_a_share_group_are_brought_before_it_is_written(scene):
    scene.source.groups.others["app"] = "share"
    scene.source.groups.configured["app"] = {"share.auto.offset.reset": "earliest"}
    rehearsal = planned_mode.rehearse(scene.look(), APP)
    planned_mode.execute(rehearsal, scene.context(rehearsal))
    assert scene.target.groups.configured == {"app": {"share.auto.offset.reset": "earliest"}}


def test_a_config_with_another_value_on_the_target_is_replaced_once_and_named(scene):
    scene.source.groups.configured["app"] = {"share.auto.offset.reset": "earliest", "share.heartbeat": "5"}
    scene.target.groups.configured["app"] = {"share.auto.offset.reset": "latest", "share.session": "9"}
    known = {}
    for said in (1, 0):
        brought, problems, replaced = bring_configs(
            ["app"], scene.source, scene.target, known, {"app": "app-dr"}.__getitem__
        )
        known |= brought
        assert (len(replaced), problems) == (said, [])
        for sentence in replaced:
            assert "share.auto.offset.reset is earliest, as on east; before it was latest" in sentence
            assert sentence.endswith("--entity-name app-dr --add-config share.auto.offset.reset=latest")
    assert scene.target.groups.configured["app"] == known["app"] | {"share.session": "9"}


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.UNKNOWN_GROUP}))
@pytest.mark.parametrize("sides", [FORWARD, BACK, Sides("east", "west", is_emergency=True)])
@pytest.mark.parametrize("place", [None, TopicPartition("orders", 0)], ids=["alone", "paired"])
def test_a_remedy_for_a_share_group_names_the_tool_and_the_config_of_share_groups(reason, sides, place):
    direction = Direction.REVERSE if sides.is_reverse else Direction.FORWARD
    verdict = OffsetVerdict("app", place, place, refusal=reason)
    why = GroupPlan("app", direction, (verdict,), sides, GroupKind.SHARE).why(verdict)
    assert [word for word in why.split() if "consumer-groups" in word or word == "auto.offset.reset"] == []


@pytest.mark.parametrize("kind", GroupKind)
def test_who_waits_for_members_is_given_the_timeout_of_their_kind_of_group(kind):
    said = make_room("app", "west", GroupStanding("Stable", (Member("app-1", "/10.0.0.7"),), kind))
    config = {"share": "share.session.timeout.ms", "streams": "streams.session.timeout.ms"}
    assert f"({config.get(kind, 'session.timeout.ms')})" in said
