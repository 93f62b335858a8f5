"""A Spark cluster of two executors, one of which is killed, and then the other."""

import os
import signal
import time

import pytest

from kit.bench import Bench, Stage

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

EXECUTORS, CORES, MEGABYTES = 2, 1, 1024
RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 120.0


def test_the_flow_goes_on_when_an_executor_dies_and_every_offset_is_exact(fleet, tmp_path, measured):
    took = []
    with Stage(Bench(fleet, tmp_path), f"executors-{os.getpid()}") as stage:
        master = f"mmtool.spark.master = local-cluster[{EXECUTORS},{CORES},{MEGABYTES}]\n"
        stage.properties.write_text(stage.properties.read_text() + master)
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        for _ in range(EXECUTORS):
            found = sorted(process.pids("executor"))
            assert len(found) == EXECUTORS, found
            os.kill(found[0], signal.SIGKILL)
            took.append(stage.wait_until_every_partition_moves(RECOVERY_SECONDS))
            time.sleep(5)
        asked = stage.prove_exact(process)
    measured(
        f"executors killed: every partition moved {', '.join(f'{s:.1f}' for s in took)} s later;"
        f" {asked} offsets translated exactly"
    )
    assert max(took) < RECOVERY_SECONDS
