"""Mirrors whose topic, or target topic, is gone: what is told, what begins again, how long it is looked for."""

import asyncio
from types import SimpleNamespace

import pytest

from kit.flow_runs import run_of
from kit.maps import blocks_of, position_of
from kit.mirror import SOURCE_ID, TARGET_ID, assigned
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.plan.records.documents import State
from mmtool.plan.topics.configs import TargetLimits
from mmtool.plan.topics.facts import source_deleted
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.driver.engine import Outcome
from mmtool.replication.driver.progress import rows_of_run
from mmtool.replication.driver.topic_refresh import TopicRefresher
from mmtool.replication.topics import mirror_topics as gone
from mmtool.replication.topics import presence
from mmtool.replication.topics.mirror_topics import MirroredTopic, TopicsView, forget_deleted
from mmtool.replication.topics.presence import AbsenceCheck
from mmtool.translation.types import TopicId, TopicPartition

PLACE, MIRROR = (SOURCE_ID, 0), "source.orders"


class Target:
    """What its brokers say of the mirror, one look after the other: the last of it from then on."""

    def __init__(self, *ids):
        self._ids = list(ids)

    async def refresh(self, topics):
        found = self._ids.pop(0) if len(self._ids) > 1 else self._ids[0]
        return {name: TopicMetadata(name, found, Code.NONE, []) for name in topics if found is not None}


@pytest.fixture
def forgotten(monkeypatch):
    """The topics that are forgotten where the target says such things of the mirror; and the places."""
    monkeypatch.setattr(presence, "_GONE_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(presence, "_LOOK_AGAIN_SECONDS", 0.01)
    struck = []

    async def strike_out(_flow, _standing, places, _count):
        struck.extend(places)

    monkeypatch.setattr(gone, "_strike_out", strike_out)

    def forget(*ids):
        standing = OwnedState({}, {PLACE: assigned().block})
        topics = asyncio.run(forget_deleted(SimpleNamespace(target=Target(*ids)), standing, 1, ()))
        return topics, struck

    return forget


def test_a_mirror_that_a_broker_has_not_heard_of_yet_is_not_begun_again(forgotten):
    """All of it would be there twice."""
    assert forgotten(None, None, TARGET_ID) == ([], [])


@pytest.mark.parametrize("found", [None, TopicId("another")])
def test_a_mirror_that_is_deleted_or_another_one_is_forgotten(forgotten, found):
    assert forgotten(found) == ([MIRROR], [PLACE])


@pytest.fixture
def looked(monkeypatch):
    """The number of looks that a check takes, told by each what is missing: the last of it from then on."""
    monkeypatch.setattr(presence, "_LOOK_SECONDS", 0.001)

    def looks(check, *missing, seconds=10.0):
        told, count = list(missing), 0

        async def look():
            nonlocal count
            count += 1
            return count, (told.pop(0) if len(told) > 1 else told[0])

        found = asyncio.run(check.of(look, seconds))
        assert found == count
        return count

    return looks


def test_what_comes_back_meanwhile_is_not_missing(looked):
    check = AbsenceCheck()
    assert (looked(check, {"a"}, {"a"}, ()), check.missing) == (3, frozenset())


def test_what_was_missing_before_is_not_waited_for_again(looked):
    check = AbsenceCheck()
    assert looked(check, {"a": "why", "b": "why"}, seconds=0.05) > 1
    assert (looked(check, ["a"]), check.missing) == (1, {"a"})
    assert (looked(check, {"a", "b"}, {"a"}), check.missing) == (2, {"a"})


def test_without_time_one_look_is_all_there_is(looked):
    check = AbsenceCheck()
    assert check.is_first
    assert (looked(check, {"a"}, seconds=0.0), check.is_first) == (1, False)


TOPIC = MirroredTopic("orders", SOURCE_ID, 1, "source.orders", TARGET_ID, TargetLimits())
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
    run.goal = {PLACE: 21}
    assert not run.has_reached_goal
    look(run, gone())
    assert run.has_reached_goal


def test_a_topic_that_was_deleted_short_of_its_end_is_halted_in_the_end_and_said_to_be_once(run):
    look(run, THERE, deleted())
    rows = rows_of_run(run, 0)
    why = source_deleted("orders", 6)
    assert [(row["topic"], row["state"], row["reason"]) for row in rows] == [("orders", State.HALTED, why)]
    assert [line for line in run.said if "orders" in line] == [f"a->b: topic orders is not mirrored: {why}"]
    healthy = {"state": State.CAUGHT_UP, "reason": ""}
    assert Outcome([*rows, healthy]).error.exit_code == 6


def test_what_was_to_be_reached_counts_where_no_pump_has_seen_it(run):
    run.goal = {PLACE: 30}
    look(run, THERE, deleted())
    assert run.view.refused == {"orders": source_deleted("orders", 15)}


def test_a_topic_that_was_mirrored_to_its_end_and_deleted_is_said_once_and_is_no_failure(run):
    run.watch.positions[PLACE] = position_of(TopicPartition("orders", 0), SOURCE_ID, 21, 21, State.CAUGHT_UP)
    look(run, THERE, deleted())
    rows = rows_of_run(run, 0)
    why = source_deleted("orders", 0)
    assert [(row["state"], row["lag_records"], row["reason"]) for row in rows] == [(State.WAITING, 0, why)]
    assert [line for line in run.said if "orders" in line] == [f"a->b: {why}"]
    assert Outcome(rows).error is None


def test_a_topic_that_had_been_deleted_before_is_not_told_of_at_a_start_unless_something_is_missing(run):
    run.watch.positions[PLACE] = position_of(TopicPartition("orders", 0), SOURCE_ID, 21, 21, State.CAUGHT_UP)
    run.found = deleted()
    asyncio.run(run.refresh())
    assert run.warnings == []
