"""Brokers that die, hang and come back under a running ``mmtool replicate``; clusters of three."""

import os
import re
import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from kit.bench import Bench, Stage
from kit.lab_admin import leaders_of
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60
HANGS_SECONDS = 15  # a session has 10, the controllers take 9
NOBODY = -1  # Kafka's leader of what has none


def wait_for_growth(cluster, topic, partition):
    """Until one partition is longer than it is now, whether others can be asked or not; the seconds it took."""
    with closing(
        Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "growth", "log_level": 2})
    ) as asker:
        place = TopicPartition(topic, partition)

        def end():
            return asker.get_watermark_offsets(place, PATIENCE_SECONDS)[1]

        before = end()
        return wait_until(lambda: end() > before, f"growth of {topic}-{partition}", PATIENCE_SECONDS)


def coordinator_of_owners(cluster):
    """The broker that knows who runs the only flow there."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    names = [group.group_id for group in admin.list_consumer_groups().result(30).valid]
    (owners,) = [name for name in names if re.fullmatch(r"mmtool\.[^.]+", name)]
    return admin.describe_consumer_groups([owners])[owners].result(30).coordinator.id


def test_a_coordinator_that_hangs_for_longer_than_a_session_takes_the_flow_from_nobody(
    threes, tmp_path, measured
):
    """Until the controllers know of it nobody answers the owner's heartbeats. No round ends, no mirror is fenced."""
    target = threes["target"]
    with Stage(Bench(threes, tmp_path), f"lease-{os.getpid()}", replicas=3) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        for _ in range(2):
            hung = coordinator_of_owners(target)
            target.pause_broker(hung)
            time.sleep(HANGS_SECONDS)
            target.resume_broker(hung)
            seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
            measured(f"the owners' coordinator hung for {HANGS_SECONDS} s: all moved {seconds:.1f} s after")
        asked = stage.prove_exact(process)
        assert "lost its claim" not in process.stderr
    measured(f"{asked} offsets exact")


def test_only_what_has_no_leader_on_the_target_waits_and_a_new_owner_names_it(threes, tmp_path, measured):
    """One replica, and its broker is dead. A start after a crash cannot fence what nobody leads: it changes nothing."""
    bench, target = Bench(threes, tmp_path, {"replication.factor": "1"}), threes["target"]
    with Stage(bench, f"lone-{os.getpid()}", replicas=3) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        remote = stage.targets[0]
        lone, *others = sorted(leaders_of(target.bootstrap, remote).items())
        target.kill_broker(lone[1])
        # it is listed as leader still: who watches a flow gets no end, and asks again
        assert end_offsets(target.bootstrap, remote) == {}
        wait_until(
            lambda: leaders_of(target.bootstrap, remote)[lone[0]] == NOBODY, "no leader", PATIENCE_SECONDS
        )
        seconds = [wait_for_growth(target, remote, partition) for partition, _ in others]
        process.kill_all()
        second = stage.start("--standby").wait()
        assert second.code == 9, second.stderr
        assert re.search(r"error: .* source\.lone-\S+-\d of target has no leader", second.stderr)
        target.start_broker(lone[1])
        third = stage.start()
        back = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        asked = stage.prove_exact(third)
    measured(
        f"one replica, its target broker dead: others' partitions moved within {max(seconds):.1f} s; a start after"
        f" its return moved all after {back:.1f} s; {asked} offsets exact"
    )
