"""Replication policies name topics exactly as MirrorMaker 2 does."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.translation.names import DefaultPolicy, IdentityPolicy, InternalRules, RenamePolicy

DEFAULT = DefaultPolicy()
IDENTITY = IdentityPolicy("A")

names = st.text("abAB012._-", min_size=1, max_size=12)
aliases = st.text("abc123_-", min_size=1, max_size=6)
separators = st.sampled_from([".", "_", "-", "__", ".-"])


KNOWN = DefaultPolicy(known=("us", "us.east", "us.west"))


@pytest.mark.parametrize(
    ("topic", "source", "upstream"),
    [
        ("orders", None, None),
        ("A.orders", "A", "orders"),
        ("A.B.orders", "A", "B.orders"),
        ("orders.v1", "orders", "v1"),
        ("foo.", None, None),
        ("foo..", None, None),
        (".foo", "", "foo"),
        ("a..b", "a", ".b"),
        ("..", None, None),
        ("", None, None),
        # with aliases that are known: each counts as a whole, the longest first
        ("us.east.orders", "us.east", "orders"),
        ("us.orders", "us", "orders"),
        ("us.eastern.orders", "us", "eastern.orders"),
        ("us.east", "us", "east"),
        ("us.east.", "us", "east."),
        ("us.west.us.east.orders", "us.west", "us.east.orders"),
        ("eu.us.east.orders", "eu", "us.east.orders"),
    ],
)
def test_a_remote_name_is_split_as_java_splits_it(topic, source, upstream):
    policy = KNOWN if "us." in topic else DEFAULT
    assert (policy.topic_source(topic), policy.upstream_topic(topic)) == (source, upstream)


@given(aliases, names, separators)
def test_a_remote_name_leads_back_to_its_source_and_name(alias, topic, separator):
    policy = DefaultPolicy(separator)
    if separator in alias or alias.endswith(tuple(separator)):
        return
    remote = policy.format_remote_topic(alias, topic)
    local_by_java = not topic.replace(separator, "")
    expected = (None, None) if local_by_java else (alias, topic)
    assert (policy.topic_source(remote), policy.upstream_topic(remote)) == expected


@given(names, st.sampled_from(["", ".", "_"]))
def test_the_original_topic_is_its_own_original(topic, separator):
    policy = DefaultPolicy(separator)
    original = policy.original_topic(topic)
    assert policy.original_topic(original) == original
    assert topic.endswith(original)


@pytest.mark.parametrize(
    ("policy", "checkpoints", "syncs"),
    [
        (DEFAULT, "A.checkpoints.internal", "mm2-offset-syncs.A.internal"),
        (DefaultPolicy("_"), "A_checkpoints_internal", "mm2-offset-syncs_A_internal"),
        (DefaultPolicy("_", "."), "A.checkpoints.internal", "mm2-offset-syncs.A.internal"),
        (IdentityPolicy("A", DefaultPolicy("-")), "A-checkpoints-internal", "mm2-offset-syncs-A-internal"),
        (RenamePolicy("A", "B", "dr-"), "A.checkpoints.internal", "mm2-offset-syncs.A.internal"),
    ],
)
def test_internal_names_follow_the_internal_separator(policy, checkpoints, syncs):
    assert (policy.checkpoints_topic("A"), policy.offset_syncs_topic("A")) == (checkpoints, syncs)
    assert policy.heartbeats_topic() == "heartbeats"
    assert policy.is_internal_topic(checkpoints)
    assert policy.is_internal_topic(syncs)


@pytest.mark.parametrize(
    ("topic", "since_4_0", "up_to_3_9"),
    [
        ("__consumer_offsets", True, True),
        (".hidden", True, True),
        ("mm2-offsets.A.internal", True, True),
        ("A.checkpoints.internal", True, True),
        ("orders.internal", False, True),
        ("orders-internal", False, True),
        ("checkpoints.internal", False, True),
        ("mm2-status.A", False, False),
        ("orders", False, False),
        ("heartbeats", False, False),
    ],
)
def test_what_is_internal_narrowed_in_kafka_4_0(topic, since_4_0, up_to_3_9):
    older = DefaultPolicy(rules=InternalRules.KAFKA_3_9)
    assert (DEFAULT.is_internal_topic(topic), older.is_internal_topic(topic)) == (since_4_0, up_to_3_9)


@pytest.mark.parametrize("topic", ["heartbeats", "A.heartbeats", "B.A.heartbeats"])
def test_heartbeats_are_known_any_number_of_hops_away(topic):
    assert DEFAULT.is_heartbeats_topic(topic)
    assert IDENTITY.is_heartbeats_topic(topic)


@pytest.mark.parametrize(
    ("policy", "target", "cycles", "others"),
    [
        (DEFAULT, "B", ["B.orders", "C.B.orders"], ["orders", "C.orders", "B", "B."]),
        (KNOWN, "us.east", ["us.east.orders", "us.west.us.east.orders", "eu.us.east.orders"], []),
        (KNOWN, "us.west", [], ["us.east.orders"]),
        (KNOWN, "us", [], ["us.east.orders"]),
        (RenamePolicy("A", "B", "dr-"), "B", ["dr-orders", "B.heartbeats"], ["orders", "dr-"]),
        (RenamePolicy("A", "B", "${source}-"), "B", ["B-orders"], ["orders", "A-orders"]),
        (IDENTITY, "B", ["B.heartbeats", "C.B.heartbeats"], ["orders", "B.orders"]),
    ],
)
def test_any_hop_through_the_target_is_a_cycle(policy, target, cycles, others):
    assert [topic for topic in (*cycles, *others) if policy.is_cycle(target, topic)] == cycles


def test_the_older_rule_knows_a_custom_separator_and_the_usual_two():
    older = DefaultPolicy("_", rules=InternalRules.KAFKA_3_9)
    ends = {"_internal": True, ".internal": True, "-internal": True, "internal": False}
    assert {end: older.is_internal_topic(f"x{end}") for end in ends} == ends


def test_identity_keeps_every_name_but_those_of_heartbeats():
    names = {
        "orders.v1": "orders.v1",
        "heartbeats": "A.heartbeats",
        "device-heartbeats": "A.device-heartbeats",
    }
    assert {name: IDENTITY.format_remote_topic("A", name) for name in names} == names


def test_identity_says_that_every_topic_comes_from_the_configured_source():
    assert (IDENTITY.topic_source("orders"), IDENTITY.upstream_topic("orders")) == ("A", "orders")
    assert IdentityPolicy().topic_source("orders") is None
    assert (IDENTITY.topic_source("B.heartbeats"), IDENTITY.upstream_topic("B.heartbeats")) == (
        "B",
        "heartbeats",
    )


@given(names, st.sampled_from([("dr-", ""), ("", ".copy"), ("${source}~", ""), ("x-", "-${source}")]))
def test_a_renamed_topic_leads_back_to_its_name(topic, affixes):
    policy = RenamePolicy("A", "B", *affixes)
    if policy.is_heartbeats_topic(topic):
        return
    remote = policy.format_remote_topic("A", topic)
    assert (policy.topic_source(remote), policy.upstream_topic(remote)) == ("A", topic)


def test_renaming_leaves_heartbeats_to_mm2s_own_clients():
    assert RenamePolicy("A", "B", "dr-").format_remote_topic("A", "heartbeats") == "A.heartbeats"


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY, RenamePolicy("A", "B", "dr-")])
def test_a_policy_travels_to_a_spark_worker(policy):
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 - our own bytes


def test_names_without_a_prefix_have_no_hops():
    blank = DefaultPolicy("", known=("dr",))
    assert [blank.format_remote_topic("", topic) for topic in ("orders", "MyBooks")] == ["orders", "MyBooks"]
    assert not any(blank.is_cycle("", topic) for topic in ("orders", "MyBooks"))
    assert not blank.is_cycle("dr", "drafts")
    assert blank.source_topic("", "orders") == "orders"


@given(aliases, names, separators, st.sampled_from(["default", "renamed"]))
def test_a_target_topic_leads_back_to_its_source_topic(alias, topic, separator, kind):
    default = DefaultPolicy(separator, known=(alias, f"{alias}{separator}x"))
    renamed = RenamePolicy(alias, "T", "${source}~", base=default)
    policy = default if kind == "default" else renamed
    assert policy.source_topic(alias, policy.format_remote_topic(alias, topic)) == topic


RINGS = [
    ((DefaultPolicy("."), DefaultPolicy("."), DefaultPolicy(".")), ("a", "b", "c")),
    ((DefaultPolicy("-"),) * 3, ("dc-a", "dc-b", "dc-c")),
    ((DefaultPolicy("."),) * 3, ("us", "us.east", "us.east.new")),
    ((DefaultPolicy("."),) * 3, ("us.east", "us.west", "us")),
    ((DefaultPolicy("_"),) * 3, ("a_a", "a", "a_a_a")),
]


def aware(policy, known):
    return DefaultPolicy(policy.separator, known=known)


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("whole_file", [True, False], ids=["one file", "three files"])
@pytest.mark.parametrize(("policies", "ring"), RINGS)
def test_a_ring_does_not_grow(policies, ring, whole_file, start):
    """Each of three files knows the two clusters of its flow."""
    name, at = "orders", start
    for _ in range(4 * len(ring)):
        source, target = ring[at], ring[(at + 1) % len(ring)]
        policy = aware(policies[at], ring if whole_file else (source, target))
        if policy.is_cycle(target, name):
            return
        name, at = policy.format_remote_topic(source, name), (at + 1) % len(ring)
    pytest.fail(f"it has grown to {name}")


def test_a_ring_of_renamed_topics_in_one_file_does_not_grow():
    ring, name = ("a", "b", "c"), "orders"
    base = DefaultPolicy(known=ring)
    for source, target in (("a", "b"), ("b", "c")):
        policy = RenamePolicy(source, target, "${source}-", base=base)
        assert not policy.is_cycle(target, name)
        name = policy.format_remote_topic(source, name)
    assert RenamePolicy("c", "a", "${source}-", base=base).is_cycle("a", name)
