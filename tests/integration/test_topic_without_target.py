"""A topic whose name the target cannot hold costs its own row, and no other topic, group or second."""

from __future__ import annotations

import json
import time

import pytest

from kit.lookups import groups_of
from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

SECONDS = 10.0
"""More than any of these commands takes, and far less than the 30 s of ``--timeout``."""


class Flow:
    """Topic ``short`` is mirrored; ``long`` has 249 characters, and its name on the target has 256."""

    def __init__(self, bench):
        stem = f"apart-{time.monotonic_ns()}"
        self.short, self.long = f"{stem}-t", f"{stem}-".ljust(249, "x")
        self.only_short, self.both = f"{stem}-g", f"{stem}-h"
        bootstrap = bench.fleet["source"].bootstrap
        for topic in (self.short, self.long):
            create_topic(bootstrap, topic, 2)
            produce(bootstrap, Load(topic, 1_000, 2, 100))
        self.commit(bootstrap, self.only_short, self.short)
        self.commit(bootstrap, self.both, self.short, self.long)
        self.properties = bench.properties(f"{stem}.*")
        replicated = bench.catch_up(self.properties)
        assert replicated.code == 6, replicated.stderr  # the long topic alone is halted

    @staticmethod
    def commit(bootstrap, group, *topics):
        offsets = {TopicPartition(topic, n): Commit(20 + n) for topic in topics for n in (0, 1)}
        assert groups_of(bootstrap).alter(group, offsets) == {}


@pytest.fixture(scope="module")
def flow(bench):
    return Flow(bench)


@pytest.fixture
def run(mmtool, flow):
    def asked(*words):
        return mmtool(*words, "-c", flow.properties, "-o", "json")

    return asked


def told(flow, answer, key):
    return {(row["topic"], row["partition"]): row[key] for row in answer.rows}


def test_a_group_that_does_not_read_the_topic_is_translated_as_ever(run, flow):
    answer = run("translate-offsets", "-g", flow.only_short)
    assert answer.code == 0, answer.stderr
    assert told(flow, answer, "downstream_offset") == {(flow.short, 0): 20, (flow.short, 1): 21}
    assert answer.seconds < SECONDS


def test_of_a_group_that_reads_both_the_long_topic_alone_is_refused(run, flow):
    answer = run("translate-offsets", "-g", flow.both)
    assert answer.code == 3
    reasons = told(flow, answer, "reason")
    assert [reasons[flow.short, n] for n in (0, 1)] == ["", ""]
    assert [reasons[flow.long, n] for n in (0, 1)] == ["partition_missing"] * 2
    true_reason = "its name of 256 characters is longer than Kafka's limit of 249"
    assert all(true_reason in told(flow, answer, "detail")[flow.long, n] for n in (0, 1))
    (error,) = json.loads(answer.stdout)["errors"]
    assert true_reason in error["remedy"]
    assert flow.short not in error["message"] + error["remedy"]
    assert answer.seconds < SECONDS


def test_an_audit_has_a_row_for_it_with_the_true_reason(run, flow):
    answer = run("groups", "audit", "-g", flow.both)
    assert told(flow, answer, "verdict")[flow.long, 0] == "not_mirrored"
    assert "256 characters" in told(flow, answer, "reason")[flow.long, 0]
    assert answer.seconds < SECONDS


@pytest.mark.parametrize("words", [("failover", "planned"), ("failover", "drill")])
def test_a_failover_refuses_the_group_that_reads_it_and_says_why(run, flow, words):
    answer = run(*words, "-g", flow.both)
    assert answer.code == 3
    assert (
        f"{flow.long}-0: cluster target cannot have a topic of this name: its name of 256 characters"
        in answer.stderr
    )
    assert answer.seconds < SECONDS


@pytest.mark.parametrize("words", [("groups", "sync", "--once"), ("failover", "drill", "--execute", "--yes")])
def test_nothing_keeps_back_the_group_that_does_not_read_it(run, flow, words):
    answer = run(*words, "-g", flow.only_short)
    assert answer.code == 0, answer
    assert answer.seconds < SECONDS


def test_a_status_shows_the_long_topic_halted_and_the_other_one_mirrored(run, flow):
    answer = run("status")
    lags, states, reasons = (told(flow, answer, key) for key in ("lag_records", "state", "reason"))
    assert [lags[flow.short, n] for n in (0, 1)] == [0, 0]
    assert states[flow.long, 0] == "halted"
    assert "longer than the max allowed length 249" in reasons[flow.long, 0]
    assert answer.seconds < SECONDS


def test_the_failover_moves_the_group_that_does_not_read_it(bench, run, flow):
    answer = run("failover", "planned", "-g", flow.only_short, "--execute", "--yes")
    assert answer.code == 0, answer
    moved = groups_of(bench.fleet["target"].bootstrap).commits([flow.only_short])[flow.only_short]
    assert {(at.topic, at.partition): commit.offset for at, commit in moved.items()} == {
        (f"source.{flow.short}", 0): 20,
        (f"source.{flow.short}", 1): 21,
    }
    assert answer.seconds < SECONDS


def test_what_can_be_exported_is(mmtool, flow):
    answer = mmtool("groups", "export", "-g", flow.both, "-c", flow.properties)
    assert answer.code == 3
    assert [line.split(",")[1:] for line in answer.stdout.splitlines()] == [["0", "20"], ["1", "21"]]
    assert answer.seconds < SECONDS
