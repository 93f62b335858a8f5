"""SIGKILL to each part of a running ``mmtool replicate``, then the same command again."""

from __future__ import annotations

import os

import pytest
from confluent_kafka.admin import AdminClient

from mmtool.lab.waiting import wait_until
from mmtool.testing.exactness import flow_identity
from mmtool.testing.replicating import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIRST_RECORD_SECONDS = 30.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
"""On a machine that does nothing else 30 s; Spark's start takes its time from whoever else works."""
EVERY_ROLE = ("driver", "jvm", "daemon", "worker")


def left_over(process):
    return [pid for role in EVERY_ROLE for pid in process.pids(role)]


def wait_until_gone(process):
    """Nothing of a command survives its driver or its JVM."""
    return wait_until(lambda: not left_over(process), "the processes of a killed mmtool to end", 15)


def members(stage):
    """Client ids in the flow's ownership group."""
    fleet = stage.bench.fleet
    group = flow_identity(fleet["source"], fleet["target"]).ownership_group
    admin = AdminClient({"bootstrap.servers": fleet["target"].bootstrap})
    return [member.client_id for member in admin.describe_consumer_groups([group])[group].result(20).members]


def test_a_kill_of_any_part_loses_nothing_and_repeats_nothing(bench, measured):
    """Under running producers, one of them transactional; then every offset translates exactly, both ways."""

    def moves_again(after):
        seconds = stage.wait_for_new_records(FIRST_RECORD_SECONDS)
        measured(f"{after}: first new records after {seconds:.1f} s")

    with Stage(bench, f"kill-{os.getpid()}") as stage:
        first = stage.start()
        moves_again("first start")

        assert first.kill("worker")
        moves_again("Python worker killed, same process goes on")

        assert first.kill("jvm")
        answer = first.wait(30)
        assert (answer.code, "run the same command again" in answer.stderr) == (1, True), answer.stderr
        wait_until_gone(first)
        second = stage.start()
        moves_again("JVM killed, started again")

        standby = stage.start("--standby")
        wait_until(lambda: len(members(stage)) == 2, "the standby to join", 30)
        second.kill("driver")
        moves_again("driver killed, a standby takes over")
        measured(f"driver killed: its JVM and workers were gone {wait_until_gone(second):.1f} s later")

        standby.kill_all()
        last = stage.start()
        moves_again("all killed at once, started again")

        stage.stop_writing()
        stage.wait_until_identical(30)
        assert last.stop().code == 143
        asked, wrong = stage.wrong_translations()
        measured(f"{asked} offsets translated after five kills")
        assert wrong[:5] == []
