"""The table of an operation's life."""

import pytest

from mmtool.failover.operation.states import (
    START,
    TABLE,
    IllegalEventError,
    OperationState,
    Phase,
    Trigger,
    advance,
)


def test_every_row_says_what_it_means():
    assert [key for key, transition in TABLE.items() if not transition.sentence] == []


def test_every_state_but_the_last_ones_is_left_by_some_row_and_every_row_can_be_reached():
    reached = {START} | {transition.next for transition in TABLE.values()}
    assert {standing for standing, _ in TABLE} <= reached


def test_an_operation_is_completed_only_behind_the_point_of_no_return():
    phases = {t.next.phase for t in TABLE.values() if t.next.state is OperationState.COMPLETED}
    assert phases == {Phase.AFTER}


def test_the_way_back_over_the_point_is_only_for_what_wrote_nothing():
    back = [
        event
        for (standing, event), t in TABLE.items()
        if (standing.phase, t.next.phase) == (Phase.AFTER, Phase.BEFORE)
    ]
    assert back == [Trigger.NOTHING_WRITTEN]


@pytest.mark.parametrize("event", [event for event in Trigger if (START, event) not in TABLE])
def test_an_event_that_cannot_happen_raises(event):
    with pytest.raises(IllegalEventError, match="planned"):
        advance(START, event)
