"""``translate-offsets`` and ``failover planned`` against real clusters, beside a mirror that runs."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from kit.load import Load, produce
from kit.lookups import commit, groups_of
from kit.processes import run_mmtool
from mmtool.failover.commits.group_sync import GroupSync
from mmtool.insight.flow_now import connect
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import GroupSelection

if TYPE_CHECKING:
    from pathlib import Path

    from kit.processes import Answer

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

SECONDS = 30.0


@pytest.fixture(scope="module")
def source(bench):
    return bench.fleet["source"].bootstrap


@pytest.fixture(scope="module")
def target(bench):
    return bench.fleet["target"].bootstrap


@pytest.fixture(scope="module")
def stem():
    return f"asked-{time.monotonic_ns()}"


@dataclass(frozen=True)
class Mirrored:
    """A flow that has run, and the failover of one group while it did."""

    properties: Path
    failover: Answer
    replicate_went_on: bool


@pytest.fixture(scope="module")
def mirrored(bench, stem, source, tmp_path_factory):
    """1,000 records in two partitions; group ``<stem>-app`` has read 300 and 500, ``<stem>-moves`` moves."""
    create_topic(source, stem, 2)
    produce(source, Load(stem, 1_000, 2, 100))
    commit(source, f"{stem}-app", stem, 300, 500)
    path = bench.properties(f"{stem}.*")
    with bench.start(path) as replicate:
        replicate.wait_line("caught up|lag|rec/s")
        produce(source, Load(stem, 10, 1, 100))
        commit(source, f"{stem}-moves", stem, 510, 400)
        line = [
            "failover",
            "planned",
            "-c",
            str(path),
            "-g",
            f"{stem}-moves",
            "--execute",
            "--yes",
            "-o",
            "json",
        ]
        failover = run_mmtool(tmp_path_factory.mktemp("failover") / "run", *line)
        went_on = replicate.alive
        assert replicate.stop().code == 143
    return Mirrored(path, failover, went_on)


@pytest.fixture
def properties(mirrored):
    return mirrored.properties


@pytest.fixture
def run(tmp_path, properties):
    def asked(*words, **how):
        return run_mmtool(
            tmp_path / f"run-{time.monotonic_ns()}", *map(str, words), "-c", str(properties), **how
        )

    return asked


def test_a_failover_watches_the_replicate_that_runs(mirrored, measured):
    assert mirrored.failover.code == 0, mirrored.failover.stderr
    (row,) = mirrored.failover.rows
    measured(f"{row['rto_seconds']:.2f} s to recover one group beside a running replicate")
    offsets = [p["downstream_offset"] for p in row["groups"][0]["partitions"]]
    assert (mirrored.replicate_went_on, row["state"], offsets) == (True, "completed", [510, 400])


def committed(bootstrap, group):
    return {
        place.partition: commit.offset
        for place, commit in groups_of(bootstrap).commits([group])[group].items()
    }


def test_what_was_written_is_taken_back_by_the_command_that_it_printed(run, stem, source, target):
    """A commit of before comes back, a first one is deleted (OffsetDelete)."""
    group = f"{stem}-undone"
    commit(source, group, stem, 300, 400)
    commit(target, group, f"source.{stem}", 7)
    moved = run("translate-offsets", "-g", group, "--execute", "--yes")
    assert (moved.code, committed(target, group)) == (0, {0: 300, 1: 400}), moved.stderr
    (line,) = [said for said in moved.said if "   mmtool groups import " in said]
    words = shlex.split(line.split("mmtool ")[1])
    words.remove("-c")
    back = run(*[word for word in words if not word.endswith(".properties")], "--yes")
    assert (back.code, committed(target, group)) == (0, {0: 7}), back.stderr


def test_a_consumer_that_was_given_its_partitions_is_seen_by_its_commits(
    bench, properties, stem, source, target
):
    """It is in no group: the group looks empty, and what is synced would be overwritten again and again."""
    group, place = f"{stem}-assigned", Assigned(f"source.{stem}", 0, 0)
    commit(source, group, stem, 300, 400)
    consumer = Consumer({"bootstrap.servers": target, "group.id": group, "enable.auto.commit": False})
    consumer.assign([place])
    sync = GroupSync(connect(bench.flow(properties), timedelta(seconds=SECONDS)), GroupSelection((group,)))
    states = [str(sync.turn().rows[0].state)]
    consumer.commit(offsets=[Assigned(f"source.{stem}", 0, 5)], asynchronous=False)
    commit(source, group, stem, 310, 400)
    states.append(str(sync.turn().rows[0].state))
    consumer.close()
    assert (states, committed(target, group)) == (["synced", "active_on_target"], {0: 5, 1: 400})
