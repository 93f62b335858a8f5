"""A second host stands by: it takes over from an owner that dies or freezes, and one that wakes up changes nothing."""

import os
import signal
import time

import pytest

from kit.bench import Bench, Stage
from kit.processes import run_mmtool
from mmtool.lab.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

TAKES_OVER_SECONDS = 15.0
ASLEEP_SECONDS = 60.0
PATIENCE_SECONDS = 60


@pytest.fixture
def pair(fleet, tmp_path, request):
    """An owner that mirrors, and a standby that has joined and started all it needs."""
    with Stage(Bench(fleet, tmp_path), f"standby-{os.getpid()}-{request.node.name[-12:]}") as stage:
        owner = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        standby = stage.start("--standby")
        wait_until(lambda: len(stage.members()) == 2, "the standby to join", PATIENCE_SECONDS)
        wait_until(lambda: bool(standby.pids("jvm")), "its JVM", PATIENCE_SECONDS)
        time.sleep(10)
        yield stage, owner, standby


def test_an_owner_that_slept_for_a_minute_writes_nothing_when_it_wakes(pair, measured):
    """It finds that the flow is somebody else's, and ends with 10."""
    stage, owner, standby = pair
    owner.freeze()
    seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
    measured(f"standby: every partition moved {seconds:.1f} s after its owner froze")
    assert seconds < TAKES_OVER_SECONDS
    time.sleep(ASLEEP_SECONDS - seconds)
    owner.thaw()
    answer = owner.wait(PATIENCE_SECONDS)
    assert (answer.code, "Traceback" in answer.stderr) == (10, False), answer.stderr
    stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
    asked = stage.prove_exact(standby)
    measured(f"{asked} offsets exact after an owner had slept for {ASLEEP_SECONDS:.0f} s")


def test_what_an_owner_says_once_it_wakes_hides_nothing_from_the_next_but_one(pair, tmp_path):
    """It had nothing to mirror when it froze, so it ends as cleanly as if the flow were still its own."""
    stage, owner, standby = pair

    def flow(verb):
        answer = run_mmtool(tmp_path / verb, "flow", verb, "-c", str(stage.properties))
        assert answer.code == 0, answer.stderr

    flow("pause")
    owner.wait_line(r"is paused", PATIENCE_SECONDS)
    time.sleep(2)
    owner.freeze()
    standby.wait_line(r"owner of the flow", PATIENCE_SECONDS)
    time.sleep(2)
    os.killpg(owner.pid, signal.SIGTERM)
    owner.thaw()
    assert "Traceback" not in owner.wait(PATIENCE_SECONDS).stderr
    flow("resume")
    stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
    standby.kill_all()
    successor = stage.start()
    stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
    stage.prove_exact(successor)
