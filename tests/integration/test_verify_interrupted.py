"""``mmtool verify`` that does not come to its end: killed, interrupted, its cluster away, or without a right."""

import os
import signal
from contextlib import contextmanager

import pytest

from kit.acls import OPEN, Acls, deny_everybody
from kit.bench import Bench
from kit.exactness import flow_identity
from kit.load import Load, produce
from kit.processes import MmtoolProcess
from kit.without_spark import without_spark
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

RECORDS, PARTITIONS = 3_000_000, 3
SMALL = 2_000


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    clusters = Fleet.of(tmp_path_factory.mktemp("verify"), "source", "target", shape=OPEN)
    with clusters:
        yield Bench(clusters, tmp_path_factory.mktemp("verify-runs"), {"mmtool.spark.master": "local[2]"})
    clusters.remove_data()


@pytest.fixture(scope="module")
def large(bench):
    """A topic that takes several waves of tasks."""
    with without_spark():
        return mirrored(bench, "large", RECORDS, PARTITIONS)


def mirrored(bench, topic, records, partitions=1):
    here = bench.fleet["source"].bootstrap
    create_topic(here, topic, partitions)
    produce(here, Load(topic, records, partitions, 100))
    properties = bench.properties(topic)
    assert bench.catch_up(properties).code == 0
    return properties


_runs = iter(range(1_000))


def verify(bench, properties, *options, **environ):
    folder = bench.directory / f"verify-{next(_runs)}"
    arguments = ("verify", "-c", str(properties), "-o", "json", *options)
    return MmtoolProcess(folder, *arguments, environ=environ)


@contextmanager
def one_core():
    """Processes that start meanwhile have one core: verify says how far it is after eight tasks for each core."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


@pytest.mark.spark
def test_a_run_that_was_killed_leaves_no_process_and_the_next_one_goes_on(bench, large):
    with one_core(), verify(bench, large) as process:
        process.wait_line("compared .* records, .* Spark tasks left", 120)
        process.kill("driver")
        process.wait_until_gone(15)
    with verify(bench, large, "--since", "last") as process:
        answer = process.wait()
    assert answer.code == 0, answer.stderr
    compared = sum(row["records_compared"] for row in answer.rows)
    assert 0 < compared < RECORDS


@pytest.mark.spark
@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.chaos)],
)
def test_an_interrupted_run_ends_at_once_and_leaves_no_process(bench, large, signum, code):
    with verify(bench, large) as process:
        process.wait_line("comparing .* partitions", 120)
        answer = process.stop(signum, 20)
        process.wait_until_gone(15)
    assert (answer.code, "Traceback" in answer.stderr) == (code, False), answer.stderr


def test_a_topic_that_may_not_be_read_costs_its_own_row(bench):
    properties = mirrored(bench, "denied", SMALL)
    mirrored(bench, "allowed", SMALL)
    both = bench.properties("denied|allowed")
    deny_everybody(Acls(bench.fleet["target"].bootstrap), "TOPIC", "source.denied", "READ")
    with verify(bench, both) as process:
        answer = process.wait()
    rows = {row["topic"]: row for row in answer.rows}
    assert (answer.code, rows["allowed"]["verdict"], rows["denied"]["verdict"]) == (
        8,
        "identical",
        "incomplete",
    )
    assert "READ" in rows["denied"]["reason"]
    with verify(bench, properties) as process:
        alone = process.wait()
    assert (alone.code, alone.stderr.count("error:")) == (9, 1), alone.stderr


def test_points_are_kept_in_a_file_by_a_user_who_may_not_write_the_control_topic(bench, tmp_path):
    properties = mirrored(bench, "readonly", SMALL)
    identity = flow_identity(bench.fleet["source"], bench.fleet["target"])
    deny_everybody(Acls(bench.fleet["target"].bootstrap), "TOPIC", identity.control_topic, "WRITE")
    home = {"XDG_STATE_HOME": str(tmp_path / "state")}
    with verify(bench, properties, **home) as process:
        first = process.wait()
    assert first.code == 0, first.stderr
    assert first.stderr.count("mmtool stores the verified offsets, for --since last, in") == 1
    with verify(bench, properties, "--since", "last", **home) as process:
        second = process.wait()
    assert (second.code, [row["records_compared"] for row in second.rows]) == (0, [0]), second.stderr


@pytest.mark.spark
@pytest.mark.parametrize("how", ["pause_broker", pytest.param("kill_broker", marks=pytest.mark.chaos)])
def test_a_cluster_that_goes_away_meanwhile_ends_the_run_in_bounded_time(bench, large, how, measured):
    target = bench.fleet["target"]
    with verify(bench, large) as process:
        process.wait_line("comparing .* partitions", 120)
        getattr(target, how)(0)
        answer = process.wait(300)
        process.wait_until_gone(15)
    (target.resume_broker if how == "pause_broker" else target.start_broker)(0)
    target.wait_ready()
    measured(f"verify, {how}: ended {answer.seconds:.0f} s after it began")
    errors = [line for line in answer.said if line.startswith("error:")]
    assert (answer.code, len(errors), "Traceback" in answer.stderr) == (9, 1, False), answer.stderr
    assert "target" in errors[0]
