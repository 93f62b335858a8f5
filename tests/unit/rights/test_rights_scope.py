"""Which names an ACL has to cover is read from the file alone, as narrowly as ACLs can say it."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config import load_settings
from mmtool.config.names import LITERAL
from mmtool.rights.needs import Resource
from mmtool.rights.scope import EVERYTHING, Pattern, resources

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
CANARY = Pattern("mmtool-canary")


@pytest.fixture(scope="module")
def flow_with(tmp_path_factory):
    """The flow west->east of a file with these keys, without heartbeats."""
    path = tmp_path_factory.mktemp("scope") / "mm2.properties"

    def flow(**keys):
        lines = {
            "clusters": "west, east",
            "west.bootstrap.servers": "w:9092",
            "east.bootstrap.servers": "e:9092",
            "west->east.enabled": "true",
            "heartbeats.replication.enabled": "false",
        } | {name.replace("_", "."): value for name, value in keys.items()}
        path.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        return load_settings(path, os.environ).flows[0]

    return flow


def literal(*names):
    return tuple(map(Pattern, names))


def prefixed(*names):
    return tuple(Pattern(name, "prefixed") for name in names)


@pytest.mark.parametrize(
    ("topics", "covered"),
    [
        ("orders, bills", literal("orders", "bills")),
        ("orders.eu", literal("orders.eu")),
        ("orders-.*", prefixed("orders-")),
        ("orders.*, bills", (*prefixed("orders"), *literal("bills"))),
        ("orders\\\\.eu.+", prefixed("orders.eu")),
        ("orders-(eu|us)", prefixed("orders-")),
        ("orders|bills-.*", (*literal("orders"), *prefixed("bills-"))),
        ("orders?", prefixed("order")),
        ("orders{2}", prefixed("order")),
        ("(a|b)c", (EVERYTHING,)),
        ("orders, .*", (EVERYTHING,)),
        ("x|(a|b)", (EVERYTHING,)),
        ("\\\\w+", (EVERYTHING,)),
    ],
)
def test_topics_are_covered_by_name_by_prefix_or_all(flow_with, topics, covered):
    assert resources(flow_with(topics=topics), "source", Resource.MIRRORED) == covered


def test_an_excluded_name_needs_no_right(flow_with):
    flow = flow_with(topics="orders, bills", topics_exclude="bi.*")
    assert resources(flow, "source", Resource.MIRRORED) == literal("orders")


@pytest.mark.parametrize(
    ("keys", "mirrors"),
    [
        ({}, (*literal("west.orders"), *prefixed("west.bills-"), Pattern("west.mmtool-canary"))),
        ({"replication.policy.class": IDENTITY}, (*literal("orders"), *prefixed("bills-"), CANARY)),
        (
            {"mmtool.topic.rename.format": "dr-${topic}"},
            (*literal("dr-orders"), *prefixed("dr-bills-"), Pattern("dr-mmtool-canary")),
        ),
        (
            {"mmtool.topic.rename.format": "${topic}.${source}"},
            (*literal("orders.west"), *prefixed("bills-"), Pattern("mmtool-canary.west")),
        ),
    ],
    ids=["default", "identity", "before", "after"],
)
def test_mirrors_have_the_names_that_the_policy_gives_them(flow_with, keys, mirrors):
    assert resources(flow_with(topics="orders, bills-.*", **keys), "target", Resource.MIRRORS) == mirrors


@pytest.mark.parametrize(
    ("keys", "mirrors"),
    [
        ({}, prefixed("west.")),
        ({"mmtool.topic.rename.format": "${topic}-copy"}, (EVERYTHING,)),
        ({"replication.policy.class": IDENTITY}, (EVERYTHING,)),
    ],
    ids=["default", "after", "identity"],
)
def test_mirrors_of_all_topics_have_the_policys_prefix_if_it_gives_one(flow_with, keys, mirrors):
    found = resources(flow_with(topics=".*", **keys), "target", Resource.MIRRORS)
    assert found[: len(mirrors)] == mirrors


def test_a_flow_mirrors_the_heartbeats_of_every_cluster_of_the_file_but_the_targets(flow_with):
    flow = flow_with(
        topics="orders",
        clusters="west, east, north",
        north_bootstrap_servers="n:9092",
        heartbeats_replication_enabled="true",
    )
    assert resources(flow, "source", Resource.MIRRORED) == literal("orders", "heartbeats", "north.heartbeats")


def test_dead_letters_of_a_named_topic_have_its_mirrors_name(flow_with):
    flow = flow_with(topics="orders, bills-.*")
    assert resources(flow, "target", Resource.DEAD_LETTERS) == (
        *literal("west.orders.mmtool-dlq"),
        *prefixed("west.bills-"),
    )


def test_offset_syncs_are_on_one_side_only(flow_with):
    on_target = flow_with(topics="orders", **{"offset-syncs.topic.location": "target"})
    assert resources(on_target, "source", Resource.OFFSET_SYNCS) == ()
    assert resources(on_target, "target", Resource.OFFSET_SYNCS) == literal("mm2-offset-syncs.west.internal")
    off = flow_with(topics="orders", **{"emit.offset-syncs.enabled": "false"})
    assert resources(off, "source", Resource.OFFSET_SYNCS) == ()


def covers(patterns, name):
    return any(
        pattern == EVERYTHING
        or (name.startswith(pattern.name) if pattern.pattern == "prefixed" else name == pattern.name)
        for pattern in patterns
    )


NAMES = st.text("ab-_1", min_size=1, max_size=4)
PIECES = st.one_of(
    NAMES, st.sampled_from([".*", "a?", "b+", "(a|b)", "[ab]", "a{0,2}", "|", "\\\\.", ".", "-"])
)


@given(st.lists(st.lists(PIECES, min_size=1, max_size=4).map("".join), min_size=1, max_size=3), st.data())
def test_every_mirrored_name_is_covered(flow_with, patterns, data):
    try:
        flow = flow_with(topics=",".join(patterns))
    except Exception:  # noqa: BLE001  no valid list of patterns
        return
    name = data.draw(st.text("ab-_1.", min_size=1, max_size=6))
    dotted = [pattern for pattern in flow.topics.include if "." in pattern and LITERAL.fullmatch(pattern)]
    by_dot = any(re.fullmatch(pattern, name) for pattern in dotted)  # a name with a dot matches others too
    if flow.mirrors_topic(name) and not by_dot:
        assert covers(resources(flow, "source", Resource.MIRRORED), name)
        assert covers(resources(flow, "target", Resource.MIRRORS), flow.remote_topic(name))
