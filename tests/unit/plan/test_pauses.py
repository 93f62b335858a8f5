"""What an operator has paused stays paused until somebody says otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.records.documents import WHOLE_FLOW, PauseRecord, PositionRecord, State, position_key
from mmtool.plan.records.holds import Holds, Pauses, name_of, pause_words, resume_words, sentence_of

TOPICS = {"orders": "id-1", "bills": "id-2"}
MARK = PauseRecord("id-1", "orders", paused=True, by="ann@east", since_ms=1_780_000_000_000, reason="disk")
POSITION = PositionRecord(
    owner="me",
    topic="orders",
    topic_id="id-1",
    partition=0,
    target_topic="east.orders",
    upstream_position=5,
    downstream_position=5,
    source_end=9,
    source_log_start=0,
    records=5,
    mirrored_bytes=50,
    state=State.RUNNING,
    reason="",
    observed_ms=1,
    behind_since_ms=1,
)


def said(topics=TOPICS, pauses=None, *, whole=False, reason=""):
    return pause_words(topics, pauses or Pauses(), whole=whole, by="ann@east", at_ms=7, reason=reason)


def after(pauses, words):
    for word in words:
        pauses = pauses.with_word(word)
    return pauses


def test_topics_are_paused_by_their_ids_and_the_flow_as_a_whole():
    assert [word.topic_id for word in said()] == ["id-1", "id-2"]
    assert [word.topic_id for word in said(whole=True)] == [WHOLE_FLOW]


def test_what_is_paused_keeps_its_first_word():
    pauses = after(Pauses(), [MARK])
    assert [word.topic_id for word in said(pauses=pauses, reason="again")] == ["id-2"]


def test_a_topic_of_a_paused_flow_cannot_go_on_by_itself():
    pauses = after(Pauses(), said(whole=True))
    with pytest.raises(ValueError, match="the whole flow is paused by ann@east"):
        resume_words(["id-1"], pauses, whole=False, by="bob@west", at_ms=9)


def test_a_pause_says_who_since_when_and_why():
    assert sentence_of(MARK) == "paused by ann@east since 2026-05-28T20:26:40Z: disk"
    assert (name_of(MARK), name_of(replace(MARK, topic_id=WHOLE_FLOW))) == ("orders", "the whole flow")


def test_a_paused_partition_shows_it_unless_it_is_halted():
    pauses = Holds(after(Pauses(), [MARK]))
    halted = replace(POSITION, state=State.HALTED, reason="diverged")
    other = replace(POSITION, topic_id="id-2")
    assert pauses.shown(POSITION).state == State.PAUSED
    assert (pauses.shown(halted), pauses.shown(other)) == (halted, other)


def test_the_control_topic_shows_positions_as_they_are_held_now():
    """Read once, or followed: a pause, a resumption and a struck out position count when they come."""
    view = ControlView()
    view.apply(POSITION.key, POSITION.encode(), 0)
    view.apply(MARK.key, MARK.encode(), 1)
    paused = view.positions["id-1", 0]
    resumed = replace(MARK, paused=False)
    view.apply(resumed.key, resumed.encode(), 2)
    running = view.positions["id-1", 0]
    view.apply(position_key("id-1", 0), None, 3)
    assert (paused.state, running, view.positions) == (State.PAUSED, POSITION, {})
