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
from mmtool.plan.groups.facts import Commit, Member
from mmtool.plan.records.documents import UnreadableDocumentError, encode
from mmtool.plan.runbook.fingerprint import Fingerprint, GroupSeen, SideSeen, TopicSeen, differences
from mmtool.plan.runbook.plan_file import Origin, SavedPlan, read_plan, write_plan
from mmtool.plan.words import Names
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition

NAMES = Names("east", "west")
ORDERS = TopicPartition("orders", 0)
SEEN = Fingerprint(
    SideSeen(ClusterId("east-id"), {"orders": TopicSeen("A", 1)}),
    SideSeen(ClusterId("west-id"), {"east.orders": TopicSeen("B", 1)}),
    {"app": GroupSeen({ORDERS: Commit(50)}, {})},
)


def told(**changes):
    return differences(SEEN, replace(SEEN, **changes), NAMES)


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
    topics = {**seen.there.topics, "a topic that is new": TopicSeen("N", 1)}
    assert differences(seen, replace(seen, there=replace(seen.there, topics=topics)), NAMES) == []


@given(fingerprints)
def test_a_source_that_nobody_had_told_of_may_be_told_of_later(seen):
    saved, now = replace(seen, here=SideSeen(UNKNOWN)), replace(seen, here=SEEN.here)
    assert differences(saved, now, NAMES) == []


@given(saved_plans())
def test_a_step_that_would_do_something_else_makes_a_plan_stale(saved):
    first, *others = saved.plan.steps
    another = replace(saved.plan, steps=(replace(first, sentence="something else"), *others))
    assert len(saved.stale(another, saved.seen)) == 1
    assert saved.stale(saved.plan, saved.seen) == []


def test_another_cluster_is_told_by_its_ids_and_nothing_is_said_of_its_topics():
    assert told(here=SideSeen(ClusterId("other-id"))) == [
        "east was cluster east-id when the plan was made, and is now cluster other-id"
    ]


def test_a_topic_is_told_by_its_id_and_its_partitions():
    grown = SideSeen(ClusterId("east-id"), {"orders": TopicSeen("A", 2)})
    assert told(here=grown) == [
        "topic orders on east had id A and 1 partition, and now has id A and 2 partitions"
    ]
    assert told(there=SideSeen(ClusterId("west-id"))) == [
        "topic east.orders on west had id B and 1 partition, and does not exist now"
    ]


def test_a_group_is_told_by_its_commits_and_members():
    now = GroupSeen({ORDERS: Commit(51)}, {ORDERS: Commit(1, "m")}, (Member("app-1", "/10.0.0.7"),))
    assert told(groups={"app": now}) == [
        "group app, orders-0 on east: the committed offset was 50 and is now 51",
        "group app, orders-0 on west: the committed offset was none and is now 1 (metadata m)",
        "group app on east had no members; it now has the members app-1 on 10.0.0.7",
    ]
    assert told(groups={}) == ["group app was found when the plan was made, and is not found now"]


@given(saved_plans())
def test_a_step_is_told_by_what_it_was_and_is_and_by_whether_it_is_there_at_all(saved):
    first, *others = saved.plan.steps
    another, fewer = replace(first, sentence="other"), tuple(others)
    changed_step, gone = replace(saved.plan, steps=(another, *others)), replace(saved.plan, steps=fewer)
    assert saved.stale(changed_step, saved.seen) == [
        f"step {first.name} was {first.sentence!r} and is now 'other'"
    ]
    assert saved.stale(gone, saved.seen) == [
        f"step {first.name} is no longer needed; it was {first.sentence!r}"
    ]
    assert replace(saved, plan=gone).stale(saved.plan, saved.seen) == [
        f"step {first.name} is new: {first.sentence!r}"
    ]


@pytest.mark.parametrize(("mode", "verb"), [(Mode.PLANNED, "create"), (Mode.FAILBACK, "remove")])
def test_an_acl_is_told_with_its_cluster_its_host_and_what_the_plan_does_to_it(mode, verb):
    one = Binding("orders", "LITERAL", "User:app", "10.0.0.7", "WRITE", "ALLOW")
    other = Binding("tx-", "PREFIXED", "User:app", "*", "WRITE", "ALLOW", "TRANSACTIONAL_ID")
    was, now = (
        FailoverPlan("op-1", mode, NAMES.flow, (), (), (), {}, (), promotion=Promotion(acls=(acl,)))
        for acl in (one, other)
    )
    does = f"{verb} this ACL on west: ALLOW WRITE on"
    assert SavedPlan(was, NAMES, SEEN, Origin("ann@host-1", 0, "1.0")).stale(now, SEEN) == [
        f"a plan made now would not {does} topic orders for User:app from host 10.0.0.7",
        f"a plan made now would also {does} transactional ids that start with tx- for User:app",
    ]
