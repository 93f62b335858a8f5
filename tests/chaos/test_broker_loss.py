"""Brokers that die, hang and come back under a running ``mmtool replicate``; clusters of three."""

from __future__ import annotations

import os
import time

import pytest
from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient

from mmtool.lab.topics import leaders_of
from mmtool.lab.waiting import wait_until
from mmtool.testing.replicating import Bench, Stage

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60


def kill_leader(cluster, topic):
    """SIGKILL to who leads partition 0."""
    victim = leaders_of(cluster.bootstrap, topic)[0]
    started = time.monotonic()
    cluster.kill_broker(victim)
    wait_until(
        lambda: victim not in leaders_of(cluster.bootstrap, topic).values(), "other leaders", PATIENCE_SECONDS
    )
    return victim, time.monotonic() - started


def test_a_broker_of_either_side_that_dies_and_comes_back_loses_nothing_and_repeats_nothing(
    threes, tmp_path, measured
):
    """Then leaders move back with nobody dying; and every offset translates exactly, both ways."""
    with Stage(Bench(threes, tmp_path), f"three-{os.getpid()}", replicas=3) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        for side, topic in (("source", stage.topics[1]), ("target", stage.targets[1])):
            victim, elected = kill_leader(threes[side], topic)
            seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
            measured(
                f"{side} broker killed: others led after {elected:.1f} s, all moved {seconds:.1f} s later"
            )
            threes[side].start_broker(victim)
            stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        for cluster in threes:
            settings = {"bootstrap.servers": cluster.bootstrap, "log_level": 2}
            admin = AdminClient(settings)  # must outlive its futures
            admin.elect_leaders(ElectionType.PREFERRED).result(30)
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        asked = stage.prove_exact(process)
        measured(f"{asked} offsets translated after brokers of both sides had died")
