"""The whole way: lost, gone on at the other cluster, written there, returned with records nobody had seen, gone home.

Every record of an application is read once, wherever it was born; what diverged is in a file, and nothing is lost.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from kit.black_hole import BlackHole
from kit.consumers import consume
from kit.load import Load, Transactions, produce
from kit.processes import run_mmtool
from kit.tail_files import exported_records
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

PARTITIONS, FIRST, TAIL, BORN = 3, 300, 40, 120
"""Records at home, that diverged, and that were born away; by topic."""

IDENTICAL = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "target->source.enabled": "true",
}


ADDED = 100
"""How many records the hook writes."""


def growing_hook(path: Path, bootstrap: str, topic: str, partition: int) -> str:
    """A hook that adds a partition to a topic, its last, and writes records into it."""
    path.write_text(
        dedent(f"""\
            #!{sys.executable}
            import sys
            sys.path.insert(0, {str(Path(__file__).parents[1])!r})
            from confluent_kafka import Producer
            from kit.lab_admin import grow_topic
            grow_topic({bootstrap!r}, {topic!r}, {partition + 1})
            producer = Producer({{"bootstrap.servers": {bootstrap!r}}})
            for number in range(20_000, 20_000 + {ADDED}):
                producer.produce({topic!r}, b"added", b"added-%d" % number, {partition})
            assert producer.flush(30) == 0
            """)
    )
    path.chmod(0o755)
    return str(path)


@dataclass
class Story:
    """What was written where, and who has read what."""

    topics: list[str]
    away: list[str]
    at_home: list[str]
    group: str
    folder: Path
    properties: Path
    first: list
    second: list
    emergency: object
    rehearsal: object
    failback: object


def fill(bootstrap, topics, count, first):
    """Into the first topic plainly, into the second in transactions of which some are aborted."""
    for topic, transactions in zip(topics, (None, Transactions(topics[-1], 10, 4)), strict=True):
        load = Load(
            topic, count, PARTITIONS, 100, keys="sequence", first_sequence=first, transactions=transactions
        )
        produce(bootstrap, load)


@pytest.fixture(scope="module", params=["prefixed", pytest.param("identical", marks=pytest.mark.chaos)])
def story(request, bench, tmp_path_factory):
    identical = request.param == "identical"
    home, there = (bench.fleet[side].bootstrap for side in ("source", "target"))
    stem, folder = f"story-{time.monotonic_ns()}", tmp_path_factory.mktemp("story")
    topics, group = [f"{stem}-plain", f"{stem}-tx"], f"{stem}-app"
    away = topics if identical else [f"source.{topic}" for topic in topics]
    grows = growing_hook(folder / "grow", there, topics[0], PARTITIONS)
    extra = {
        "target->source.topics": f"{stem}-.*",
        "mmtool.hook.find_diverged": grows,
        **(IDENTICAL if identical else {}),
    }
    properties = bench.properties(f"{stem}-.*", **extra)
    for topic in topics:
        create_topic(home, topic, PARTITIONS)
    fill(home, topics, FIRST, 0)
    first = [record for topic in topics for record in consume(home, group, [topic], FIRST // 2)]
    assert bench.catch_up(properties, "-s", "source", "-t", "target").code == 0
    fill(home, topics, TAIL, FIRST)  # the region dies before any of it is mirrored

    def run(*words, path=properties, name=""):
        line = (
            "failover",
            *words,
            "-s",
            "source",
            "-t",
            "target",
            "-c",
            str(path),
            "-g",
            group,
            "-o",
            "json",
        )
        return run_mmtool(folder / (name or words[0]), *line)

    with BlackHole() as hole:
        lost = bench.properties(f"{stem}-.*", **extra, **{"source.bootstrap.servers": hole.bootstrap})
        emergency = run("emergency", "--accept-data-loss", "--execute", "--yes", path=lost)
    born = topics if identical else [f"{stem}-plain", f"{stem}-tx"]
    for topic in born if not identical else []:
        create_topic(there, topic, PARTITIONS)
    fill(there, born, BORN, 10_000)
    second = consume(there, group, sorted({*away, *born}))
    rehearsal = run("failback", name="rehearsal")
    failback = run("failback", "--diverged-dir", str(folder), "--execute", "--yes")
    at_home = topics if identical else [*topics, *(f"target.{topic}" for topic in born)]
    return Story(
        topics, away, at_home, group, folder, properties, first, second, emergency, rehearsal, failback
    )


def bare(records):
    return Counter((record.key, record.value) for record in records)


def diverged(story):
    (path,) = story.folder.glob("*.jsonl")
    return bare(found.record for found in exported_records(path))


def test_the_emergency_and_the_way_home_complete(story):
    assert (story.emergency.code, story.emergency.rows[0]["state"]) == (0, "completed"), (
        story.emergency.stderr
    )
    assert (story.failback.code, story.failback.rows[0]["state"]) == (0, "completed"), story.failback.stderr


def test_the_rehearsal_of_the_way_home_counts_what_diverged(story):
    assert story.rehearsal.code == 0, story.rehearsal.stderr
    assert f"{diverged(story).total()} records of source never reached target" in story.rehearsal.stderr


def test_the_tail_is_exported_whole(story, bench):
    """As a consumer of the source would have read it."""
    home = bench.fleet["source"].bootstrap
    tail = bare(
        record
        for topic in story.topics
        for record in read_topic(home, topic)
        if FIRST <= _sequence(record) < 10_000
    )
    assert diverged(story) == tail
    assert 0 < tail.total() <= 2 * TAIL


def test_the_application_has_read_each_record_once_and_passes_the_tail_over(story, bench):
    """The last but one: it consumes at home."""
    home = bench.fleet["source"].bootstrap
    third = consume(home, story.group, story.at_home)
    everything = bare(record for topic in story.at_home for record in read_topic(home, topic))
    read = bare(story.first) + bare(story.second) + bare(third)
    assert read == everything - diverged(story)
    added = [record for record in third if record.key.startswith(b"added-")]  # while the failback ran
    assert len(added) == ADDED
    assert story.failback.rows[0]["diverged_records"] == diverged(story).total()
    assert story.failback.rows[0]["reread_records"] == 0


def test_afterwards_the_flow_goes_on_and_what_diverged_comes_to_the_other_side_once(story, bench):
    home, there = (bench.fleet[side].bootstrap for side in ("source", "target"))
    answer = bench.catch_up(story.properties, "-s", "source", "-t", "target")
    assert answer.code == 0, answer.stderr
    for topic, remote in zip(story.topics, story.away, strict=True):
        assert bare(read_topic(there, remote)) == bare(read_topic(home, topic)), topic


def _sequence(record):
    return int(record.key.split(b"-")[-1])
