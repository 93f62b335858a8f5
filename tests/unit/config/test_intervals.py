"""A negative interval means never, as in MirrorMaker 2; a reset by duration is a start by time (KIP-1106)."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from mmtool.config.values import parse_reset
from mmtool.errors import ConfigError
from mmtool.replication.topics.start_offsets import _moment_ms

INTERVALS = [
    "emit.checkpoints",
    "sync.group.offsets",
    "emit.heartbeats",
    "refresh.topics",
    "refresh.groups",
    "sync.topic.configs",
    "sync.topic.acls",
]


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("scope", ["", "A->B."])
@pytest.mark.parametrize("seconds", ["-1", " -9223372036854775808 "])
def test_a_negative_interval_means_never_whatever_the_switch_says(name, scope, seconds, load):
    field = name.replace(".", "_")
    flow = load(f"{scope}{name}.enabled = true\n{scope}{name}.interval.seconds = {seconds}\n").flows[0]
    assert getattr(flow, field) is False
    assert getattr(flow, f"{field}_interval_seconds") > 0


def test_no_heartbeats_are_written_for_a_pair_whose_interval_is_negative(load):
    assert load("B->A.emit.heartbeats.interval.seconds = -1\n").heartbeats_only == ()
    assert [pair.name for pair in load("").heartbeats_only] == ["B->A"]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("by_duration:P7D", timedelta(days=7)),
        ("by_duration:p1dt2h3m4.5s", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("by_duration:PT0S", timedelta()),
        ("by_duration:+P1D", timedelta(days=1)),
        ("by_duration:P1DT-1H", timedelta(hours=23)),
        ("by_duration:-P-1D", timedelta(days=1)),
        ("by_duration:PT1,5S", timedelta(seconds=1.5)),
        ("by_duration:PT1.S", timedelta(seconds=1)),
        ("by_duration:P99999999999D", timedelta.max),
    ],
)
def test_a_reset_is_read_as_kafka_reads_it(text, start):
    assert parse_reset(text) == start


@pytest.mark.parametrize(
    "text",
    [
        *("none", "BY_DURATION:P1D", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT"),
        *("by_duration:P1W", "by_duration:P1M", "by_duration:-P1D", "by_duration:P-1D", "by_duration:PT-1H"),
        *(
            "by_duration: P1D",
            "by_duration:PT1.5H",
            "by_duration:P1DT",
            "by_duration:PT.5S",
            "by_duration:PT1M1H",
        ),
    ],
)
def test_a_reset_that_kafka_refuses_is_refused_by_its_line(text, load):
    with pytest.raises(ConfigError) as refused:
        load(f"A.consumer.auto.offset.reset = {text}\n")
    assert f":5: A.consumer.auto.offset.reset = {text}: expected" in refused.value.message


@pytest.mark.parametrize("key", ["A.consumer", "A->B.consumer", "A->B.source.consumer"])
def test_a_reset_holds_in_every_scope_from_which_mm2_takes_it(key, load):
    assert load(f"{key}.auto.offset.reset = by_duration:PT1H\n").flows[0].start == timedelta(hours=1)


@pytest.mark.parametrize("key", ["B.consumer", "A->B.target.consumer"])
def test_the_targets_consumer_starts_nothing(key, load):
    assert load(f"{key}.auto.offset.reset = by_duration:PT1H\n").flows[0].start == "earliest"


def test_a_duration_counts_back_from_now_and_never_before_the_epoch(monkeypatch):
    monkeypatch.setattr(
        "mmtool.replication.topics.start_offsets.time", SimpleNamespace(time=lambda: 1_000_000.0)
    )
    assert _moment_ms(timedelta(seconds=10)) == 999_990_000
    assert _moment_ms(timedelta.max) == 0
