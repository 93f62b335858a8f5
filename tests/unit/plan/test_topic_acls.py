"""Rules about mirrored topics: MM2's."""

import pytest

from mmtool.plan.failover.acl_rules import ANY_HOST, LITERAL, Binding
from mmtool.plan.failover.fence_plan import FenceFacts, fence_plan
from mmtool.plan.topics.configs import plan_acls


def acl(topic="orders", operation="READ", permission="ALLOW", principal="User:app"):
    return Binding(topic, LITERAL, principal, ANY_HOST, operation, permission)


def planned(*source, target=(), prefix="a."):
    return plan_acls(
        source, set(target), mirrors=lambda name: name != "private", remote_topic=lambda name: prefix + name
    )


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (acl(), [acl("a.orders")]),
        (acl(operation="WRITE"), []),
        (acl(operation="ALL"), [acl("a.orders")]),
        (acl(operation="DESCRIBE"), [acl("a.orders", "DESCRIBE")]),
        (acl(operation="ALL", permission="DENY"), [acl("a.orders", "ALL", "DENY")]),
        (
            acl(operation="WRITE", permission="DENY")._replace(host="10.0.0.7"),
            [acl("a.orders", "WRITE", "DENY")._replace(host="10.0.0.7")],
        ),
        (acl(operation="WRITE", permission="DENY"), []),
        (acl("private"), []),
        (acl("*"), []),
    ],
)
def test_a_rule_is_carried_over_without_the_right_to_write(here, there):
    assert planned(here) == there


def test_what_is_there_is_not_added_again_and_two_that_become_one_are_added_once():
    assert planned(acl(), target=[acl("a.orders")]) == []
    assert planned(acl(), acl(operation="ALL")) == [acl("a.orders")]


def test_a_rule_about_every_topic_stays_one_where_names_stay():
    assert planned(acl("*"), prefix="") == [acl("*")]


def test_a_fence_of_the_source_keeps_nobody_off_the_target():
    """Its producers are moved there."""
    (deny,) = fence_plan(
        FenceFacts(
            topics=("orders",),
            bindings=frozenset({Binding("orders", LITERAL, "User:app", ANY_HOST, "WRITE", "ALLOW")}),
            own=frozenset({"User:mm"}),
            own_complete=True,
            own_writes=frozenset(),
            may_alter=True,
            super_users=frozenset(),
            allows_unruled=False,
            writers={},
        ),
        "east",
    ).denies
    assert planned(deny, prefix="") == []
