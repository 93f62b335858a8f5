"""A target that denies something: named at start, or the topics concerned are halted and the others mirrored."""

import itertools
import os
import time

import pytest

from kit.acls import OPEN, Acls, deny_everybody
from kit.bench import Bench
from kit.far_starts import create_far
from kit.load import Load, produce
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
def rules(bench):
    """Those of the target: none, before a test and after it."""
    rules = Acls(bench.fleet["target"].bootstrap)
    yield rules
    rules.delete_all()


def written_topic(bench, stem, partitions):
    name = f"rights-{os.getpid()}-{stem}"
    bootstrap = bench.fleet["source"].bootstrap
    create_topic(bootstrap, name, partitions)
    produce(bootstrap, Load(name, 30 * partitions, partitions, 200))
    return name


@pytest.fixture
def stubborn(bench, rules):
    """A topic whose counterpart has too few partitions and may not grow."""
    name = written_topic(bench, f"stubborn{next(_NUMBERS)}", 3)
    create_topic(bench.fleet["target"].bootstrap, f"source.{name}", 1)
    deny_everybody(rules, "TOPIC", f"source.{name}", "ALTER")
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


def test_a_right_that_a_prefill_lacks_is_named_in_one_line(bench, rules):
    topic, target = f"far{next(_NUMBERS)}", bench.fleet["target"].bootstrap
    create_far(bench.fleet["source"].bootstrap, topic, {0: 50_000}, "delete")
    deny_everybody(rules, "TOPIC", f"source.{topic}", "DELETE")
    answer = bench.catch_up(bench.properties(topic, **{"mmtool.offsets": "same"}))
    (error,) = [line for line in answer.stderr.splitlines() if " error: " in line]
    assert (answer.code, end_offsets(target, f"source.{topic}")) == (9, {0: 0})
    assert f"denies DELETE on topic source.{topic}" in error
    assert f"grant mmtool's principal DELETE on topic source.{topic}" in answer.stderr


def test_a_right_that_is_taken_away_halts_its_topic_and_once_it_is_back_records_come_by_themselves(
    bench, rules, measured
):
    """Within 30 s, and the other topic never waits; what halted it is said once."""
    held, free = (written_topic(bench, f"back-{name}", 1) for name in ("held", "free"))
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))

    def comes(topic, count):
        wanted = {0: count}
        return wait_until(lambda: end_offsets(target, f"source.{topic}") == wanted, f"{topic} {wanted}", 60)

    with bench.start(bench.properties(f"{held},{free}")) as process:
        comes(held, 30)
        deny_everybody(rules, "TOPIC", f"source.{held}", "WRITE")
        for topic in (held, free):
            produce(source, Load(topic, 10, 1, 200, first_sequence=30))
        process.wait_line(f"{held}-0 is halted: WRITE on target topic source.{held} is denied: grant it")
        comes(free, 40)
        rules.delete_all()
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
        ("GROUP", "mmtool.", "READ"),
        ("TRANSACTIONAL_ID", "mmtool.", "WRITE"),
        ("TOPIC", "mmtool-", "WRITE"),
        ("TOPIC", "mmtool-", "DESCRIBE"),
        ("TOPIC", "source.rights-", "DESCRIBE"),
    ],
    ids=["owners", "claims", "books", "own-topics", "mirrors"],
)
def test_what_the_flow_itself_needs_may_be_away_for_longer_than_a_session(
    bench, rules, measured, kind, prefix, operation
):
    topic = written_topic(bench, f"away-{kind.lower()}-{operation.lower()}-{len(prefix)}", 1)
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))

    def comes(count):
        """As a consumer counts: a flow that could not write its books is fenced by itself, which leaves a marker."""
        return wait_until(lambda: len(read_topic(target, f"source.{topic}")) == count, f"{count} records", 60)

    with bench.start(bench.properties(topic)) as process:
        comes(30)
        deny_everybody(rules, kind, prefix, operation)
        produce(source, Load(topic, 10, 1, 200, first_sequence=30))
        time.sleep(AWAY_SECONDS)
        assert process.alive, process.wait(5).stderr
        rules.delete_all()
        produce(source, Load(topic, 10, 1, 200, first_sequence=40))
        seconds = comes(50)
        measured(f"{operation} on {prefix} was away for {AWAY_SECONDS} s: records {seconds:.1f} s after")
        answer = process.stop()
    assert (answer.code, "Traceback" in answer.stderr, seconds < patience(30)) == (143, False, True), (
        answer.stderr
    )
