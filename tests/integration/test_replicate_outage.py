"""What goes away under a running ``replicate``: a cluster for longer than any request waits, a topic for ever."""

from __future__ import annotations

import os
import time

import pytest
from confluent_kafka.admin import AdminClient

from mmtool.lab.fleet import Fleet
from mmtool.lab.watching import wait_for_new_records
from mmtool.testing.replicating import Bench, Stage

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 90
AWAY_SECONDS = 35  # requests of the driver and of pumps give up after 30


@pytest.fixture
def own(tmp_path):
    """Two clusters of our own, to be taken down."""
    with Fleet.of(tmp_path, "source", "target") as clusters:
        yield clusters


@pytest.mark.chaos
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


def test_a_target_topic_that_is_deleted_meanwhile_is_said_to_be_and_never_made_again(fleet, tmp_path):
    """The others go on, and what helps is said."""
    with Stage(Bench(fleet, tmp_path), f"vanish-{os.getpid()}", records_per_second=50.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        admin = AdminClient({"bootstrap.servers": fleet["target"].bootstrap, "log_level": 2})
        admin.delete_topics([stage.targets[0]], operation_timeout=10)[stage.targets[0]].result(20)
        process.wait_line(f"{stage.targets[0]} was deleted", PATIENCE_SECONDS)
        wait_for_new_records(fleet["target"].bootstrap, stage.targets[1:], PATIENCE_SECONDS)
        answer = process.stop()
        assert "mmtool.on.topic.recreated = restart" in answer.stderr
        assert stage.targets[0] not in admin.list_topics(timeout=10).topics
