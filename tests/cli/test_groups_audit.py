"""``mmtool groups audit`` as a script sees it, on clusters in memory."""

import json
import time

import pytest

from kit.clusters import FakeFlowState
from kit.scene import half_read
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.insight.flow_now import FlowClusters
from mmtool.kafka.ports import StoredCheckpoint
from mmtool.plan.groups.facts import Member
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


def test_where_the_target_stands_is_compared_with_where_it_should(audited, scene):
    on_target(scene, "app", 11, 7)
    assert audited() == [
        ("app", 0, "synced", ""),
        ("app", 1, "behind", "on west the group would read 3 records again"),
    ]
    on_target(scene, "app", 13, 7)
    assert audited()[0] == ("app", 0, "ahead", "on west the group would skip 2 records")


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


def test_a_group_that_the_target_does_not_know_is_behind(audited):
    assert audited("-g", "app")[0] == ("app", 0, "behind", "nothing is committed on west")


def test_a_commit_past_the_mirror_is_stale(audited, scene):
    scene.source.logs[TopicPartition("orders", 1)] = scene.source.logs[TopicPartition("orders", 0)]
    scene.commits("app", "orders", 12, 15)
    state, why = audited()[1][2:]
    assert (state, "is ahead of the mirror on west" in why) == ("stale", True)
    assert f"`mmtool status -c {scene.config}` shows the lag and the state" in why


def test_members_on_the_target_are_named(audited, scene):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    assert audited()[0] == ("app", 0, "active_on_target", "Stable: app-1 on 10.0.0.7")


def test_an_excluded_group_is_shown_with_the_pattern(audited, scene):
    scene.commits("console-consumer-7", "orders", 3, 3)
    assert audited()[-1] == ("console-consumer-7", 1, "excluded", "groups: excluded by console-consumer-.*")


def test_a_topic_outside_the_flow_is_shown_with_the_reason(audited, scene):
    scene.source.add_topic("logs", "id-logs", 5)
    scene.commits("app", "logs", 3)
    assert audited()[0] == ("app", 0, "not_mirrored", "topics: not matched by orders.*")


def test_an_uncommitted_partition_of_a_topic_is_listed(audited, scene):
    scene.commits("half", "orders", 3)
    assert audited("-g", "half")[1][:3] == ("half", 1, "no_commit")


def test_a_flow_that_never_ran_ends_with_3(audited, scene):
    scene.state.stored.clear()
    assert {row[2] for row in audited(code=3)} == {"never_ran"}


def test_a_group_that_is_not_there_ends_with_3(audited):
    assert audited("-g", "none", code=3) == []


def test_what_mm2_has_synced_lies_behind_by_what_its_group_would_read_again(audited, scene):
    """Its own checkpoint is earlier than what its syncs tell."""
    scene.state.stored.clear()
    for partition, end in ((0, 21), (1, 10)):
        scene.mirrored_by_mm2("orders", partition, end, (0, 0), (9, 9))
    on_target(scene, "app", 5, 10)
    assert audited() == [
        ("app", 0, "behind", "on west the group would read 5 to 7 records again"),
        ("app", 1, "synced", ""),
    ]


def test_with_the_source_away_the_checkpoints_tell(mmtool, audited, scene):
    held = StoredCheckpoint(OffsetPair(12, 11, int(time.time() * 1000) - 5000))
    scene.mm2.held["app"] = {TopicPartition("orders", 0): held, TopicPartition("orders", 1): held}
    on_target(scene, "app", 11, 4)
    scene.source.go_away(UnreachableError("east does not answer"))
    (one, other) = audited()
    assert one[:3] == ("app", 0, "synced")
    assert one[3].startswith("source_unreachable: synced, compared with the checkpoint of ")
    assert other[2] == "behind"
    assert other[3].startswith(
        "source_unreachable: behind: on west the group would read 7 records again, compared with the checkpoint of "
    )
    ended = mmtool("groups", "audit", "-c", scene.config)
    assert (ended.code, "warning: east does not answer" in ended.stderr) == (0, True)


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


def test_with_the_target_away_the_commits_of_the_source_are_shown(audited, scene):
    scene.target.go_away(UnreachableError("west does not answer"))
    assert audited() == [("app", n, "stale", "west does not answer") for n in (0, 1)]


def test_with_both_away_or_without_rights_it_ends_with_9(audited, scene):
    scene.source.go_away(UnreachableError("east does not answer"))
    scene.target.go_away(UnreachableError("west does not answer"))
    audited(code=9)


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


def test_what_topic_leaves_out_is_not_spoken_of(audited, scene):
    scene.has("orders-2", 5)
    scene.commits("app", "orders-2", 3)
    assert {row[2] for row in audited("--topic", "orders")} == {"behind"}
    held = StoredCheckpoint(OffsetPair(1, 1, 0))
    scene.mm2.held["app"] = {TopicPartition("orders", 0): held, TopicPartition("orders-2", 0): held}
    scene.source.go_away(UnreachableError("east does not answer"))
    assert len(audited("--topic", "orders")) == 1


def test_a_cluster_that_is_away_is_waited_for_once(audited, scene, monkeypatch):
    scene.source.go_away(UnreachableError("east does not answer"))
    probes = []
    probe = scene.source.probe
    monkeypatch.setattr(scene.source, "probe", lambda: probes.append(1) or probe())
    audited()
    assert len(probes) == 1
