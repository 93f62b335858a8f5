"""What a mirrored topic is set to: MM2's rules, sent only where something differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.topics.configs import (
    ConfigEntry,
    ConfigOrigin,
    ConfigRules,
    KeptConfig,
    ResetConfig,
    SetConfig,
    plan_topic_configs,
)

RULES = ConfigRules(lambda name: name != "excluded", "target")
FROM_SOURCE = ConfigRules(lambda name: name != "excluded", "source")


def set_to(value, *, carried=True):
    """Set on the topic."""
    return ConfigEntry(value, ConfigOrigin.OVERRIDE, on_topic=True, carried=carried)


def default(value):
    """Kafka's own default, or the broker's."""
    return ConfigEntry(value, ConfigOrigin.DEFAULT, on_topic=False)


def on_brokers(value):
    """Set on brokers while they run."""
    return ConfigEntry(value, ConfigOrigin.OVERRIDE, on_topic=False)


def planned(here, there, rules=RULES, name="retention.ms"):
    return plan_topic_configs({name: here}, {} if there is None else {name: there}, rules)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (set_to("1"), set_to("1"), []),
        (set_to("1"), set_to("2"), [SetConfig("retention.ms", "1")]),
        (set_to("1"), default("2"), [SetConfig("retention.ms", "1")]),
        (set_to("1"), default("1"), [SetConfig("retention.ms", "1")]),
        (set_to("1"), None, [SetConfig("retention.ms", "1")]),
        (on_brokers("1"), default("2"), [SetConfig("retention.ms", "1")]),
        (default("1"), set_to("2"), [ResetConfig("retention.ms")]),
        (default("1"), default("2"), []),
        (default("1"), on_brokers("2"), []),
        (default("1"), None, []),
        (set_to(None), default("2"), []),
        (set_to("1", carried=False), default("2"), []),
    ],
)
def test_a_property_is_set_where_the_source_sets_it_and_reset_where_it_does_not(here, there, expected):
    assert planned(here, there) == expected


def test_with_the_source_s_defaults_every_property_is_set():
    assert planned(default("1"), default("2"), FROM_SOURCE) == [SetConfig("retention.ms", "1")]


def test_what_is_excluded_is_left_alone():
    assert planned(set_to("1"), set_to("2"), name="excluded") == []


@pytest.mark.parametrize("here", [set_to("1"), default("1")])
def test_min_insync_replicas_is_never_lowered(here):
    (kept,) = planned(here, set_to("2"), name="min.insync.replicas")
    assert isinstance(kept, KeptConfig)
    assert "the target's value 2 is safer" in kept.reason


def test_min_insync_replicas_is_raised():
    assert planned(set_to("2"), default("1"), name="min.insync.replicas") == [
        SetConfig("min.insync.replicas", "2")
    ]


entries = st.builds(
    ConfigEntry,
    st.sampled_from(["1", "2", None]),
    st.sampled_from(ConfigOrigin),
    on_topic=st.booleans(),
    carried=st.booleans(),
)
properties = st.dictionaries(st.sampled_from(["a", "b", "c", "excluded"]), entries)


@given(properties, properties, st.sampled_from([RULES, FROM_SOURCE]))
def test_carried_out_once_there_is_nothing_left_to_do(source, target, rules):
    after = dict(target)
    for step in plan_topic_configs(source, target, rules):
        after[step.name] = set_to(step.value) if isinstance(step, SetConfig) else default("9")
    assert plan_topic_configs(source, after, rules) == []
