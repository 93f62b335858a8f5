"""``--log-format json`` on real clusters: every line on stderr is one JSON object, and says what it concerns."""

import json
import time
from datetime import datetime, timedelta

import pytest

from kit.consumers import consume
from kit.load import Load, produce
from kit.processes import run_mmtool
from mmtool.events import Event
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

AS_LOG = ("--log-format", "json")


@pytest.fixture(scope="module")
def bench(own_bench):
    """Operations of other files, still open on their clusters, are logged by a later one too."""
    return own_bench


def events_of(answer, *names):
    """The lines of a log, all of which must be JSON; only those of some events where they are named."""
    lines = [json.loads(line) for line in answer.said]
    assert {line["event"] for line in lines} <= set(Event)
    moments = [datetime.fromisoformat(line["timestamp"]) for line in lines]
    assert {moment.utcoffset() for moment in moments} == {timedelta(0)}
    return [line for line in lines if line["event"] in names] if names else lines


def written(bench, stem, partitions=1):
    source = bench.fleet["source"].bootstrap
    create_topic(source, stem, partitions)
    produce(source, Load(stem, 100, partitions, 200))
    return stem


@pytest.fixture(scope="module")
def first(bench):
    """A run to the end of two topics, of which one cannot exist on the target."""
    stem = f"logged-{time.monotonic_ns()}"
    topic, long = written(bench, f"{stem}-a", 2), written(bench, f"{stem}-{'x' * (246 - len(stem))}")
    properties = bench.properties(f"{stem}-.*")
    return topic, long, properties, bench.catch_up(properties, *AS_LOG, "-o", "json")


def test_a_run_is_told_from_its_start_to_its_end_with_the_flow_in_each_line(first):
    topic, _, _, answer = first
    told = events_of(answer)
    words = [line["event"] for line in told]
    of_flow = ["flow_started", "ownership_acquired", "worker_started", "flow_stopped"]
    assert {*of_flow, "topic_created", "round_started", "round_ended", "worker_ended", "progress"} <= {*words}
    assert {line["command"] for line in told} == {"replicate"}
    for line in events_of(answer, *of_flow, "topic_created", "progress"):
        assert (line["flow"], line["source"], line["target"]) == ("source->target", "source", "target")
    (created,) = events_of(answer, "topic_created")
    assert (created["topic"], created["target_topic"], created["partitions"]) == (topic, f"source.{topic}", 2)


def test_a_halted_topic_is_an_event_and_the_verdict_an_error_with_the_exit_code(first):
    _, long, _, answer = first
    (halted,) = events_of(answer, "topic_halted")
    assert (halted["flow"], halted["topic"]) == ("source->target", long)
    assert halted["reason"] in halted["message"]
    (error,) = events_of(answer, "error")
    assert (answer.code, error["exit_code"], error["level"]) == (6, 6, "error")
    assert {row["state"] for row in answer.rows} == {"caught_up", "halted"}


def test_every_step_of_a_failover_is_logged_with_its_operation(bench, tmp_path):
    stem = f"moves-{time.monotonic_ns()}"
    topic = written(bench, stem)
    consume(bench.fleet["source"].bootstrap, f"{stem}-app", [topic], 40)
    line = ["failover", "planned", "-c", str(bench.properties(topic)), "-g", f"{stem}-app", "-o", "json"]
    answer = run_mmtool(tmp_path / "run", *line, *AS_LOG, "--execute", "--yes")
    (row,) = answer.rows
    assert (answer.code, row["state"]) == (0, "completed"), answer.stderr
    told = events_of(answer)
    begun = [line["event"] for line in told].index("operation_started")
    assert {line["operation"] for line in told[begun:]} == {row["operation_id"]}
    assert {line["command"] for line in told} == {"failover planned"}
    steps = [(line["event"], line["step"]) for line in events_of(answer, "step_started", "step_done")]
    names = [name for event, name in steps if event == "step_done"]
    assert {"check_groups", "drain", "write", "read_back"} <= set(names)
    assert steps == [(event, name) for name in names for event in ("step_started", "step_done")]
    (completed,) = events_of(answer, "operation_completed")
    assert (completed["flow"], completed["state"]) == ("source->target", "completed")
