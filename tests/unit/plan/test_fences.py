"""A fence as data: who is denied, who never is, and what forbids it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.fences import SUPER_USER, TOPICS, fence_facts, may
from mmtool.plan.failover.acl_rules import EVERYBODY, Binding
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.fence_plan import CannotTell, Fence, FenceFacts, FencePlan, fence_plan, unfenced
from mmtool.plan.failover.steps import FENCE_STEPS, Mode
from mmtool.plan.groups.offsets import Direction, GroupPlan
from mmtool.plan.words import Names
from mmtool.translation.types import UNKNOWN

PRINCIPALS = ("User:mm", "User:alice", "User:bob", SUPER_USER, "User:nobody")
FACTS = FenceFacts(
    topics=("orders",),
    bindings=frozenset(),
    own=frozenset({"User:mm"}),
    own_complete=True,
    own_writes=frozenset(),
    may_alter=True,
    super_users=frozenset({SUPER_USER}),
    allows_unruled=False,
    writers={},
)


def allow(principal, name="orders", pattern="LITERAL", operation="WRITE", host="*"):
    return Binding(name, pattern, principal, host, operation, "ALLOW")


def deny(principal, name="orders", pattern="LITERAL", operation="WRITE", host="*"):
    return Binding(name, pattern, principal, host, operation, "DENY")


def plan(*bindings, **facts):
    return fence_plan(replace(FACTS, bindings=frozenset(bindings), **facts), "east")


def codes(said):
    return [one.code for one in said]


# --- laws -------------------------------------------------------------------------------------------------


@given(fence_facts())
def test_taking_a_fence_away_leaves_exactly_the_rules_of_before(facts):
    fence = fence_plan(facts, "east")
    assert (facts.bindings | set(fence.denies)) - set(fence.denies) == facts.bindings


@given(fence_facts())
def test_neither_everybody_nor_mmtool_is_ever_denied(facts):
    denied = {deny.principal for deny in fence_plan(facts, "east").denies}
    assert denied.isdisjoint({EVERYBODY, *facts.own})


@given(fence_facts())
def test_whoever_may_write_is_denied_or_named(facts):
    fence = fence_plan(facts, "east")
    named = " ".join(one.sentence for one in (*fence.guards, *fence.warnings))
    after = unfenced(facts.bindings | set(fence.denies), facts.topics)
    assert [who for who, topic in after if who not in named or topic not in named] == []


@given(fence_facts())
def test_behind_a_fence_without_guards_nobody_but_mmtool_may_write(facts):
    """As Kafka's authorizer would answer; super users are asked for no rule, and are the warnings' matter."""
    fence = fence_plan(facts, "east")
    after = facts.bindings | set(fence.denies)
    writers = {who for who in PRINCIPALS for topic in facts.topics if may(after, who, "WRITE", topic)}
    assert not fence.executable or writers <= facts.own


@given(fence_facts(), st.sampled_from(["READ", "DESCRIBE", "DELETE"]))
def test_a_fence_takes_writing_from_the_denied_and_nothing_else_from_anybody(facts, other):
    fence = fence_plan(facts, "east")
    after = facts.bindings | set(fence.denies)
    denied = {(deny.principal, deny.name) for deny in fence.denies}
    changed = {
        (who, topic)
        for who in PRINCIPALS
        for topic in TOPICS
        if may(facts.bindings, who, "WRITE", topic) != may(after, who, "WRITE", topic)
    }
    assert changed <= denied
    assert [
        (who, topic)
        for who in PRINCIPALS
        for topic in TOPICS
        if may(facts.bindings, who, other, topic) != may(after, who, other, topic)
    ] == []


@given(fence_facts())
def test_a_fence_that_stands_is_not_planned_again(facts):
    fence = fence_plan(facts, "east")
    assert fence_plan(replace(facts, bindings=facts.bindings | set(fence.denies)), "east").denies == ()


# --- who is denied ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grant",
    [
        allow("User:alice"),
        allow("User:alice", operation="ALL"),
        allow("User:alice", "ord", "PREFIXED"),
        allow("User:alice", "*"),
        allow("User:alice", host="10.0.0.7"),
    ],
    ids=["literal", "all", "prefixed", "wildcard", "one host"],
)
def test_however_a_principal_came_to_write_it_is_denied_by_the_topics_own_name(grant):
    assert plan(grant).denies == (deny("User:alice"),)


@pytest.mark.parametrize(
    "grant",
    [
        allow("User:alice", operation="READ"),
        allow("User:alice", "orders-eu"),
        allow("User:alice", "orders-", "PREFIXED"),
        allow("User:alice", operation="IDEMPOTENT_WRITE"),
    ],
    ids=["reads", "another topic", "other topics", "idempotent write"],
)
def test_who_may_not_write_the_topic_is_left_alone(grant):
    assert plan(grant).denies == ()


@pytest.mark.parametrize(
    "there",
    [deny("User:alice"), deny("User:alice", "o", "PREFIXED", "ALL"), deny(EVERYBODY, "*")],
    ids=["itself", "prefixed all", "everybody"],
)
def test_what_denies_it_already_is_enough(there):
    assert plan(allow("User:alice"), there).denies == ()


def test_a_rule_that_denies_one_host_is_not_enough():
    there = deny("User:alice", host="10.0.0.7")
    assert plan(allow("User:alice"), there).denies == (deny("User:alice"),)


def test_a_fence_says_whom_it_denies_what():
    assert plan(allow("User:alice"), allow("User:bob", "o", "PREFIXED")).sentence == (
        "deny WRITE to User:alice, User:bob on orders"
    )
    assert plan().sentence == "create no ACL: the existing ACLs let only mmtool and super users write orders"
    assert plan(topics=()).sentence == "deny no principal: there is no topic to fence"
    assert (
        fence_plan(replace(FACTS, bindings=UNKNOWN), "east").sentence
        == "deny WRITE to the producers of orders"
    )


@pytest.mark.parametrize("kind", [FenceKind.ACL, FenceKind.HOOK, FenceKind.WATCH])
def test_the_steps_of_a_fence_without_topics_say_why_nothing_is_done(kind):
    billing = GroupPlan("billing", Direction.FORWARD, ())
    planned = FailoverPlan("op-1", Mode.PLANNED, Names("east", "west"), (billing,), fence=Fence(kind))
    said = [step.sentence for step in planned.with_steps().steps if step.name in FENCE_STEPS]
    why = ": billing has no committed offset in a topic of east->west"
    assert [sentence.endswith(why) for sentence in said] == [True, True, True]


# --- guards and warnings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "code", "words"),
    [
        ({"bindings": UNKNOWN}, "no_authorizer", "east has no authorizer (authorizer.class.name"),
        ({"may_alter": False}, "may_not_alter_acls", "cannot create ACLs on east: it lacks ALTER on the"),
        ({"writers": CannotTell("READ is missing")}, "producers_unknown", "READ is missing"),
        ({"bindings": frozenset({allow(EVERYBODY)})}, "everybody_may_write", "on east, an ACL for User:*"),
        (
            {"bindings": frozenset({allow(SUPER_USER)})},
            "super_user_writes",
            f"{SUPER_USER} may write orders on east",
        ),
        (
            {"bindings": frozenset(), "allows_unruled": True},
            "everybody_may_write",
            "no ACL on east names orders: every principal may write it (allow.everyone.if.no.acl.found = true)",
        ),
        (
            {"bindings": frozenset(), "allows_unruled": UNKNOWN},
            "everybody_may_write",
            "if allow.everyone.if.no.acl.found is true (mmtool cannot read it), every principal may write it",
        ),
    ],
)
def test_what_a_fence_cannot_hold_forbids_it(facts, code, words):
    there = {"bindings": frozenset({allow("User:alice")})}
    fence = fence_plan(replace(FACTS, **{**there, **facts}), "east")
    assert codes(fence.guards) == [code]
    assert words in fence.guards[0].sentence
    assert "--fence watch" in fence.guards[0].remedy


def test_a_topic_without_rules_is_nobody_s_where_rules_are_needed():
    assert (plan().guards, plan().denies) == ((), ())


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"super_users": UNKNOWN}, "super_users_unknown"),
        ({"own_complete": False}, "own_principal_unknown"),
        ({"bindings": frozenset({allow("User:mm")})}, "own_principal_writes"),
    ],
)
def test_what_a_fence_leaves_open_is_warned_of(facts, code):
    fence = fence_plan(replace(FACTS, **facts), "east")
    assert (codes(fence.warnings), fence.executable, fence.denies) == ([code], True, ())


def test_a_super_user_that_is_mmtool_is_no_guard():
    assert plan(allow("User:mm"), super_users=frozenset({"User:mm"})).executable


@pytest.mark.parametrize(
    "wrong",
    [
        deny(EVERYBODY),
        deny("User:mm"),
        deny("User:alice", "bills"),
        allow("User:alice"),
        deny("User:a", host="h"),
    ],
)
def test_a_plan_that_breaks_its_invariants_cannot_be_made(wrong):
    with pytest.raises(AssertionError, match=r"[AD]: "):
        FencePlan(("orders",), (wrong,), own=frozenset({"User:mm"}))
