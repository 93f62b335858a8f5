"""Topic configs that a target refuses are adjusted or left out one by one, and every good one beside them is set."""

from dataclasses import replace

import pytest

from mmtool.kafka.admin.topics import apply_configs
from mmtool.kafka.ports import Problem
from mmtool.plan.topics.configs import ConfigAdjustment, adjustment_sentences, nearest_value

UNKNOWN = "Unknown topic config name: message.format.version"
TOO_SMALL = "Invalid value 100000 for configuration segment.bytes: Value must be at least 1048576"


class Broker:
    """Refuses a topic by the first rule that its configs break.

    Args:
        rules: From a topic's configs to the problem; None where they are taken.
    """

    def __init__(self, *rules):
        self.rules = rules
        self.set = {}
        self.requests = 0

    def __call__(self, changes, *, validate_only):
        self.requests += 1
        failed = {topic: why for topic, of in changes.items() if (why := self.refusal(of))}
        if not validate_only:
            self.set |= {topic: dict(of) for topic, of in changes.items() if topic not in failed}
        return failed

    def refusal(self, configs):
        return next((why for rule in self.rules if (why := rule(configs))), None)


def unknown(configs):
    return Problem("INVALID_CONFIG", UNKNOWN) if "message.format.version" in configs else None


def too_small(configs):
    small = int(configs.get("segment.bytes", "1048576")) < 1048576
    return Problem("INVALID_CONFIG", TOO_SMALL) if small else None


def no_tiers(configs):
    """Its text names no config."""
    return (
        Problem("INVALID_CONFIG", "Tiered Storage functionality is disabled")
        if configs.get("remote.storage.enable") == "true"
        else None
    )


def adjusted(result):
    return {(one.topic, one.name): (one.wanted, one.given) for one in result.adjustments}


def test_an_unknown_config_is_left_out_a_small_one_raised_and_a_good_one_kept():
    broker = Broker(unknown, too_small)
    wanted = {"retention.ms": "7", "segment.bytes": "100000", "message.format.version": "3.0-IV1"}
    result = apply_configs({"t": wanted}, broker)
    assert broker.set == {"t": {"retention.ms": "7", "segment.bytes": "1048576"}}
    assert adjusted(result) == {
        ("t", "message.format.version"): ("3.0-IV1", None),
        ("t", "segment.bytes"): ("100000", "1048576"),
    }
    assert result.failed == {}


def test_a_config_that_the_text_does_not_name_is_found_by_trying_one_at_a_time():
    broker = Broker(no_tiers, too_small)
    wanted = {"a": "1", "remote.storage.enable": "true", "segment.bytes": "100000", "z": "2"}
    result = apply_configs({"t": wanted}, broker)
    assert broker.set == {"t": {"a": "1", "segment.bytes": "1048576", "z": "2"}}
    assert set(adjusted(result)) == {("t", "remote.storage.enable"), ("t", "segment.bytes")}


def test_a_policy_that_refuses_two_configs_together_costs_the_later_one_only():
    def both(configs):
        return Problem("POLICY_VIOLATION", "not these two") if {"a", "b"} <= configs.keys() else None

    broker = Broker(both)
    result = apply_configs({"t": {"a": "1", "b": "2", "c": "3"}}, broker)
    assert (broker.set, set(adjusted(result))) == ({"t": {"a": "1", "c": "3"}}, {("t", "b")})


def test_a_topic_that_is_refused_without_any_config_fails_with_the_reason_and_alone():
    def never(configs):
        return Problem("POLICY_VIOLATION", "replication factor too low") if "marked" in configs else None

    two_needed = Problem("POLICY_VIOLATION", "two replicas are needed")

    class Policy(Broker):
        def __call__(self, changes, *, validate_only):
            refused = {"bad": two_needed} if "bad" in changes else {}
            rest = {topic: of for topic, of in changes.items() if topic != "bad"}
            return {**super().__call__(rest, validate_only=validate_only), **refused}

    broker = Policy(unknown, never)
    result = apply_configs({"bad": {"a": "1"}, "t": {"message.format.version": "3.0-IV1", "a": "1"}}, broker)
    assert result.failed == {"bad": two_needed}
    assert broker.set == {"t": {"a": "1"}}
    assert {one.topic for one in result.adjustments} == {"t"}


@pytest.mark.parametrize("named", [True, False])
def test_a_topic_fails_where_a_config_is_refused_that_it_needs(named):
    text = "Invalid value compact for configuration cleanup.policy: no" if named else "no"

    def compact(configs):
        refuses = configs.get("cleanup.policy") == "compact"
        return Problem("INVALID_CONFIG", text) if refuses else None

    wanted = {"t": {"cleanup.policy": "compact", "segment.bytes": "100000"}}
    broker = Broker(compact, too_small)
    result = apply_configs(wanted, broker, frozenset({"cleanup.policy"}))
    assert (result.failed, result.adjustments, broker.set) == ({"t": Problem("INVALID_CONFIG", text)}, [], {})
    assert apply_configs(wanted, Broker(too_small), frozenset({"cleanup.policy"})).failed == {}


def test_a_request_that_times_out_during_the_trials_loses_no_config():
    class Slow(Broker):
        def __call__(self, changes, *, validate_only):
            failed = super().__call__(changes, validate_only=validate_only)
            return dict.fromkeys(changes, Problem("_TIMED_OUT", "slow")) if self.requests == 4 else failed

    broker = Slow(no_tiers)
    apply_configs({"t": {"a": "1", "b": "2", "remote.storage.enable": "true"}}, broker)
    assert broker.set == {"t": {"a": "1", "b": "2"}}


def test_a_thousand_topics_with_the_same_wrong_configs_cost_as_many_requests_as_one():
    wanted = {f"t{n}": {"message.format.version": "3.0-IV1", "segment.bytes": "1"} for n in range(1000)}
    broker = Broker(unknown, too_small)
    assert len(apply_configs(wanted, broker).adjustments) == 2000
    assert broker.requests == 3


@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "INVALID_REPLICATION_FACTOR", "_TIMED_OUT"])
def test_a_topic_that_fails_for_another_reason_is_not_tried_again(code):
    broker = Broker(lambda _: Problem(code, "no"))
    assert apply_configs({"t": {"a": "1"}}, broker).failed == {"t": Problem(code, "no")}
    assert broker.requests == 1


def test_a_broker_that_refuses_its_own_lowest_value_too_ends_with_the_config_left_out():
    small = Problem("INVALID_CONFIG", TOO_SMALL)
    broker = Broker(lambda configs: small if "segment.bytes" in configs else None)
    result = apply_configs({"t": {"segment.bytes": "5"}}, broker)
    assert (broker.set, adjusted(result)) == ({"t": {}}, {("t", "segment.bytes"): ("5", None)})


@pytest.mark.parametrize(
    ("wanted", "text", "nearest"),
    [
        ("100000", TOO_SMALL, "1048576"),
        ("2", "Invalid value 2.0 for configuration min.cleanable.dirty: Value must be no more than 1", "1"),
        ("77", "Invalid value 77 for configuration x: Value must be between 1 and 9 or equal to -1", "9"),
        ("0", "Invalid value 0 for configuration x: Value must be between 1 and 9 or equal to -1", "1"),
        ("-1", "POLICY: retention.ms must be at least 3600000", None),
        ("-7", "Invalid value -7 for configuration retention.ms: Value must be at least -1", "-1"),
        ("9", "Value must not be more than retention.ms property value: 8", "8"),
        ("compact,foo", "Invalid value foo for configuration cleanup.policy: String must be", "compact"),
        ("foo", "Invalid value foo for configuration cleanup.policy: String must be one of: ...", None),
        ("lzma", "Invalid value lzma for configuration compression.type: String must be one of: gzip", None),
        ("9" * 30, "Invalid value 9 for configuration segment.ms: Not a number of type LONG", None),
    ],
)
def test_the_nearest_value_that_a_broker_takes_is_read_from_its_text(wanted, text, nearest):
    assert nearest_value(wanted, text) == nearest


def test_each_config_is_named_with_its_topics_and_both_values():
    wanted = {"segment.bytes": "100000", "message.format.version": "3.0-IV1"}
    result = apply_configs({"x": dict(wanted), "y": dict(wanted)}, Broker(unknown, too_small))
    assert adjustment_sentences(result.adjustments, "A", "B") == [
        f"topics x, y: {said}; mirroring continues"
        for said in (
            "message.format.version is 3.0-IV1 on A and not set on B, whose brokers do not know it",
            "segment.bytes is 100000 on A and 1048576 on B; the brokers of B say: Value must be at least 1048576",
        )
    ]


def test_a_config_that_is_left_out_is_named_with_the_value_that_the_target_keeps():
    refused = ConfigAdjustment("x", "compression.type", "lzma", None, "no lzma here", "producer")
    assert adjustment_sentences([refused, replace(refused, name="preallocate", kept=None)], "A", "B") == [
        f"topic x: {said}; the brokers of B say: no lzma here; mirroring continues"
        for said in (
            "compression.type is lzma on A and stays producer on B",
            "preallocate is lzma on A and not set on B",
        )
    ]
