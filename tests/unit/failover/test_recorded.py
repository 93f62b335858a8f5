"""Operations are told again from their entries, and only as much of them is read as is asked for."""

from dataclasses import replace

import pytest

from mmtool.errors import RefusedError
from mmtool.failover.operation.records import recorded
from mmtool.plan.failover.risks import Loss, Risk
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.records.journal import EntryKind, JournalEntry, group_body
from mmtool.translation.answers import Exact, Knowledge
from mmtool.translation.types import DownstreamOffset, TopicPartition

PLACE = TopicPartition("orders", 0)
BEGAN = JournalEntry(
    "op-1",
    1,
    EntryKind.BEGAN,
    1,
    "ann@host-1",
    "running",
    past_return=False,
    body={
        "mode": "emergency",
        "source": "east",
        "target": "west",
        "source_id": "e-id",
        "target_id": "w-id",
        "groups": ["app", "billing"],
        "steps": [["write", "writes"]],
        "step_states": {},
        "reason": "",
    },
)


def plan_of(group, offset):
    answer = Exact(DownstreamOffset(offset))
    verdict = OffsetVerdict(group, PLACE, PLACE, Commit(offset), answer, knowledge=Knowledge.CHECKPOINTS)
    return GroupPlan(group, Direction.FORWARD, (verdict,))


def told(*of_groups):
    """An operation that was about to write these, and did."""
    intents = [
        (EntryKind.GROUP, group_body(plan, {(plan.group, PLACE): Risk(Loss(0), 0, 1.0)}))
        for plan in of_groups
    ]
    ended = (EntryKind.ENDED, {"sentence": "all is well", "figures": {"rto_seconds": 1.5}, "problem": ""})
    entries = [
        replace(BEGAN, number=number, kind=kind, body=body)
        for number, (kind, body) in enumerate([*intents, ended], 2)
    ]
    return [BEGAN, *entries[:-1], replace(entries[-1], state="completed", past_return=True)]


def test_an_operation_is_told_with_the_last_that_was_planned_for_each_group():
    """It may have been resumed, and planned anew."""
    first, second, again = plan_of("app", 5), plan_of("billing", 6), plan_of("app", 7)
    (found,) = recorded(told(first, second, again))
    assert found.operation.plan.groups == (second, again)
    assert set(found.operation.plan.risks) == {("app", PLACE), ("billing", PLACE)}
    assert (found.state, found.figures.rto_seconds, found.entries) == ("completed", 1.5, 5)


def test_a_group_whose_intent_makes_no_sense_is_refused_by_whoever_asks_for_it_and_by_nobody_else():
    """An old one is in no failover's way: no other operation goes by where it was going to."""
    entries = told(plan_of("app", 5))
    entries[1] = replace(entries[1], body={"group": "app", "direction": "sideways"})
    (found,) = recorded(entries)
    assert (found.state, found.group_names) == ("completed", ("app", "billing"))
    with pytest.raises(
        RefusedError,
        match=r"entry 2 of operation op-1 in mmtool-journal\.internal on the flow's target cannot be read",
    ) as caught:
        _ = found.operation
    assert caught.value.code == "unreadable_state"


def test_an_operation_without_its_first_entry_is_refused_by_what_is_missing():
    with pytest.raises(
        RefusedError, match=r"the first entry of operation op-1 in mmtool-journal\.internal"
    ) as caught:
        recorded(told(plan_of("app", 5))[1:])
    assert caught.value.code == "unreadable_state"
    assert "delete the operation's other entries: write a tombstone" in caught.value.remedy


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entries: [replace(entries[0], body={}), *entries[1:]],
        lambda entries: [*entries[:-1], replace(entries[-1], state="elsewhere")],
        lambda entries: [*entries[:-1], replace(entries[-1], kind="rumour")],
        lambda entries: [entries[0], replace(entries[1], body={}), *entries[2:]],
    ],
    ids=["nothing of it", "an unknown state", "an unknown kind", "nobody's intent"],
)
def test_an_operation_of_which_it_is_not_known_how_it_stands_is_refused(spoil):
    with pytest.raises(
        RefusedError,
        match=r"of operation op-1 in mmtool-journal\.internal on the flow's target cannot be read",
    ):
        recorded(spoil(told(plan_of("app", 5))))
