"""SIGKILL to any part of ``mmtool replicate``; seeds of kit.chaos do the same and more at any moment."""

import os
import time

import pytest

from kit.bench import Bench, Stage
from mmtool.lab.ports import patience

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

ROUND_SECONDS = 6  # short rounds: faults hit their seams as well
FIRST_RECORD_SECONDS = 30.0
VICTIMS = {
    "worker": ("worker",),
    "daemon": ("daemon",),
    "daemon and worker": ("daemon", "worker"),
    "JVM": ("jvm",),
    "driver": ("driver",),
    "driver and JVM": ("driver", "jvm"),
    "all": ("driver", "jvm", "daemon", "worker"),
}


@pytest.fixture
def stage(fleet, tmp_path, request):
    """A fast plain topic and a transactional one, with producers that never stop, and short rounds."""
    bench = Bench(fleet, tmp_path)
    with Stage(bench, f"chaos-{os.getpid()}-{request.node.name[:20]}", 5, records_per_second=500.0) as stage:
        with stage.properties.open("a") as file:
            file.write(f"mmtool.round.seconds={ROUND_SECONDS}\n")
        yield stage


def restarted(stage, process):
    """The same command again when the last one ended or is about to, and what it said."""
    deadline = time.monotonic() + 3
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.alive:
        return process, ""
    process.wait_until_gone()  # what its orphans still write is no record of the new one
    return stage.start(), process.wait().stderr


def test_new_records_come_within_30_seconds_after_every_kill(stage, chance, measured, request):
    """The worst of all kinds of kill, each in the middle of a running flow."""
    process = stage.start()
    stage.wait_for_new_records(2 * FIRST_RECORD_SECONDS)
    slowest = dict.fromkeys(VICTIMS, 0.0)
    for name, roles in VICTIMS.items():
        time.sleep(chance.uniform(0, ROUND_SECONDS))
        process.kill(*roles)
        process, _ = restarted(stage, process)
        slowest[name] = stage.wait_for_new_records(4 * FIRST_RECORD_SECONDS)
    measured("first new records after a kill, in s: " + ", ".join(f"{k} {v:.1f}" for k, v in slowest.items()))
    stage.stop_writing()
    stage.wait_until_identical(60)
    assert {name: s for name, s in slowest.items() if s > patience(FIRST_RECORD_SECONDS)} == {}
