"""The table of a flow's life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.flow.phases import (
    CLAIMED,
    IN_DOUBT,
    LEASED,
    MEANING,
    START,
    TABLE,
    FlowEvent,
    FlowPhase,
    IllegalFlowEventError,
    advance,
)

LIVES = st.lists(st.sampled_from(FlowEvent), max_size=40)


def lived(events):
    """What happened of ``events``, those that the table does not know left out: (before, event, after)."""
    phase = START
    for event in events:
        if (phase, event) in TABLE:
            before, phase = phase, advance(phase, event).next
            yield before, event, phase


def test_every_phase_and_every_row_says_what_it_means():
    assert [key for key, transition in TABLE.items() if not transition.sentence] == []
    assert set(MEANING) == set(FlowPhase)


def test_every_phase_can_be_reached_and_closed():
    reached = {START} | {transition.next for transition in TABLE.values()}
    closing = {phase for phase, event in TABLE if event is FlowEvent.CLOSE}
    assert (reached, closing) == (set(FlowPhase), set(FlowPhase))


def test_no_phase_is_both_mirrored_and_in_doubt():
    assert {*CLAIMED} & {*IN_DOUBT} == set()


@given(LIVES)
def test_the_lease_is_held_exactly_as_the_group_last_said(events):
    held = False
    for _, event, after in lived(events):
        held = {FlowEvent.LEASE_HELD: True, FlowEvent.LEASE_LOST: False}.get(event, held)
        if after is not FlowPhase.CLOSED:
            assert (after in LEASED) == held


@given(LIVES)
def test_a_flow_that_was_claimed_is_claimed_again_only_in_doubt(events):
    was_claimed = False
    for before, event, _ in lived(events):
        if event is FlowEvent.CLAIM:
            assert (before in IN_DOUBT) == was_claimed
            was_claimed = True


@given(LIVES)
def test_a_lost_lease_alone_ends_no_mirroring(events):
    for before, event, after in lived(events):
        if event in {FlowEvent.LEASE_LOST, FlowEvent.LEASE_HELD, FlowEvent.GIVE_UP} and before in CLAIMED:
            assert after in CLAIMED


@given(LIVES)
def test_a_closed_flow_stays_closed(events):
    phases = [after for _, _, after in lived(events)]
    closed = [phase is FlowPhase.CLOSED for phase in phases]
    assert closed == sorted(closed)


@pytest.mark.parametrize("event", [event for event in FlowEvent if (START, event) not in TABLE])
def test_an_event_that_cannot_happen_raises(event):
    with pytest.raises(IllegalFlowEventError, match="deferred"):
        advance(START, event)
