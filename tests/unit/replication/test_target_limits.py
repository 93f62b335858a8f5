"""What a target topic takes is read from its configuration, and what nobody tells is no limit."""

from __future__ import annotations

import pytest

from mmtool.plan.topic_configs import ConfigEntry, Origin
from mmtool.replication.target_limits import FOR_EVER, TargetLimits


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
