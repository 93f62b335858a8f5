"""A plan in a file: the same when it is read, and stale when a fact that it rests on has changed."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kit.plans import changed, fingerprints, saved_plans
from mmtool.plan.failover.acl_promotion import Promotion
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.steps import Mode
from mmtool.plan.records.documents import UnreadableDocumentError, encode
from mmtool.plan.runbook.plan_file import PlanOrigin, SavedPlan, differences, read_plan, write_plan
from mmtool.plan.words import Names

NAMES = Names("east", "west")
EAST = {"cluster_id": "east-id", "topics": {"orders": ("A", 1)}}
GROUP = {"commits": [("orders", 0, 50, "")], "before": [], "members_here": [], "members_there": []}
SEEN = {
    "here": EAST,
    "there": {"cluster_id": "west-id", "topics": {"east.orders": ("B", 1)}},
    "groups": {"app": GROUP},
}


def told(**changes):
    return differences(SEEN, {**SEEN, **changes}, NAMES)


@given(saved_plans())
def test_a_plan_that_is_saved_and_read_is_the_same(saved):
    assert read_plan(write_plan(saved)) == saved


@given(saved_plans(), st.data())
def test_a_file_that_was_changed_anywhere_is_refused_or_means_the_same(saved, data):
    content = bytearray(write_plan(saved))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    with suppress(UnreadableDocumentError):
        assert read_plan(bytes(content)) == saved


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", encode({"kind": "failover plan"}), encode({})]
)
def test_what_is_no_plan_is_refused(content):
    with pytest.raises(UnreadableDocumentError):
        read_plan(content)


@given(fingerprints)
def test_a_plan_whose_facts_are_the_same_is_fresh(seen):
    assert differences(seen, seen, NAMES) == []


@given(fingerprints, st.data())
def test_any_fact_that_has_changed_makes_a_plan_stale(seen, data):
    now = data.draw(changed(seen))
    assume(now != seen)
    assert differences(seen, now, NAMES) != []


@given(fingerprints)
def test_a_topic_that_was_not_there_yet_may_come(seen):
    topics = {**seen["there"]["topics"], "a topic that is new": ("N", 1)}
    assert differences(seen, {**seen, "there": {**seen["there"], "topics": topics}}, NAMES) == []


@given(fingerprints)
def test_a_source_that_nobody_had_told_of_may_be_told_of_later(seen):
    saved = {**seen, "here": {"cluster_id": None, "topics": {}}}
    assert differences(saved, {**seen, "here": EAST}, NAMES) == []


def test_another_cluster_is_told_by_its_ids_and_nothing_is_said_of_its_topics():
    assert told(here={"cluster_id": "other-id", "topics": {}}) == [
        "east was cluster east-id and is now cluster other-id"
    ]
    assert told(here={"cluster_id": None, "topics": {}}) == ["east was cluster east-id and is now missing"]


def test_a_topic_is_told_by_its_id_and_its_partitions():
    assert told(here={**EAST, "topics": {"orders": ("A", 2)}}) == [
        "topic orders on east was id A with 1 partition and is now id A with 2 partitions"
    ]
    assert told(there={"cluster_id": "west-id", "topics": {}}) == [
        "topic east.orders on west was id B with 1 partition and is now missing"
    ]


def test_a_group_is_told_by_its_commits_and_members():
    now = {
        "commits": [("orders", 0, 51, "")],
        "before": [("orders", 0, 1, "m")],
        "members_here": [("app-1", "/10.0.0.7")],
        "members_there": [],
    }
    assert told(groups={"app": now}) == [
        "group app, orders-0 on east: the committed offset was 50 and is now 51",
        "group app on east: the list of members was empty and is now app-1 on 10.0.0.7",
        "group app, orders-0 on west: the committed offset was missing and is now 1 (metadata m)",
    ]
    assert told(groups={})[0] == "group app was known and is now missing"


@given(saved_plans())
def test_a_step_is_told_by_what_it_was_and_is_and_by_whether_it_is_there_at_all(saved):
    first, *others = saved.plan.steps
    another, fewer = replace(first, sentence="other"), tuple(others)
    changed_step, gone = replace(saved.plan, steps=(another, *others)), replace(saved.plan, steps=fewer)
    assert saved.stale(changed_step, saved.seen) == [
        f"step {first.name} was {first.sentence!r} and is now 'other'"
    ]
    assert saved.stale(saved.plan, saved.seen) == []
    assert saved.stale(gone, saved.seen) == [f"step {first.name} was {first.sentence!r} and is now missing"]
    assert replace(saved, plan=gone).stale(saved.plan, saved.seen) == [
        f"step {first.name} was missing and is now {first.sentence!r}"
    ]


@pytest.mark.parametrize(("mode", "change"), [(Mode.PLANNED, "creation"), (Mode.FAILBACK, "removal")])
def test_an_acl_is_told_with_its_cluster_its_host_and_what_the_plan_does_to_it(mode, change):
    one = Binding("orders", "LITERAL", "User:app", "10.0.0.7", "WRITE", "ALLOW")
    other = Binding("tx-", "PREFIXED", "User:app", "*", "WRITE", "ALLOW", "TRANSACTIONAL_ID")
    was, now = (
        FailoverPlan("op-1", mode, NAMES, (), promotion=Promotion(acls=(acl,))) for acl in (one, other)
    )
    does = f"the {change} of this ACL on west: ALLOW WRITE on"
    assert SavedPlan(was, SEEN, PlanOrigin("ann@host-1", 0, "1.0")).stale(now, SEEN) == [
        f"{does} topic orders for User:app from host 10.0.0.7, was planned and is now missing",
        f"{does} transactional ids that start with tx- for User:app, was missing and is now planned",
    ]
