"""A planned failover from end to end: real clusters, the real command, and the records as witnesses.

Every application reads what it has not read on the source, and then goes on at the target: together it has
read each committed record exactly once.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import pytest

from kit.consumers import consume
from kit.load import Load, Transactions, produce
from kit.lookups import groups_of
from kit.processes import partitions_of, run_mmtool
from mmtool.lab.topics import create_topic, read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

PARTITIONS = 3
GROUPS = {"fresh": 0, "slow": 137, "quick": 555, "done": None}
"""How many records each application reads on the source; None reads to the end."""


def read(bootstrap, group, topics, at_most=None):
    return [(record.key, record.value) for record in consume(bootstrap, group, topics, at_most)]


@dataclass
class Moved:
    """A finished failover and what came before it."""

    topics: list[str]
    groups: dict[str, str]
    read_before: dict[str, list]
    properties: object
    answer: object


def commit_at_start(bootstrap, group, topics):
    """An application that has subscribed and read nothing: its positions are committed all the same."""
    places = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    assert groups_of(bootstrap).alter(group, dict.fromkeys(places, Commit(0))) == {}


@pytest.fixture(scope="module")
def moved(bench, tmp_path_factory):
    """Plain and transactional records, groups at four positions, one failover without a running replicate."""
    source = bench.fleet["source"].bootstrap
    stem = f"moved-{time.monotonic_ns()}"
    topics = [f"{stem}-plain", f"{stem}-tx"]
    for topic, transactions in zip(topics, (None, Transactions(topics[1], 20, 3)), strict=True):
        create_topic(source, topic, PARTITIONS)
        produce(source, Load(topic, 600, PARTITIONS, 100, keys="sequence", transactions=transactions))
    groups = {name: f"{stem}-{name}" for name in GROUPS}
    commit_at_start(source, groups["fresh"], topics)
    before = {
        name: [] if most == 0 else read(source, groups[name], topics, most) for name, most in GROUPS.items()
    }
    properties = bench.properties(f"{stem}-.*")
    folder = tmp_path_factory.mktemp("failover")
    line = ["failover", "planned", "-c", str(properties), "--groups", f"{stem}-.*", "-o", "json"]
    answer = run_mmtool(folder / "executed", *line, "--execute", "--yes")
    return Moved(topics, groups, before, properties, answer)


def test_it_completes_and_proves_that_nothing_is_lost_or_read_again(moved):
    assert moved.answer.code == 0, moved.answer.stderr
    row = moved.answer.rows[0]
    assert (row["state"], row["point_of_no_return_passed"]) == ("completed", True)
    assert (row["rpo_records"], row["reread_records"], row["diverged_records"]) == (0, 0, 0)
    assert all(
        p["exactness"] == "exact" for p in partitions_of(moved.answer) if p["upstream_offset"] is not None
    )


def test_applications_go_on_exactly_where_they_stopped(moved, bench):
    """The last test of this file: it consumes on the target."""
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    remote = [bench.flow(moved.properties).remote_topic(topic) for topic in moved.topics]
    everything = Counter((r.key, r.value) for topic in moved.topics for r in read_topic(source, topic))
    for name, group in moved.groups.items():
        after = read(target, group, remote)
        assert Counter(moved.read_before[name]) + Counter(after) == everything, name
        assert len(after) == everything.total() - len(moved.read_before[name]), name
