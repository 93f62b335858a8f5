"""A cluster that is away for longer than any request waits, under a running ``replicate``."""

from __future__ import annotations

import time

import pytest

from mmtool.lab.fleet import Fleet
from mmtool.testing.replicating import Bench, Stage

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 90
AWAY_SECONDS = 35  # requests of the driver and of pumps give up after 30


@pytest.fixture
def own(tmp_path):
    """Two clusters of our own, to be taken down."""
    with Fleet.of(tmp_path, "source", "target") as clusters:
        yield clusters


@pytest.mark.parametrize("side", ["target", "source"])
def test_a_cluster_that_is_away_for_longer_than_requests_wait_ends_nothing(own, tmp_path, measured, side):
    with Stage(Bench(own, tmp_path), "outage", records_per_second=100.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        stage.stop_writing()
        own[side].kill_broker(0)
        time.sleep(AWAY_SECONDS)
        assert process.alive, process.wait(5).stderr
        own[side].start_broker(0)
        started = time.monotonic()
        with Stage(stage.bench, "outage", topics_exist=True) as again:
            again.wait_until_every_partition_moves(PATIENCE_SECONDS)
            measured(
                f"{side} away for {AWAY_SECONDS} s: all moved {time.monotonic() - started:.1f} s after its return"
            )
            again.stop_writing()
            again.wait_until_identical(60)
        answer = process.stop()
        assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
        assert side == "source" or "no word for" in answer.stderr
