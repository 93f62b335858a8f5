"""A target that denies something: named at start, or the topics concerned are halted and the others mirrored."""

from __future__ import annotations

import itertools
import os
import time

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kit.bench import Bench
from kit.far_starts import create_far
from kit.load import Load, produce
from kit.rights import OPEN, Rights
from mmtool.lab.cluster import Cluster
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic

pytestmark = pytest.mark.kafka

_NUMBERS = itertools.count()
AWAY_SECONDS = 20  # a session has 10


@pytest.fixture(scope="module")
def bench(fleet, tmp_path_factory):
    """The session's source, and a target of our own that asks for rights."""
    directory = tmp_path_factory.mktemp("rights")
    with Cluster("target", directory / "target", OPEN) as target:
        yield Bench(Fleet([fleet["source"], target]), directory)


@pytest.fixture
def deny(bench):
    rights = Rights(bench.fleet["target"].bootstrap)
    yield rights
    rights.give_back()


def written_topic(bench, stem, partitions):
    name = f"rights-{os.getpid()}-{stem}"
    bootstrap = bench.fleet["source"].bootstrap
    create_topic(bootstrap, name, partitions)
    produce(bootstrap, Load(name, 30 * partitions, partitions, 200))
    return name


@pytest.fixture
def stubborn(bench, deny):
    """A topic whose counterpart has too few partitions and may not grow."""
    name = written_topic(bench, f"stubborn{next(_NUMBERS)}", 3)
    create_topic(bench.fleet["target"].bootstrap, f"source.{name}", 1)
    deny(ResourceType.TOPIC, f"source.{name}", AclOperation.ALTER)
    return name


def test_a_topic_that_cannot_grow_is_halted_and_the_others_are_mirrored(bench, stubborn):
    other = written_topic(bench, "growing", 2)
    answer = bench.catch_up(bench.properties(f"{stubborn},{other}"), "-o", "json")
    halted = [row for row in answer.rows if row["state"] == "halted"]
    ends = end_offsets(bench.fleet["target"].bootstrap, f"source.{other}")
    assert (answer.code, sum(ends.values())) == (6, 60)
    assert [(row["topic"], row["target_topic"]) for row in halted] == [(stubborn, f"source.{stubborn}")]
    assert "has 1 partition, 3 are needed" in halted[0]["reason"]
    assert "AUTHORIZATION" in halted[0]["reason"]
    assert end_offsets(bench.fleet["target"].bootstrap, f"source.{stubborn}") == {0: 0}


def test_a_right_that_a_prefill_lacks_is_named_in_one_line(bench, deny):
    topic, target = f"far{next(_NUMBERS)}", bench.fleet["target"].bootstrap
    create_far(bench.fleet["source"].bootstrap, topic, {0: 50_000}, "delete")
    deny(ResourceType.TOPIC, f"source.{topic}", AclOperation.DELETE)
    answer = bench.catch_up(bench.properties(topic, **{"mmtool.offsets": "same"}))
    (error,) = [line for line in answer.stderr.splitlines() if " error: " in line]
    assert (answer.code, end_offsets(target, f"source.{topic}")) == (9, {0: 0})
    assert f"denies DELETE on topic source.{topic}" in error
    assert f"grant mmtool's principal DELETE on topic source.{topic}" in answer.stderr


def test_a_right_that_is_taken_away_halts_its_topic_and_once_it_is_back_records_come_by_themselves(
    bench, deny, measured
):
    """Within 30 s, and the other topic never waits; what halted it is said once."""
    held, free = (written_topic(bench, f"back-{name}", 1) for name in ("held", "free"))
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))

    def comes(topic, count):
        wanted = {0: count}
        return wait_until(lambda: end_offsets(target, f"source.{topic}") == wanted, f"{topic} {wanted}", 60)

    with bench.start(bench.properties(f"{held},{free}")) as process:
        comes(held, 30)
        deny(ResourceType.TOPIC, f"source.{held}", AclOperation.WRITE)
        for topic in (held, free):
            produce(source, Load(topic, 10, 1, 200, first_sequence=30))
        process.wait_line(f"{held}-0 is halted: WRITE on target topic source.{held} is denied: grant it")
        comes(free, 40)
        deny.give_back()
        seconds = comes(held, 40)
        measured(f"a right that came back: records {seconds:.1f} s later")
        answer = process.stop()
    assert (answer.code, answer.stderr.count("is halted:"), seconds < patience(30)) == (143, 1, True), (
        answer.stderr
    )


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("kind", "prefix", "operation"),
    [
        (ResourceType.GROUP, "mmtool.", AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, "mmtool.", AclOperation.WRITE),
        (ResourceType.TOPIC, "mmtool-", AclOperation.WRITE),
        (ResourceType.TOPIC, "mmtool-", AclOperation.DESCRIBE),
        (ResourceType.TOPIC, "source.rights-", AclOperation.DESCRIBE),
    ],
    ids=["owners", "claims", "books", "own-topics", "mirrors"],
)
def test_what_the_flow_itself_needs_may_be_away_for_longer_than_a_session(
    bench, deny, measured, kind, prefix, operation
):
    topic = written_topic(bench, f"away-{kind.name.lower()}-{operation.name.lower()}-{len(prefix)}", 1)
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))

    def comes(count):
        """As a consumer counts: a flow that could not write its books is fenced by itself, which leaves a marker."""
        return wait_until(lambda: len(read_topic(target, f"source.{topic}")) == count, f"{count} records", 60)

    with bench.start(bench.properties(topic)) as process:
        comes(30)
        deny(kind, prefix, operation)
        produce(source, Load(topic, 10, 1, 200, first_sequence=30))
        time.sleep(AWAY_SECONDS)
        assert process.alive, process.wait(5).stderr
        deny.give_back()
        produce(source, Load(topic, 10, 1, 200, first_sequence=40))
        seconds = comes(50)
        measured(f"{operation.name} on {prefix} was away for {AWAY_SECONDS} s: records {seconds:.1f} s after")
        answer = process.stop()
    assert (answer.code, "Traceback" in answer.stderr, seconds < patience(30)) == (143, False, True), (
        answer.stderr
    )
