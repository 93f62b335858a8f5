"""``mmtool groups audit`` as a script sees it, on clusters in memory."""

import json
import time

import pytest

from kit.clusters import FakeFlowState
from kit.scene import half_read
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.insight.flow_now import FlowClusters
from mmtool.kafka.ports import StoredCheckpoint
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import TopicPartition


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = half_read(tmp_path)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    return made


@pytest.fixture
def audited(mmtool, scene):
    def run(*arguments, code=0):
        ended = mmtool("groups", "audit", "-c", scene.config, "-o", "json", *arguments)
        assert ended.code == code, ended
        return [(row["group"], row["partition"], row["verdict"], row["reason"]) for row in ended.rows]

    return run


def on_target(scene, group, *offsets):
    scene.commits(group, "east.orders", *offsets, cluster=scene.target)


def test_since_when_a_group_stands_there_is_said_and_until_when(audited, scene):
    """Kafka forgets the commits of a group that nobody uses after seven days."""
    on_target(scene, "app", 11, 7)
    now_ms, minutes = (
        int(time.time() * 1000),
        {0: 50, 1: 26 * 60 + 10},
    )  # far from a full hour, however long it takes
    committed = {TopicPartition("east.orders", n): now_ms - age * 60_000 for n, age in minutes.items()}
    scene.target.times["app"] = committed
    assert [row[3] for row in audited()] == [
        "the commit expires in 6d 23h",
        "on west the group would read 3 records again, committed 1d 2h ago, expires in 5d 21h",
    ]


def test_checkpoints_that_cannot_be_read_are_counted_with_the_source_away_as_well(mmtool, scene):
    scene.mm2.held["app"] = {TopicPartition("orders", 0): StoredCheckpoint(OffsetPair(12, 11, 0))}
    scene.mm2.unreadable["east.checkpoints.internal"] = 3
    scene.source.go_away(UnreachableError("east does not answer"))
    ended = mmtool("groups", "audit", "-c", scene.config, "-o", "json")
    assert (ended.code, len(ended.rows)) == (0, 1)
    assert json.loads(ended.stdout)["warnings"] == [
        (
            f"east does not answer; if east is lost, `mmtool failover emergency -c {scene.config} -s east -t west"
            " --all-groups` shows how its groups can move to west"
        ),
        "east.checkpoints.internal: skipped 3 records that MirrorMaker 2 cannot have written; mmtool uses the others",
    ]


def test_a_denied_right_is_no_outage(audited, scene):
    scene.source.go_away(NotAuthorisedError("east says no"))
    audited(code=9)


def test_a_flow_that_cannot_be_told_hides_no_other(mmtool, scene, monkeypatch):
    """The way back is enabled and has no topic yet: a warning, as in status."""
    with scene.config.open("a") as file:
        file.write("west->east.enabled = true\nwest->east.topics = nothing.*\n")

    def connect(flow, *_, **__):
        back = FlowClusters(flow, scene.target, scene.source, FakeFlowState())
        return scene.clusters if flow.source.alias == "east" else back

    monkeypatch.setattr("mmtool.insight.flow_now.connect", connect)
    ended = mmtool("groups", "audit", "-c", scene.config, "-o", "json")
    assert (ended.code, len(ended.rows)) == (0, 2)
    assert "warning: west->east matches no topic of west" in ended.stderr


def test_a_cluster_that_is_away_is_waited_for_once(audited, scene, monkeypatch):
    scene.source.go_away(UnreachableError("east does not answer"))
    probes = []
    probe = scene.source.probe
    monkeypatch.setattr(scene.source, "probe", lambda: probes.append(1) or probe())
    audited()
    assert len(probes) == 1


def test_a_group_that_has_not_read_the_topic_counts_as_no_partition(mmtool, scene):
    scene.has("orders-two", 5)
    scene.commits("other", "orders-two", 2)
    ended = mmtool("groups", "audit", "-c", scene.config, "-g", "other", "--topic", "orders")
    assert "east->west: 1 group, 0 partitions: 1 no_commit" in ended.stderr
