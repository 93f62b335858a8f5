"""A real Spark standalone cluster of two workers of one core: one is killed under load, and another one comes."""

import json
import os

import pytest

from kit.bench import Bench, Stage
from kit.exactness import flow_identity
from kit.spark_cluster import SparkCluster
from mmtool.kafka.state.state_log import read_control
from mmtool.lab.ports import wait_until
from mmtool.runtime.files import state_root

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

_MOVES_AGAIN_SECONDS = 20.0
_START_SECONDS = 60.0
_PACKED = "Spark has 1 of 2 slots; all partitions share one task until it has more."
_SPREAD = "Spark has 2 of 2 slots; partitions are spread over 2 tasks"
_TERMINATED = 143  # after SIGTERM


@pytest.fixture
def cluster(tmp_path):
    with SparkCluster(tmp_path / "spark") as started:
        yield started


def _stage(fleet, tmp_path, cluster, name, **extra):
    stage = Stage(Bench(fleet, tmp_path), f"{name}-{os.getpid()}", partitions=2, records_per_second=90.0)
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
        _wait_for_slots(stage, process, wanted=2, held=2)
        _wait_until_copied(stage, _START_SECONDS)
        before = len(process.stderr)
        cluster.kill_worker(lost)
        took = _wait_until_copied(stage, _MOVES_AGAIN_SECONDS)
        _wait_for_slots(stage, process, wanted=2, held=1)
        cluster.start_worker()
        _wait_for_slots(stage, process, wanted=2, held=2)
        _wait_until_copied(stage, _MOVES_AGAIN_SECONDS)
        said = process.stderr[before:]
        packed, spread = said.find(_PACKED), said.find(_SPREAD)
        assert 0 <= packed < spread, said
        log = state_root() / "spark" / f"{process.pid}.log"
        assert log.exists()
        asked = stage.prove_exact(process)
    assert not log.exists()
    measured(f"Spark worker killed: every partition was copied {took:.1f} s later; {asked} offsets exact")


def _wait_for_slots(stage, process, wanted, held):
    def has():
        control = _control(stage)
        slots, is_ours = control.slots, control.owner is not None and control.owner.pid == process.pid
        return (
            is_ours and slots is not None and (slots.wanted, slots.held, slots.waiting) == (wanted, held, ())
        )

    wait_until(has, f"{held} of {wanted} slots", _START_SECONDS, poll=0.5)


def _wait_until_copied(stage, timeout):
    """Until the pumps have written that they are further in every partition; the seconds it took."""
    before = _frontiers(stage)

    def moved():
        now = _frontiers(stage)
        return len(now) == 2 * stage.partitions and all(now[p] > before.get(p, 0) for p in now)

    return wait_until(moved, "every partition to be copied", timeout, poll=0.2)


def _frontiers(stage):
    known = [p for p in _control(stage).positions.values() if p.topic in stage.topics]
    return {(p.topic, p.partition): p.upstream_position for p in known}


def _control(stage):
    fleet = stage.bench.fleet
    return read_control(stage.flow.target, flow_identity(fleet["source"], fleet["target"]))


def test_a_flow_starts_with_the_slots_that_are_there_and_is_spread_when_those_that_were_asked_for_come(
    fleet, tmp_path, cluster, mmtool
):
    asked = {"mmtool.spark.conf.spark.cores.max": "2"}
    with _stage(fleet, tmp_path, cluster, "few-slots", **asked) as stage:
        process = stage.start()
        process.wait_line(r"Spark has 0 of 2 slots; nothing is copied", _START_SECONDS)
        waiting = {
            ("waiting", "Spark has 0 of 2 slots; this partition waits for a slot: check Spark's executors")
        }
        wait_until(lambda: _states(mmtool, stage) == waiting, "waiting", 20)
        cluster.start_worker()
        stage.wait_until_every_partition_moves(_START_SECONDS)
        process.wait_line(r"Spark has 1 of 2 slots; all partitions share one task")
        cluster.start_worker()
        process.wait_line(r"Spark has 2 of 2 slots; partitions are spread over 2 tasks", _START_SECONDS)
        assert process.stop().code == _TERMINATED


def test_spark_that_allocates_executors_dynamically_is_asked_for_those_that_a_round_wants(
    fleet, tmp_path, cluster
):
    cluster.start_worker(), cluster.start_worker()
    dynamic = {"enabled": "true", "shuffleTracking.enabled": "true", "minExecutors": "0", "maxExecutors": "2"}
    asked = {f"mmtool.spark.conf.spark.dynamicAllocation.{key}": value for key, value in dynamic.items()}
    asked["mmtool.spark.conf.spark.executor.cores"] = "1"
    with _stage(fleet, tmp_path, cluster, "dynamic", **asked) as stage:
        process = stage.start()
        _wait_for_slots(stage, process, wanted=2, held=2)
        _wait_until_copied(stage, _START_SECONDS)
        assert process.stop().code == _TERMINATED


def _states(mmtool, stage):
    rows = json.loads(mmtool("status", "-c", stage.properties, "-o", "json").stdout)["data"]
    return {(row["state"], row["reason"]) for row in rows}
