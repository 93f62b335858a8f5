"""The disk of mmtool's own host is full: where things stand is on record on the target, so nothing stops."""

import os
import time

import pytest

from kit.bench import Bench, Stage
from kit.small_disk import fill

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 90.0


def test_a_flow_goes_on_and_outlives_a_killed_worker_where_nothing_can_be_written(
    fleet, tmp_path, disk, measured
):
    """Spark's scratch space, temporary files, logs and journals of operations would all be there."""
    names = ("TMPDIR", "SPARK_LOCAL_DIRS", "XDG_STATE_HOME")
    environ = {**os.environ, **dict.fromkeys(names, str(disk))}
    with Stage(Bench(fleet, tmp_path), f"host-disk-{os.getpid()}") as stage:
        process = stage.start(environ=environ)
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        filler = fill(disk)
        full = stage.wait_until_every_partition_moves(RECOVERY_SECONDS)
        process.kill("worker")
        killed = time.monotonic()
        stage.wait_until_every_partition_moves(RECOVERY_SECONDS)
        seconds = time.monotonic() - killed
        filler.unlink()
        asked = stage.prove_exact(process)
    measured(
        f"every partition moved {full:.1f} s after the disk was full, {seconds:.1f} s after its worker was killed;"
        f" {asked} offsets translated exactly"
    )
    assert max(full, seconds) < RECOVERY_SECONDS
