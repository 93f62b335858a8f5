"""What a promotion grants: never more than the source allows, and never what exists already."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.failover.acl_promotion import (
    SAME_NAMES,
    PrincipalMap,
    Promotion,
    plan_promotion,
    plan_withdrawal,
    promotion_body,
    promotion_of,
    read_principal_map,
)
from mmtool.plan.failover.acl_rules import (
    CLUSTER,
    EVERYBODY,
    LITERAL,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    AclFacts,
    Binding,
    acl_command,
)
from mmtool.plan.words import Names
from mmtool.translation.types import UNKNOWN

NAMES = Names("east", "west")
TOPICS = ("orders", "orders-eu")
PRINCIPALS = ("User:alice", "User:bob", "User:mm", "User:boss", EVERYBODY)
HOSTS = ("10.0.0.7", "127.0.0.1")
NOBODY = AclFacts(
    frozenset(),
    frozenset({"User:mm"}),
    own_complete=True,
    may_alter=True,
    super_users=frozenset({"User:boss"}),
    allows_unruled=False,
)
IMPLIED = {"DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"}}


def allow(principal, name="orders", pattern=LITERAL, operation="WRITE", host="*", resource=TOPIC):
    return Binding(name, pattern, principal, host, operation, "ALLOW", resource)


def deny(*words, **more):
    return allow(*words, **more)._replace(permission="DENY")


def facts(*rules, **more):
    return replace(NOBODY, bindings=frozenset(rules), **more)


def plan(*source, there=(), renamed=SAME_NAMES, topics=("orders",), **more):
    return plan_promotion(topics, facts(*source), facts(*there, **more), NAMES, renamed)


def codes(guards):
    return [guard.code for guard in guards]


# --- laws -------------------------------------------------------------------------------------------------


def may(rules, principal, host, operation, resource, name):
    """What Kafka's authorizer answers to a client that is no super user: a DENY wins, and nothing is allowed unsaid."""
    about = [
        rule
        for rule in rules
        if rule.matches(name, resource)
        and rule.principal in {principal, EVERYBODY}
        and rule.host in {host, "*"}
    ]
    if any(rule.permission == "DENY" and rule.operation in {operation, "ALL"} for rule in about):
        return False
    given = IMPLIED.get(operation, {operation}) | {"ALL"}
    return any(rule.permission == "ALLOW" and rule.operation in given for rule in about)


_resources = st.one_of(
    st.tuples(st.just(TOPIC), st.sampled_from([*TOPICS, "*", "other"]), st.just(LITERAL)),
    st.tuples(st.just(TOPIC), st.sampled_from(["orders", "orders-", "o"]), st.just(PREFIXED)),
    st.tuples(st.just(TRANSACTIONAL_ID), st.sampled_from(["tx", "tx-1", "*"]), st.just(LITERAL)),
    st.tuples(st.just(TRANSACTIONAL_ID), st.sampled_from(["tx", "t"]), st.just(PREFIXED)),
    st.tuples(st.just(CLUSTER), st.just("kafka-cluster"), st.just(LITERAL)),
)


@st.composite
def rules(draw):
    resource, name, pattern = draw(_resources)
    return Binding(
        name,
        pattern,
        draw(st.sampled_from(PRINCIPALS)),
        draw(st.sampled_from(["*", *HOSTS])),
        draw(st.sampled_from(["WRITE", "DESCRIBE", "ALL", "READ", "IDEMPOTENT_WRITE"])),
        draw(st.sampled_from(["ALLOW", "ALLOW", "ALLOW", "DENY"])),
        resource,
    )


some_rules = st.frozensets(rules(), max_size=10)
maps = st.dictionaries(
    st.sampled_from(["User:alice", "User:bob"]), st.sampled_from(["User:west", "User:bob", "User:mm", ""])
)
PLACES = [
    *((TOPIC, name) for name in (*TOPICS, "other")),
    *((TRANSACTIONAL_ID, name) for name in ("tx", "tx-1", "t", "else")),
    (CLUSTER, "kafka-cluster"),
]


def originals(renamed, principal):
    """The principals of the source that are that one on the target."""
    return [who for who in (*PRINCIPALS, "User:west", "User:nobody") if renamed.of(who) == principal]


@given(some_rules, some_rules, maps)
def test_nothing_is_granted_that_the_source_does_not_allow(source, there, names):
    renamed = PrincipalMap(names)
    created = plan_promotion(TOPICS, facts(*source), facts(*there), NAMES, renamed).acls
    for principal in {acl.principal for acl in created if acl.principal != EVERYBODY}:
        of = [acl for acl in created if acl.principal == principal]
        for host in HOSTS:
            for resource, name in PLACES:
                for operation in ("WRITE", "DESCRIBE", "IDEMPOTENT_WRITE"):
                    if may(of, principal, host, operation, resource, name):
                        assert any(
                            may(source, who, host, operation, resource, name)
                            for who in originals(renamed, principal)
                        )


@given(some_rules, some_rules)
def test_a_right_for_everybody_is_one_that_everybody_has(source, there):
    created = plan_promotion(TOPICS, facts(*source), facts(*there), NAMES).acls
    for acl in created:
        if acl.principal == EVERYBODY and acl.resource == TOPIC:
            for who in (*PRINCIPALS, "User:nobody"):
                for host in HOSTS if acl.host == "*" else [acl.host]:
                    assert may(source, who, host, "WRITE", TOPIC, acl.name)


@given(some_rules, some_rules, maps)
def test_undoing_it_leaves_exactly_the_rules_of_before(source, there, names):
    created = plan_promotion(TOPICS, facts(*source), facts(*there), NAMES, PrincipalMap(names)).acls
    assert (there | set(created)) - set(created) == there


@given(some_rules, some_rules, maps)
def test_neither_mmtool_nor_a_super_user_is_granted_anything(source, there, names):
    created = plan_promotion(TOPICS, facts(*source), facts(*there), NAMES, PrincipalMap(names)).acls
    assert {acl.principal for acl in created}.isdisjoint({"User:mm", "User:boss"})


def _may_produce(rules, principal, host, topic):
    return all(may(rules, principal, host, needed, TOPIC, topic) for needed in ("WRITE", "DESCRIBE"))


@given(some_rules)
def test_whoever_may_produce_on_the_source_may_on_an_empty_target_or_is_named_by_a_warning(source):
    promotion = plan_promotion(TOPICS, facts(*source), facts(), NAMES)
    said = " ".join(warning.sentence for warning in promotion.warnings)
    for who in ("User:alice", "User:bob"):
        for topic in TOPICS:
            for host in HOSTS:
                here, there = (_may_produce(of, who, host, topic) for of in (source, promotion.acls))
                assert there or not here or who in said or EVERYBODY in said


@given(some_rules, some_rules)
def test_a_promotion_survives_the_journal(source, there):
    promotion = plan_promotion(TOPICS, facts(*source), facts(*there), NAMES)
    assert promotion_of(promotion_body(promotion, stands=True)).acls == promotion.acls


# --- what is granted --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        allow("User:alice"),
        allow("User:alice", operation="ALL"),
        allow("User:alice", "*"),
        allow("User:alice", "ord", PREFIXED),
    ],
)
def test_write_is_granted_on_the_topic_by_its_whole_name(rule):
    assert plan(rule).acls == (allow("User:alice"),)


def test_the_host_of_a_rule_is_kept():
    assert plan(allow("User:alice", host="10.0.0.7")).acls == (allow("User:alice", host="10.0.0.7"),)


def test_transactional_ids_and_idempotent_writes_come_with_their_producers_alone():
    beside = [
        allow(who, name, pattern, operation, resource=resource)
        for who in ("User:alice", "User:bob")
        for name, pattern, operation, resource in (
            ("tx-", PREFIXED, "WRITE", TRANSACTIONAL_ID),
            ("other", LITERAL, "DESCRIBE", TRANSACTIONAL_ID),
            ("kafka-cluster", LITERAL, "IDEMPOTENT_WRITE", CLUSTER),
            ("kafka-cluster", LITERAL, "ALTER", CLUSTER),
        )
    ]
    assert plan(allow("User:alice"), *beside).acls == tuple(sorted([allow("User:alice"), *beside[:3]]))


def test_all_on_a_transactional_id_becomes_write():
    every = allow("User:alice", "tx", operation="ALL", resource=TRANSACTIONAL_ID)
    assert every._replace(operation="WRITE") in plan(allow("User:alice"), every).acls


def test_a_right_of_everybody_on_transactional_ids_is_granted_to_the_producer_alone():
    shared = allow(EVERYBODY, "tx", resource=TRANSACTIONAL_ID)
    assert plan(allow("User:alice"), shared).acls == tuple(
        sorted([allow("User:alice"), shared._replace(principal="User:alice")])
    )


@pytest.mark.parametrize(
    "there", [allow("User:alice"), allow("User:alice", "o", PREFIXED, "ALL"), allow(EVERYBODY, "*")]
)
def test_what_the_target_gives_already_is_not_created(there):
    assert plan(allow("User:alice"), there=[there]).acls == ()


def test_a_principal_has_its_name_of_the_target_or_is_left_out():
    renamed = PrincipalMap({"User:alice": "User:west-alice", "User:bob": ""})
    assert plan(allow("User:alice"), allow("User:bob"), renamed=renamed).acls == (allow("User:west-alice"),)


ALICE = allow("User:alice")


@pytest.mark.parametrize(
    ("promotion", "granted", "warned"),
    [
        (plan(ALICE, deny("User:alice")), (), ["no_producer"]),
        (plan(ALICE, deny("User:alice", host="10.0.0.7")), (), ["partly_denied", "no_producer"]),
        (plan(allow(EVERYBODY)), (allow(EVERYBODY),), ["everybody_may_write"]),
        (plan(ALICE, there=[deny("User:alice")]), (ALICE,), ["denied_on_target"]),
        (plan(allow("User:boss")), (), ["super_user_writes", "no_producer"]),
    ],
    ids=["denied", "denied in part", "everybody", "denied on the target", "a super user"],
)
def test_what_is_not_granted_whole_is_warned_of(promotion, granted, warned):
    assert (promotion.acls, codes(promotion.warnings)) == (granted, warned)


def test_a_right_on_a_prefix_of_transactional_ids_is_named_with_its_kind():
    tx = allow("User:alice", "tx-", PREFIXED, resource=TRANSACTIONAL_ID)
    denied = deny("User:alice", "tx-", PREFIXED)._replace(resource=TRANSACTIONAL_ID)
    (warning,) = plan(allow("User:alice"), tx, there=[denied]).warnings
    assert "transactional ids that start with tx-: DENY wins" in warning.sentence


@pytest.mark.parametrize(
    ("here", "there", "named"), [(UNKNOWN, frozenset(), "east"), (frozenset(), UNKNOWN, "west")]
)
def test_without_an_authorizer_there_is_nothing_to_promote(here, there, named):
    promotion = plan_promotion(TOPICS, replace(NOBODY, bindings=here), replace(NOBODY, bindings=there), NAMES)
    assert codes(promotion.guards) == ["no_authorizer"]
    assert promotion.guards[0].sentence.startswith(f"{named} has no authorizer")


@pytest.mark.parametrize("allows", [True, UNKNOWN])
def test_a_first_acl_that_would_lock_out_everybody_else_is_refused(allows):
    assert codes(plan(allow("User:alice"), allows_unruled=allows).guards) == ["everybody_may_write"]
    ruled = [allow("User:carol", operation="READ")]
    assert plan(allow("User:alice"), there=ruled, allows_unruled=allows).guards == ()


# --- sentences --------------------------------------------------------------------------------------------


def test_the_command_that_removes_a_rule_quotes_its_names():
    rule = allow("User:CN=app one", "tx-", PREFIXED, resource=TRANSACTIONAL_ID)
    assert acl_command(rule, "west-1:9092") == (
        "kafka-acls.sh --bootstrap-server west-1:9092 --remove --force --transactional-id tx-"
        " --resource-pattern-type prefixed --allow-principal 'User:CN=app one' --allow-host '*' --operation Write"
    )


# --- withdrawal -------------------------------------------------------------------------------------------

TX = allow("User:alice", "tx", resource=TRANSACTIONAL_ID)


def test_a_failback_withdraws_what_was_promoted_and_still_exists():
    promoted = {allow("User:alice"), allow("User:bob"), TX}
    withdrawal = plan_withdrawal(["orders"], promoted, facts(allow("User:alice"), TX, allow("User:carol")))
    assert withdrawal == Promotion(
        is_asked_for=True, acls=tuple(sorted([allow("User:alice"), TX])), withdraws=True
    )


def test_what_a_producer_of_a_topic_that_stays_needs_is_not_withdrawn():
    promoted = {allow("User:alice"), allow("User:alice", "bills"), TX}
    assert plan_withdrawal(["orders"], promoted, facts(*promoted)).acls == (allow("User:alice"),)


def test_without_anything_promoted_there_is_no_step():
    assert not plan_withdrawal(["orders"], (), facts(allow("User:alice"))).is_asked_for


# --- the map of principals --------------------------------------------------------------------------------


def test_a_map_has_two_columns_and_may_have_a_header_and_quotes():
    lines = ["source_principal,target_principal", '"User:CN=a,O=b", User:west-a', "", "User:old,"]
    assert read_principal_map(lines) == PrincipalMap({"User:CN=a,O=b": "User:west-a", "User:old": ""})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("User:a", "line 1 has 1 column instead of 2"),
        ("User:a,b", "line 1: 'b' is not a principal such as User:app"),
        ("User:a,User:*", "line 1: User:[*] cannot be renamed"),
        ("User:*,User:a", "line 1: User:[*] cannot be renamed"),
        ('"User:a,User:b', "line 1: unexpected end of data"),
    ],
)
def test_a_wrong_line_is_named(line, said):
    with pytest.raises(ValueError, match=said):
        read_principal_map([line])


def test_a_principal_that_is_named_twice_is_refused():
    with pytest.raises(ValueError, match="line 2: User:a is named twice"):
        read_principal_map(["User:a,User:b", "User:a,User:c"])
