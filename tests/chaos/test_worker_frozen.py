"""One Python worker of two stands still, and the command and its other parts know nothing of it."""

import os
import signal
import time
from contextlib import suppress

import pytest

from kit.bench import Bench, Stage
from mmtool.lab.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

TWO = {"mmtool.spark.master": "local[2]"}
ROUND_SECONDS = 10
FROZEN_SECONDS = 60.0
PATIENCE_SECONDS = 90.0
RECOVERY_SECONDS = 30.0
HUNG_SECONDS = 180.0
"""A worker that has not ended its round so long after its time is given up."""


def frozen_one(process):
    """One of the workers, and no other part."""
    first, *others = sorted(process.pids("worker"))
    assert others, "the flow has one worker alone"
    os.kill(first, signal.SIGSTOP)
    return first


def standing(stage, seconds):
    """Partitions that do not grow within so many seconds, after what was under way has come."""
    time.sleep(2.0)
    before = stage.ends()
    time.sleep(seconds)
    after = stage.ends()
    return {place for place in before if after[place] == before[place]}


def test_a_worker_that_sleeps_for_a_minute_goes_on_when_it_wakes(own, tmp_path, measured):
    with Stage(Bench(own, tmp_path, TWO), "asleep") as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        frozen = frozen_one(process)
        stood = standing(stage, FROZEN_SECONDS)
        os.kill(frozen, signal.SIGCONT)
        seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        asked = stage.prove_exact(process)
    assert "does not answer" not in process.stderr, "brokers are blamed for a worker that slept"
    assert 0 < len(stood) < len(stage.targets) * stage.partitions
    measured(
        f"a worker asleep for {FROZEN_SECONDS:.0f} s, {len(stood)} partitions stood still: all moved {seconds:.1f} s"
        f" after it woke; {asked} offsets exact"
    )
    assert seconds < RECOVERY_SECONDS


def test_a_worker_that_never_wakes_is_given_up_and_writes_nothing_when_it_does(own, tmp_path, measured):
    lines = {**TWO, "mmtool.round.seconds": str(ROUND_SECONDS)}
    with Stage(Bench(own, tmp_path, lines), "hung") as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        frozen = frozen_one(process)
        began, stood = time.monotonic(), standing(stage, 3.0)
        assert stood
        before = stage.ends()
        wait_until(
            lambda: all(stage.ends()[place] > before[place] for place in stood),
            "the partitions of the worker that hangs",
            ROUND_SECONDS + HUNG_SECONDS + RECOVERY_SECONDS,
            poll=0.5,
        )
        measured(
            f"a worker never wakes: its partitions moved {time.monotonic() - began:.1f} s after it froze"
        )
        with suppress(ProcessLookupError):  # Spark has ended it
            os.kill(frozen, signal.SIGCONT)
        asked = stage.prove_exact(process)
        measured(f"{asked} offsets exact after a worker was given up")
