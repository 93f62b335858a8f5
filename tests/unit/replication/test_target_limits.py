"""What a target topic takes is read from its configuration, and what nobody tells is no limit."""

from __future__ import annotations

import pytest

from mmtool.plan.topics.configs import ConfigEntry, Origin, SetConfig
from mmtool.replication.topics.target_limits import FOR_EVER, TargetLimits


def limits(**values):
    return TargetLimits.of(
        {
            name.replace("_", "."): ConfigEntry(value, Origin.OVERRIDE, on_topic=True)
            for name, value in values.items()
        }
    )


def test_limits_are_those_of_the_topic():
    told = limits(
        max_message_bytes="2000", message_timestamp_before_max_ms="5", message_timestamp_after_max_ms="7"
    )
    assert told == TargetLimits(2000, 5, 7)


@pytest.mark.parametrize("told", [{}, {"max_message_bytes": None}], ids=["nothing", "no value"])
def test_what_is_not_told_is_no_limit_but_for_the_size_that_brokers_take_by_default(told):
    assert limits(**told) == TargetLimits(1 << 20, FOR_EVER, FOR_EVER)


def test_a_topic_that_sets_its_own_times_refuses_none():
    told = limits(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="7")
    assert told == TargetLimits()


@pytest.mark.parametrize(
    ("told", "bounds"),
    [
        ({}, (60, 60)),
        ({"message_timestamp_before_max_ms": str(FOR_EVER), "message_timestamp_after_max_ms": "7"}, (60, 7)),
    ],
    ids=["before 3.6", "3.6 to 3.9"],
)
def test_the_one_bound_that_brokers_before_4_0_know_holds_where_no_other_is_set(told, bounds):
    limit = limits(message_timestamp_difference_max_ms="60", **told)
    assert (limit.before[1], limit.after[1]) == bounds


def test_all_that_a_broker_knows_of_bounds_is_lifted_for_a_topic_that_is_to_take_every_timestamp():
    old = limits(message_timestamp_difference_max_ms="60")
    assert old.any_time == [SetConfig("message.timestamp.difference.max.ms", str(FOR_EVER))]
    new = limits(message_timestamp_before_max_ms="5")
    assert new.any_time == [SetConfig("message.timestamp.before.max.ms", str(FOR_EVER))]
