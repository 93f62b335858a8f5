"""Groups that were moved more than once are put back in order: nobody puts back what a later operation has written."""

from dataclasses import replace

import pytest

from kit.scene import all_mirrored
from mmtool.errors import RefusedError
from mmtool.failover.commits.undo import Undoing
from mmtool.failover.modes import emergency
from mmtool.failover.operation.records import in_journal_order, recorded
from mmtool.failover.operation.recovery import rehearse_taking_back, take_back
from mmtool.failover.operation.states import Event
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.undo import UndoGroup
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import Reason
from mmtool.translation.types import ClusterId, TopicPartition

IDENTITY = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")


@pytest.fixture
def scene(tmp_path):
    made = all_mirrored(tmp_path)
    for group in ("app", "late"):
        made.commits(group, "orders", 50)
    return made


def moved(scene, *groups):
    """An emergency of these groups, to its end; its name."""
    rehearsal = emergency.rehearse(scene.side, GroupSelection(groups))
    context, log = scene.context(rehearsal)
    assert emergency.execute(rehearsal, context, log).operation.error is None
    scene.lock.leave()
    return rehearsal.plan.operation_id


def rolled_back(scene, name):
    entries = list(scene.journal.entries())
    found = next(one for one in recorded(entries) if one.operation_id == name)
    rehearsal = replace(emergency.rehearse(scene.side, GroupSelection(("app",))), plan=found.operation.plan)
    context, log = scene.context(rehearsal, since=found)
    event, others = Event.ROLL_BACK, in_journal_order(entries)
    try:
        take_back(
            lambda: rehearse_taking_back(
                found, event, scene.target, scene.state, IDENTITY, "bob@host-2", 0, others=others
            ),
            context,
            log,
        )
    finally:
        scene.lock.leave()


def stands(scene, group):
    return [commit.offset for commit in scene.target.groups.committed.get(group, {}).values()]


def test_what_a_later_operation_has_written_is_not_put_back_under_it_though_it_is_the_same_offset(scene):
    first, second = moved(scene, "app", "late"), moved(scene, "app")
    with pytest.raises(RefusedError, match=rf"operation {second} \(emergency\) by .* moved app later") as no:
        rolled_back(scene, first)
    assert (no.value.code, no.value.exit_code, second in no.value.remedy) == ("moved_since", 3, True)
    assert (stands(scene, "app"), scene.marks.moved) == ([50], {"app", "late"})
    rolled_back(scene, second)
    assert stands(scene, "app") == [50]
    rolled_back(scene, first)
    assert (stands(scene, "app"), scene.marks.moved) == ([], set())


def test_who_was_moved_by_another_operation_is_in_nobody_s_way(scene):
    first, second = moved(scene, "app"), moved(scene, "late")
    rolled_back(scene, first)
    assert (stands(scene, "app"), stands(scene, "late")) == ([], [50])
    rolled_back(scene, second)
    assert stands(scene, "late") == []


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

    assert remedy(Reason.ACTIVE_ON_TARGET) == (
        f"active_on_target: {whom} has members on west: stop them, then run the same command again"
    )
    assert remedy(Reason.WOULD_REWIND) == (
        f"would_rewind: {whom} has since committed other offsets on west, and keeps them; to go back in spite of that,"
        " reset it to its previous offsets with `kafka-consumer-groups --reset-offsets --to-offset OFFSET --execute`"
        " on west, then run the"
        " same command again"
    )
