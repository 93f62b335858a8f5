"""Rules about mirrored topics: MM2's."""

from __future__ import annotations

import pytest

from mmtool.plan.topic_acls import TopicAcl, plan_acls


def acl(topic="orders", operation="READ", permission="ALLOW", principal="User:app"):
    return TopicAcl(topic, principal, "*", operation, permission)


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
        (acl(operation="WRITE", permission="DENY"), [acl("a.orders", "WRITE", "DENY")]),
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
