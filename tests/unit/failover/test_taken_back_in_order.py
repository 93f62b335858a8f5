"""Groups that were moved more than once are put back in order: nobody puts back what a later operation has written."""

from dataclasses import replace

import pytest

from kit.scene import all_mirrored
from mmtool.failover.commits.undo import Undoing
from mmtool.failover.modes import emergency
from mmtool.failover.operation.records import in_journal_order, recorded
from mmtool.plan.groups.facts import GroupKind, GroupSelection
from mmtool.plan.groups.undo import UndoGroup
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition


@pytest.fixture
def scene(tmp_path):
    return all_mirrored(tmp_path)


def moved(scene, *groups):
    """An emergency of these groups, to its end; its name."""
    rehearsal = emergency.rehearse(scene.side, GroupSelection(groups))
    assert emergency.execute(rehearsal, scene.context(rehearsal)).operation.error is None
    scene.lock.leave()
    return rehearsal.plan.operation_id


def test_what_came_later_is_told_by_the_journal_and_not_by_the_clocks_of_hosts(scene):
    moved(scene, "app")
    moved(scene, "late")
    entries = list(scene.journal.entries())
    first = entries[0].operation_id
    slow = [
        replace(one, at_ms=one.at_ms + 86_400_000) if one.operation_id == first else one for one in entries
    ]
    assert recorded(slow)[0].operation_id != first
    assert in_journal_order(slow)[0].operation_id == first


@pytest.mark.parametrize(
    ("groups", "whom"), [(["app"], "the group"), (["app", "late"], "each of the groups app, late")]
)
def test_a_refused_undo_says_what_to_do_for_each_group(scene, groups, whom):
    place = TopicPartition("orders", 0)

    def remedy(reason):
        undone = [UndoGroup(name, {}, frozenset(), {place: reason}, {}) for name in groups]
        return Undoing(scene.target, tuple(undone), 0.0).refusal.remedy

    assert f"{whom} has members on west: stop them" in remedy(Reason.ACTIVE_ON_TARGET)
    assert f"{whom} has since committed other offsets on west" in remedy(Reason.WOULD_REWIND)


def test_a_refused_undo_of_a_share_group_names_the_tool_of_share_groups(scene):
    place = TopicPartition("orders", 0)
    group = UndoGroup("app", {}, frozenset(), {place: Reason.WOULD_REWIND}, {}, GroupKind.SHARE)
    assert "with `kafka-share-groups --reset-offsets" in Undoing(scene.target, (group,), 0.0).refusal.remedy
