"""SIGKILL and clean stops at any moment, again and again, to any part of ``mmtool replicate``; then the same again."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

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
EVERY_ROLE = VICTIMS["all"]
CLEAN_STOP = "clean stop"
STOPPED = (143, -signal.SIGTERM)  # the latter while Python itself comes up: a shell calls both 143


@pytest.fixture
def stage(fleet, tmp_path, request):
    """A fast plain topic and a transactional one, with producers that never stop, and short rounds."""
    bench = Bench(fleet, tmp_path)
    with Stage(bench, f"chaos-{os.getpid()}-{request.node.name[:20]}", 5, records_per_second=500.0) as stage:
        with stage.properties.open("a") as file:
            file.write(f"mmtool.round.seconds={ROUND_SECONDS}\n")
        yield stage


def kill_somewhere(process, chance):
    """Waits a random while, most often short enough to hit the start or a take-over, then kills or stops."""
    time.sleep(chance.choice([chance.uniform(0, 2), chance.uniform(0, 12), chance.uniform(8, 25)]))
    there = [name for name, roles in VICTIMS.items() if all(map(process.pids, roles))]
    if not there:
        return "ended by itself"  # as it does after its JVM died
    name = chance.choice([*there, CLEAN_STOP])
    if name == CLEAN_STOP:
        assert process.stop().code in STOPPED
        return name
    process.kill(*VICTIMS[name])
    return name


def restarted(stage, process):
    """The same command again when the last one ended or is about to, and what it said."""
    deadline = time.monotonic() + 3
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.alive:
        return process, ""
    process.wait_until_gone()  # what its orphans still write is no record of the new one
    return stage.start(), process.wait().stderr


def test_kills_at_random_moments_lose_nothing_and_repeat_nothing(stage, chance, measured, request):
    """Compared record by record at the end; every offset of every partition translates exactly, both ways."""
    victims: Counter[str] = Counter()
    process = stage.start()
    for _ in range(request.config.getoption("--kills")):
        victims[kill_somewhere(process, chance)] += 1
        process, said = restarted(stage, process)
        assert "diverged" not in said
    process.kill(*EVERY_ROLE)
    process = stage.start()
    seconds = stage.wait_for_new_records(2 * FIRST_RECORD_SECONDS)
    measured(f"kills: {dict(victims)}; after the last one: first new records {seconds:.1f} s after the start")
    asked = stage.prove_exact(process)
    measured(f"{asked} offsets translated exactly after {victims.total() + 1} kills")


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
