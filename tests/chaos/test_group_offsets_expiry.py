"""Kafka forgets the commits of groups without members; those that were synced it does not."""

import time

import pytest

from kit.bench import Bench
from kit.load import Load, produce
from kit.lookups import groups_of
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

SOON = {
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}
RETENTION_SECONDS = 60  # the least that a broker takes


@pytest.fixture
def forgetful(tmp_path):
    """A target that forgets after a minute, and a source that does not."""
    quick = Shape(
        properties={"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    )
    with (
        Fleet.of(tmp_path / "s", "source") as source,
        Fleet.of(tmp_path / "t", "target", shape=quick) as target,
    ):
        yield Fleet([source["source"], target["target"]])


def test_a_synced_commit_outlives_the_retention_of_the_target(forgetful, tmp_path):
    """Of a group that stands still; one that was committed by hand is forgotten meanwhile."""
    source, target = forgetful["source"], forgetful["target"]
    create_topic(source.bootstrap, "orders")
    produce(source.bootstrap, Load("orders", 100))
    groups_of(source.bootstrap).alter("idle", {TopicPartition("orders", 0): Commit(40)})
    remote, asked = TopicPartition("source.orders", 0), groups_of(target.bootstrap)
    bench = Bench(forgetful, tmp_path)
    with bench.start(bench.properties("orders", **SOON)) as process:
        process.wait_line("caught_up")  # a cluster without any group yet has no coordinator to ask
        wait_until(lambda: asked.commits(["idle"])["idle"] == {remote: Commit(40)}, "the commit", 60)
        asked.alter("by-hand", {remote: Commit(40)})
        deadline = time.monotonic() + 1.5 * RETENTION_SECONDS
        while time.monotonic() < deadline:
            assert asked.commits(["idle"])["idle"] == {remote: Commit(40)}
            time.sleep(0.5)
        assert asked.commits(["by-hand"])["by-hand"] == {}
