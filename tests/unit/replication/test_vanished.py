"""A topic that leaves the view of a running flow: what is missing of it is told, and nobody waits for it."""

from __future__ import annotations

import asyncio

import pytest

from kit.flow_runs import run_of
from kit.maps import blocks_of, position_of
from kit.mirror import SOURCE_ID, TARGET_ID, assigned
from mmtool.plan.records.documents import State
from mmtool.plan.topics.facts import source_deleted
from mmtool.replication.driver.progress import rows_of_run
from mmtool.replication.driver.service import Outcome
from mmtool.replication.driver.topic_refresh import TopicRefresher
from mmtool.replication.ownership.owned_state import OwnedState
from mmtool.replication.topics.mirror_topics import MirroredTopic, TopicsView
from mmtool.replication.topics.target_limits import TargetLimits
from mmtool.translation.types import TopicPartition

TOPIC = MirroredTopic("orders", SOURCE_ID, 1, "source.orders", TARGET_ID, TargetLimits())
PLACE = (SOURCE_ID, 0)
THERE = TopicsView({"orders": TOPIC}, matched=1)


def deleted():
    return TopicsView(deleted={"orders": source_deleted("orders", 0)})


def refused():
    return TopicsView(refused={"orders": "target topic source.orders was deleted"}, matched=1)


@pytest.fixture
def run():
    """Mirrors orders, up to 15 of 21 by the books; ``run.found`` is what the next look finds."""

    async def refresh(*_):
        return made.found

    made = run_of(refresh)
    made.found = THERE
    block = blocks_of(assigned().block.about, [(0, 0, 15)], 15, source_end=21)[-1]
    made.standing = OwnedState({}, {PLACE: block})
    made.said = []
    return made


def look(run, *views):
    """One look after the other, as a running engine makes them."""
    topics = TopicRefresher([run], run.said.append)
    for run.found in views:
        assert asyncio.run(topics._refreshed(run))
        topics.warn()


@pytest.mark.parametrize("gone", [deleted, refused])
def test_a_goal_is_not_waited_for_whose_topic_is_gone_or_cannot_be_mirrored_any_more(run, gone):
    look(run, THERE)
    assert not run.reached({PLACE: 21})
    look(run, gone())
    assert run.reached({PLACE: 21})


def test_a_topic_that_was_deleted_short_of_its_end_is_halted_in_the_end_and_said_to_be_once(run):
    look(run, THERE, deleted())
    rows = rows_of_run(run, 0, {PLACE: 21})
    why = source_deleted("orders", 6)
    assert [(row["topic"], row["state"], row["reason"]) for row in rows] == [("orders", State.HALTED, why)]
    assert [line for line in run.said if "orders" in line] == [f"a->b: topic orders is not mirrored: {why}"]
    healthy = {"state": State.CAUGHT_UP, "reason": ""}
    assert Outcome([*rows, healthy]).error.exit_code == 6


def test_what_was_to_be_reached_counts_where_no_pump_has_seen_it(run):
    run._goal = {PLACE: 30}
    look(run, THERE, deleted())
    assert run.view.refused == {"orders": source_deleted("orders", 15)}


def test_a_topic_that_was_mirrored_to_its_end_and_deleted_is_said_once_and_is_no_failure(run):
    run.watch.positions[PLACE] = position_of(TopicPartition("orders", 0), SOURCE_ID, 21, 21, State.CAUGHT_UP)
    look(run, THERE, deleted())
    rows = rows_of_run(run, 0, {})
    why = source_deleted("orders", 0)
    assert [(row["state"], row["lag_records"], row["reason"]) for row in rows] == [(State.WAITING, 0, why)]
    assert [line for line in run.said if "orders" in line] == [f"a->b: {why}"]
    assert Outcome(rows).error is None


def test_a_topic_that_had_been_deleted_before_is_not_told_of_at_a_start_unless_something_is_missing(run):
    run.watch.positions[PLACE] = position_of(TopicPartition("orders", 0), SOURCE_ID, 21, 21, State.CAUGHT_UP)
    run.found = deleted()
    asyncio.run(run.refresh())
    assert run.warnings == []
