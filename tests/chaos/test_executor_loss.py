"""A Spark cluster of two executors, one of which is killed, and then the other."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from mmtool.testing.replicating import Bench, Stage

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

EXECUTORS, CORES, MEGABYTES = 2, 1, 1024
RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 120.0


def executors(ancestor):
    """The executors' processes below a command, oldest first."""
    parents, lines = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines[int(folder.name)] = (folder / "cmdline").read_bytes()
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    return sorted(
        pid
        for pid, line in lines.items()
        if b"CoarseGrainedExecutorBackend" in line and is_below(pid, ancestor, parents)
    )


def is_below(pid, ancestor, parents):
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor


def test_the_flow_goes_on_when_an_executor_dies_and_every_offset_is_exact(fleet, tmp_path, measured):
    took = []
    with Stage(Bench(fleet, tmp_path), f"executors-{os.getpid()}") as stage:
        master = f"mmtool.spark.master = local-cluster[{EXECUTORS},{CORES},{MEGABYTES}]\n"
        stage.properties.write_text(stage.properties.read_text() + master)
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        for _ in range(EXECUTORS):
            found = executors(process.pid)
            assert len(found) == EXECUTORS, found
            os.kill(found[0], signal.SIGKILL)
            took.append(stage.wait_until_every_partition_moves(RECOVERY_SECONDS))
            time.sleep(5)
        asked = stage.prove_exact(process)
    measured(
        f"executors killed: every partition moved {', '.join(f'{s:.1f}' for s in took)} s later;"
        f" {asked} offsets translated exactly"
    )
