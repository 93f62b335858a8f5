"""A real Spark standalone cluster of two workers of one core: one is killed under load, and another one comes."""

from __future__ import annotations

import os

import pytest

from mmtool.testing.replicating import Bench, Stage
from mmtool.testing.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_MOVES_AGAIN_SECONDS = 20.0
_START_SECONDS = 60.0


@pytest.fixture
def cluster(tmp_path):
    with SparkCluster(tmp_path / "spark") as started:
        yield started


def _stage(fleet, tmp_path, cluster, name, **extra):
    stage = Stage(Bench(fleet, tmp_path), f"{name}-{os.getpid()}", partitions=2)
    settings = {"mmtool.spark.master": cluster.url, **cluster.conf, **extra}
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    stage.properties.write_text(stage.properties.read_text() + lines)
    return stage


def test_every_partition_moves_on_with_one_of_two_workers_and_is_spread_when_a_worker_comes(
    fleet, tmp_path, cluster, measured
):
    lost, _ = cluster.start_worker(), cluster.start_worker()
    with _stage(fleet, tmp_path, cluster, "lost-worker") as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(_START_SECONDS)
        cluster.kill_worker(lost)
        took = stage.wait_until_every_partition_moves(_MOVES_AGAIN_SECONDS)
        process.wait_line(r"Spark has 1 of 2 slots; ")
        cluster.start_worker()
        process.wait_line(r"Spark has 2 of 2 slots; ", _START_SECONDS)
        stage.wait_until_every_partition_moves(_MOVES_AGAIN_SECONDS)
        asked = stage.prove_exact(process)
    measured(f"Spark worker killed: every partition moved {took:.1f} s later; {asked} offsets exact")
    assert took < _MOVES_AGAIN_SECONDS
