"""Brokers of either cluster killed, shut down or hung at any moment, one at a time, under a running flow."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from kit.bench import Bench, Stage

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

BROKERS = 3
PATIENCE_SECONDS = 120


def hang(cluster, broker, seconds):
    cluster.pause_broker(broker)
    time.sleep(seconds)
    cluster.resume_broker(broker)


def kill(cluster, broker, seconds):
    cluster.kill_broker(broker)
    time.sleep(seconds)
    cluster.start_broker(broker)


def shut_down(cluster, broker, seconds):
    cluster.stop_broker(broker)
    time.sleep(seconds)
    cluster.start_broker(broker)


FAULTS = (hang, kill, shut_down)


def test_faults_of_single_brokers_lose_nothing_and_repeat_nothing(
    threes, tmp_path, chance, measured, request
):
    """The flow goes on by itself; every offset of every partition translates exactly at the end."""
    with Stage(Bench(threes, tmp_path), f"brokers-{os.getpid()}", replicas=BROKERS) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        done: Counter[str] = Counter()
        for _ in range(request.config.getoption("--kills")):
            side, fault = chance.choice(("source", "target")), chance.choice(FAULTS)
            fault(threes[side], chance.randrange(BROKERS), chance.choice((0.0, 2.0, 6.0, 14.0)))
            done[f"{fault.__name__} {side}"] += 1
            if chance.random() < 0.5:
                stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        measured(f"faults: {dict(done)}; after the last one every partition moved within {seconds:.1f} s")
        asked = stage.prove_exact(process)
        measured(f"{asked} offsets translated exactly after {done.total()} faults")
