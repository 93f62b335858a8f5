"""A target whose disk is full: one of its two, so that some partitions are gone and others are not."""

import os
import time

import pytest

from kit.bench import Bench, Stage
from kit.small_disk import fill
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

FULL_SECONDS = 40.0
RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 90.0


@pytest.fixture
def fleet(tmp_path, disk):
    large = tmp_path / "large"
    dirs = {"log.dirs": f"{large},{disk / 'logs'}", "metadata.log.dir": str(large)}
    clusters = [
        Cluster("source", tmp_path / "source"),
        Cluster("target", tmp_path / "target", Shape(properties=dirs)),
    ]
    with Fleet(clusters) as running:
        yield running


def test_a_flow_outlives_a_target_whose_disk_is_full_and_goes_on_by_itself(fleet, disk, tmp_path, measured):
    """Longer than any request waits. Brokers give the disk up at once, and have to be started again."""
    with Stage(
        Bench(fleet, tmp_path), f"full-{os.getpid()}", records_per_second=300.0, partitions=4
    ) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        there = [folder.name for folder in (disk / "logs").iterdir() if stage.prefix in folder.name]
        filler = fill(disk)
        time.sleep(FULL_SECONDS)
        assert process.alive, process.wait(5).stderr
        filler.unlink()
        fleet["target"].kill_broker(0)
        fleet["target"].start_broker(0)
        seconds = stage.wait_until_every_partition_moves(RECOVERY_SECONDS)
        asked = stage.prove_exact(process)
    measured(
        f"a disk with {len(there)} of 8 partitions was full for {FULL_SECONDS:.0f} s: every partition moved"
        f" {seconds:.1f} s after the broker's return; {asked} offsets translated exactly"
    )
    assert there
    assert seconds < RECOVERY_SECONDS
    assert " of target has no leader" in process.stderr
