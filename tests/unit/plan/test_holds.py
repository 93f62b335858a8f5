"""A topic may be paused, may have failed over, or both; each ends by its own word alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import position_of
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.records.documents import WHOLE_FLOW, PauseRecord, State, position_key
from mmtool.plan.records.holds import Holds, Pauses, name_of, news, pause_words, resume_words, sentence_of
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.types import TopicPartition

NAMES = {"orders": "id-1", "bills": "id-2"}
PAUSE = PauseRecord("id-1", "orders", paused=True, by="bob@west", since_ms=1_780_000_000_000, reason="disk")
MARK = FailedOverRecord(
    "orders", failed_over=True, operation_id="fo-7", by="ann@east", since_ms=1_780_000_000_000
)
BY = "failed over by ann@east since 2026-05-28T20:26:40Z (operation fo-7)"
POSITION = position_of(TopicPartition("orders", 0), "id-1", 5, 9, State.RUNNING)

pauses = st.builds(
    PauseRecord,
    topic_id=st.sampled_from([*NAMES.values(), WHOLE_FLOW]),
    topic=st.just("orders"),
    paused=st.booleans(),
    by=st.just("bob@west"),
    since_ms=st.integers(0, 9),
    reason=st.just(""),
)
marks = st.builds(
    FailedOverRecord,
    topic=st.sampled_from(list(NAMES)),
    failed_over=st.booleans(),
    operation_id=st.just("fo-7"),
    by=st.just("ann@east"),
    since_ms=st.integers(0, 9),
)


def after(words, holds=None):
    holds = holds or Holds()
    for word in words:
        holds = holds.with_word(word)
    return holds


@given(st.lists(pauses | marks))
def test_what_holds_a_topic_is_told_by_the_last_word_of_each_kind(words):
    holds = after(words)
    last = {word.key: word for word in words}
    for topic, topic_id in NAMES.items():
        failed = last.get(f"failed_over/{topic}".encode())
        paused = [last.get(f"pause/{key}".encode()) for key in (topic_id, WHOLE_FLOW)]
        hold = holds.of(topic_id, topic)
        if failed is not None and failed.failed_over:
            assert hold is not None
            assert hold.state is State.FAILED_OVER
        elif any(word is not None and word.paused for word in paused):
            assert hold is not None
            assert hold.state is State.PAUSED
        else:
            assert hold is None


@given(st.lists(pauses | marks))
def test_resuming_the_flow_lifts_every_pause_and_no_failover(words):
    holds = after(words)
    resumed = after(resume_words([], holds.pauses, whole=True, by="bob@west", at_ms=9), holds)
    assert resumed == Holds(failed_over=holds.failed_over)


@given(st.lists(pauses | marks), st.permutations(list(NAMES)))
def test_a_release_of_everything_leaves_the_pauses_as_they_were(words, order):
    holds = after(words)
    released = after([replace(MARK, topic=topic, failed_over=False) for topic in order], holds)
    assert released == Holds(holds.pauses)


def test_a_topic_that_was_deleted_and_made_again_is_still_held():
    assert after([MARK]).of("another-id", "orders") is not None
    assert after([PAUSE]).of("another-id", "orders") is None


def test_each_hold_says_who_since_when_and_what_lets_it_go_on():
    failed, paused = after([PAUSE, MARK]).of("id-1", "orders"), after([PAUSE]).of("id-1", "orders")
    assert (failed.what, failed.reason) == ("orders", BY)
    assert "failover failback" in failed.remedy
    assert "failover release" in failed.remedy
    assert "resume" not in failed.remedy
    assert "flow resume" in paused.remedy


@pytest.mark.parametrize("state", [State.RUNNING, State.HALTED, State.CAUGHT_UP])
def test_what_has_failed_over_is_shown_so_even_where_it_was_halted(state):
    shown = after([MARK]).shown(replace(POSITION, state=state, reason="before"))
    assert (shown.state, shown.reason) == (State.FAILED_OVER, BY)


def test_an_operation_s_topics_are_told_of_in_one_sentence():
    words = [MARK, PAUSE, replace(MARK, topic="bills"), replace(MARK, topic="old", failed_over=False)]
    paused, marked, released = news(words)
    assert paused.startswith("orders is paused by bob@west")
    assert marked.startswith(f"2 topics (bills, orders) are not mirrored: {BY}; ")
    assert released == "1 topic (old) is mirrored again: released by ann@east (operation fo-7)"


def said(pauses=None, *, whole=False, reason=""):
    return pause_words(NAMES, pauses or Pauses(), whole=whole, by="bob@west", at_ms=7, reason=reason)


def test_topics_are_paused_by_their_ids_and_the_flow_as_a_whole():
    assert [word.topic_id for word in said()] == ["id-1", "id-2"]
    assert [word.topic_id for word in said(whole=True)] == [WHOLE_FLOW]


def test_what_is_paused_keeps_its_first_word():
    pauses = after([PAUSE]).pauses
    assert [word.topic_id for word in said(pauses=pauses, reason="again")] == ["id-2"]


def test_a_topic_of_a_paused_flow_cannot_go_on_by_itself():
    pauses = after(said(whole=True)).pauses
    with pytest.raises(ValueError, match="the whole flow is paused by bob@west"):
        resume_words(["id-1"], pauses, whole=False, by="ann@east", at_ms=9)


def test_a_pause_says_who_since_when_and_why():
    assert sentence_of(PAUSE) == "paused by bob@west since 2026-05-28T20:26:40Z: disk"
    assert (name_of(PAUSE), name_of(replace(PAUSE, topic_id=WHOLE_FLOW))) == ("orders", "the whole flow")


def test_a_paused_partition_shows_it_unless_it_is_halted():
    pauses = after([PAUSE])
    halted = replace(POSITION, state=State.HALTED, reason="diverged")
    other = replace(POSITION, topic_id="id-2")
    assert pauses.shown(POSITION).state == State.PAUSED
    assert (pauses.shown(halted), pauses.shown(other)) == (halted, other)


def test_the_control_topic_shows_positions_as_they_are_held_now():
    """Read once, or followed: a pause, a resumption and a struck out position count when they come."""
    view = ControlView()
    view.apply(POSITION.key, POSITION.encode(), 0)
    view.apply(PAUSE.key, PAUSE.encode(), 1)
    paused = view.positions["id-1", 0]
    resumed = replace(PAUSE, paused=False)
    view.apply(resumed.key, resumed.encode(), 2)
    running = view.positions["id-1", 0]
    view.apply(position_key("id-1", 0), None, 3)
    assert (paused.state, running, view.positions) == (State.PAUSED, POSITION, {})
