"""Brokers that hold mmtool back by a quota: it is slow meanwhile, and nothing else."""

import os
import subprocess
import time
from contextlib import contextmanager

import pytest

from kit.bench import Bench, Stage
from kit.kafka_tools import java_source
from mmtool.lab.topics import end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

BYTES_PER_SECOND, HELD_SECONDS = 20_000, 45.0
RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 90.0
_SECONDS = 60


@contextmanager
def quota(bootstrap, key, value):
    """``producer_byte_rate`` or the like for every client id of a cluster, in bytes per second on each broker."""
    _set(bootstrap, key, str(value))
    try:
        yield
    finally:
        _set(bootstrap, key)


def _set(*arguments):
    with java_source("SetQuota", *arguments) as command:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def mirrored(fleet, stage):
    return sum(sum(end_offsets(fleet["target"].bootstrap, topic).values()) for topic in stage.targets)


@pytest.mark.parametrize(
    ("side", "key"), [("source", "consumer_byte_rate"), ("target", "producer_byte_rate")]
)
def test_a_flow_that_is_throttled_by_a_broker_goes_on_and_catches_up_afterwards(
    own, tmp_path, measured, side, key
):
    """Far less than is written, for longer than any request waits."""
    with Stage(Bench(own, tmp_path), f"quota-{os.getpid()}", records_per_second=400.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        with quota(own[side].bootstrap, key, BYTES_PER_SECOND):
            before, began = mirrored(own, stage), time.monotonic()
            time.sleep(HELD_SECONDS)
            rate = (mirrored(own, stage) - before) / (time.monotonic() - began)
            assert process.alive, process.wait(5).stderr
            assert f"throttled by a quota of {side}" in process.stderr
        seconds = stage.wait_until_every_partition_moves(RECOVERY_SECONDS)
        asked = stage.prove_exact(process)
    assert "no longer throttled by a quota" in process.stderr
    measured(
        f"{key} of {BYTES_PER_SECOND}: {rate:.0f} records/s meanwhile; every partition moved {seconds:.1f} s after"
        f" it was taken away; {asked} offsets translated exactly"
    )
    assert rate > 0
    assert seconds < RECOVERY_SECONDS
