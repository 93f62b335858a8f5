"""Sentences that carry the event they tell of, and the closed table of events."""

import ast
import copy
import re
from pathlib import Path

import pytest

from mmtool.events import (
    LOGGED_ONLY,
    Event,
    Notice,
    NoticeDeduplicator,
    flow_fields,
    flow_notice,
    is_for_people,
)

ROOT = Path(__file__).parents[2]
HALTED = Notice("orders is halted", Event.TOPIC_HALTED, topic="orders", partition=0, reason="")


def test_a_notice_is_the_sentence_itself():
    assert HALTED == "orders is halted"
    assert {HALTED: 1}["orders is halted"] == 1
    assert f"{HALTED}; see status" == "orders is halted; see status"


def test_a_notice_keeps_fields_that_say_something_zero_included():
    assert HALTED.fields == {"topic": "orders", "partition": 0}


def test_a_notice_stays_one_where_it_is_copied():
    """As where a result is made a plain dictionary."""
    again = copy.deepcopy(HALTED)
    assert (again, again.event, again.fields) == (HALTED, HALTED.event, HALTED.fields)


def test_behind_a_flow_s_name_a_notice_keeps_its_event_and_gets_the_flow_s_fields():
    notice = flow_notice("east->west", HALTED)
    assert notice == "east->west: orders is halted"
    assert (notice.event, notice.fields) == (
        Event.TOPIC_HALTED,
        {"flow": "east->west", "source": "east", "target": "west", "topic": "orders", "partition": 0},
    )


def test_a_bare_sentence_about_a_flow_is_the_event_that_is_named():
    assert flow_notice("a->b", "gone", Event.CLUSTER_AWAY, code="x").fields == {
        **flow_fields("a->b"),
        "code": "x",
    }
    assert flow_notice("a->b", "gone").event is Event.MESSAGE


def test_what_is_said_once_is_said_with_its_event():
    said = []
    sayings = NoticeDeduplicator(said.append)
    for _ in range(2):
        sayings.once("orders", HALTED)
    assert [told.event for told in said] == [Event.TOPIC_HALTED]


def test_events_that_only_the_log_has_are_not_for_people():
    assert not any(is_for_people(Notice("x", event)) for event in LOGGED_ONLY)
    assert is_for_people(HALTED)
    assert is_for_people("orders")


@pytest.mark.parametrize("event", Event)
def test_every_event_is_one_word_with_one_sentence(event):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", event)
    assert re.fullmatch(r"[A-Z`].*[^.]\.", event.sentence)


def test_every_event_of_the_table_is_told_somewhere():
    told = set()
    for path in [*(ROOT / "mmtool").rglob("*.py"), *(ROOT / "commands").glob("*.py")]:
        if path.name != "events.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            told |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {event.name for event in Event} - told == set()
