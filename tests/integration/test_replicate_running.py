"""A running ``mmtool replicate``: one owner, clean stops, and what it picks up by itself."""

import os
import signal
import socket
import time

import pytest

from kit.batches import CONTROL
from kit.bench import Stage
from kit.broker_watch import wait_for_new_records
from kit.lab_admin import grow_topic
from kit.load import Load, produce
from kit.segments import stored_batches
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = pytest.mark.kafka

REFRESH_SECONDS = 2  # in the stage's properties file
PATIENCE_SECONDS = 60


def markers(stage):
    """Control batches in the mirrored topics."""
    target = stage.bench.fleet["target"]
    places = [(topic, partition) for topic in stage.targets for partition in range(stage.partitions)]
    return [
        f"{topic}-{partition}@{batch.base_offset}"
        for topic, partition in places
        for batch in stored_batches(target, topic, partition)
        if batch.flags & CONTROL
    ]


@pytest.fixture(scope="module")
def running(bench):
    """A stage whose flow runs for several tests, and its process; at the end its process group stops cleanly."""
    with Stage(bench, f"grow-{os.getpid()}", records_per_second=50.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        yield stage, process
        answer = process.stop(signal.SIGTERM)
        assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr


def picked_up(stage, topic, partitions, measured):
    """New partitions of a source topic get their records mirrored within the refresh interval and 5 s."""
    source, target = (stage.bench.fleet[side].bootstrap for side in ("source", "target"))
    started = time.monotonic()
    produce(source, Load(topic, 1000 * partitions, partitions, 100))
    remote = stage.flow.remote_topic(topic)

    def all_there():
        ends = end_offsets(target, remote)
        return len(ends) == partitions and all(ends.values())

    wait_until(all_there, f"{partitions} partitions of {remote} with records", PATIENCE_SECONDS)
    measured(f"{topic}, {partitions} partitions: mirrored {time.monotonic() - started:.1f} s after they came")
    return time.monotonic() - started


def test_one_process_owns_a_flow_and_hands_it_over_without_a_marker(bench, measured):
    """A second one exits 10 and names the owner; a standby takes over after a clean stop; signals are codes."""
    with Stage(bench, f"owner-{os.getpid()}") as stage:
        owner = stage.start()
        stage.wait_for_new_records(PATIENCE_SECONDS)
        second, standby = stage.start(), stage.start("--standby")

        answer = second.wait()
        measured(f"a second replicate was refused after {answer.seconds:.1f} s")
        assert (answer.code, answer.stdout) == (10, "")
        holder = f"run by {socket.gethostname()}, pid {owner.pid}"
        assert f"error: flow source->target is {holder}" in answer.said, answer.stderr
        assert (owner.alive, standby.alive) == (True, True)

        interrupted_at = time.monotonic()
        assert owner.stop(signal.SIGINT).code == 130
        measured(f"SIGINT: clean end after {time.monotonic() - interrupted_at:.1f} s")
        seconds = stage.wait_for_new_records(PATIENCE_SECONDS)
        measured(f"standby took over {seconds:.1f} s after the owner's clean end")

        stage.stop_writing()
        stage.wait_until_identical(PATIENCE_SECONDS)
        terminated_at = time.monotonic()
        assert standby.stop(signal.SIGTERM, alone=True).code == 143
        measured(f"SIGTERM: clean end after {time.monotonic() - terminated_at:.1f} s")

        assert (stage.differences(), markers(stage)) == ({}, [])
        assert stage.wrong_translations()[1][:5] == []


def test_new_topics_and_new_partitions_are_mirrored_while_it_runs(running, measured):
    """Within the refresh interval and five seconds, and what is mirrored already goes on."""
    stage, _ = running
    source, added = stage.bench.fleet["source"].bootstrap, f"{stage.prefix}-added"

    create_topic(source, added, 2)
    first = picked_up(stage, added, 2, measured)
    grow_topic(source, added, 5)
    second = picked_up(stage, added, 5, measured)

    assert (first < REFRESH_SECONDS + 5, second < REFRESH_SECONDS + 5) == (True, True)
    wait_for_new_records(stage.bench.fleet["target"].bootstrap, stage.targets, PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("part", "signum", "code"),
    [
        pytest.param("jvm", signal.SIGTERM, 143, marks=pytest.mark.spark),
        pytest.param("daemon", signal.SIGINT, 130, marks=pytest.mark.chaos),
    ],
)
def test_a_stop_during_the_start_is_clean_and_leaves_nothing_running(bench, part, signum, code):
    """While the JVM comes up and the flow is claimed, or while the first round begins."""
    with bench.start(bench.properties(f"owner-{os.getpid()}-.*")) as process:
        wait_until(lambda: process.pids(part) or not process.alive, f"the {part}", PATIENCE_SECONDS)
        assert process.alive, process.stderr
        answer = process.stop(signum)
        process.wait_until_gone(5)
    assert (answer.code, "Traceback" in answer.stderr) == (code, False), answer.stderr
