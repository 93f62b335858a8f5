"""A partition that a cluster cannot tell the end of costs its own rows: no other group, topic or flow waits for it."""

import json
from dataclasses import replace

import pytest

from kit.scene import Scene
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.ports import StoredCheckpoint
from mmtool.plan.groups.facts import Member
from mmtool.plan.records.documents import OwnerRecord, RefusedRecord
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import TopicPartition

LEADERLESS = UnreachableError("cluster CLUSTER: reading offsets of PLACE failed: the partition has no leader")
DENIED = NotAuthorisedError("cluster CLUSTER denies DESCRIBE on topic PLACE")
LONG = "orders-".ljust(249, "x")
SIDES = {"east": "orders-b", "west": "east.orders-b"}


@pytest.fixture
def scene(tmp_path, wired):
    """``orders-a`` and ``orders-b`` are mirrored, ``LONG`` cannot be; a reads the first, b both, c all three."""
    made = Scene(tmp_path)
    for topic in ("orders-a", "orders-b"):
        made.has(topic, 20)
        made.mirrored(topic, 0, [(0, 0, 20)], 20)
    made.source.add_topic(LONG, "id-long", 20)
    for group, topics in {"a": ["orders-a"], "b": ["orders-a", "orders-b"]}.items():
        for topic in topics:
            made.commits(group, topic, 7)
    made.commits("c", LONG, 7)
    made.commits("c", "orders-a", 7)
    return wired(made)


@pytest.fixture
def run(mmtool, scene):
    def asked(*words):
        return mmtool(*words, "-c", scene.config, "-o", "json")

    return asked


def cannot_tell(scene, alias, error):
    cluster = {"east": scene.source, "west": scene.target}[alias]
    cluster.unanswered[TopicPartition(SIDES[alias], 0)] = error


def told(answer, key):
    return {(row["group"], row["topic"]): row[key] for row in answer.rows}


@pytest.mark.parametrize("alias", ["east", "west"])
@pytest.mark.parametrize("error", [LEADERLESS, DENIED])
def test_groups_that_do_not_read_it_are_translated_beside_one_that_does(run, scene, alias, error):
    cannot_tell(scene, alias, error)
    answer = run("translate-offsets", "-g", "a", "-g", "b")
    assert answer.code == 3
    assert told(answer, "reason") == {
        ("a", "orders-a"): "",
        ("b", "orders-a"): "",
        ("b", "orders-b"): "partition_missing",
    }
    assert told(answer, "detail")["b", "orders-b"] == error.message
    assert error.message in json.loads(answer.stdout)["errors"][0]["remedy"]


@pytest.mark.parametrize("alias", ["east", "west"])
def test_what_nobody_reads_is_not_asked_about(run, scene, alias):
    cannot_tell(scene, alias, LEADERLESS)
    assert run("translate-offsets", "-g", "a").code == 0
    moved = run("failover", "planned", "-g", "a", "--execute", "--yes")
    assert (moved.code, scene.target.groups.committed["a"].keys()) == (
        0,
        {TopicPartition("east.orders-a", 0)},
    )


@pytest.mark.parametrize("alias", ["east", "west"])
def test_back_from_the_target_it_costs_its_own_row_too(run, scene, alias):
    for topic in ("orders-a", "orders-b"):
        scene.commits("back", f"east.{topic}", 7, cluster=scene.target)
    cannot_tell(scene, alias, LEADERLESS)
    answer = run("translate-offsets", "--reverse", "-g", "back")
    assert told(answer, "reason") == {("back", "orders-a"): "", ("back", "orders-b"): "partition_missing"}


def test_a_mirror_that_has_another_name_by_now_is_found_on_the_way_back(run, scene):
    """The naming policy of today need not agree with what was mirrored."""
    key = (scene.source.ids["orders-a"], 0)
    known = scene.state.stored[key]
    scene.state.stored[key] = replace(known, about=replace(known.about, target_topic="old.orders-a"))
    scene.target.add_topic("old.orders-a", known.about.target_topic_id, 20)
    scene.commits("back", "old.orders-a", 7, cluster=scene.target)
    answer = run("translate-offsets", "--reverse", "-g", "back")
    assert [(row["topic"], row["upstream_offset"], row["reason"]) for row in answer.rows] == [
        ("orders-a", 7, "")
    ]


def test_an_audit_says_so_in_the_row(run, scene):
    cannot_tell(scene, "west", LEADERLESS)
    answer = run("groups", "audit", "-g", "b", "-g", "c")
    verdicts, reasons = told(answer, "verdict"), told(answer, "reason")
    assert verdicts["b", "orders-a"] == "behind"
    assert verdicts["b", "orders-b"] == "stale"
    assert reasons["b", "orders-b"] == f"partition_missing: {LEADERLESS.message}"
    assert verdicts["c", LONG] == "not_mirrored"
    assert "its name of 254 characters is longer than Kafka's limit of 249" in reasons["c", LONG]


def test_a_group_that_is_kept_ready_says_so_and_stands_as_it_should_elsewhere(run, scene):
    cannot_tell(scene, "west", LEADERLESS)
    answer = run("groups", "sync", "--once", "-g", "b")
    (row,) = answer.rows
    assert (row["state"], row["written"]) == ("behind", 1)
    assert row["reason"] == f"1 partition_missing: {LEADERLESS.message}"


def test_a_rehearsal_names_the_partition_and_why(run, scene):
    cannot_tell(scene, "east", DENIED)
    answer = run("failover", "planned", "-g", "b")
    assert answer.code == 3
    assert f"group b, orders-b-0: {DENIED.message}" in answer.stderr
    (group,) = answer.rows[0]["groups"]
    assert [part["detail"] for part in group["partitions"]] == ["", DENIED.message]


def test_a_rehearsal_names_a_topic_that_cannot_be_on_the_target(run):
    answer = run("failover", "planned", "-g", "c")
    assert answer.code == 3
    assert (
        f"group c, {LONG}-0: cluster west cannot have a topic of this name: its name of 254" in answer.stderr
    )


def test_an_emergency_moves_who_does_not_read_it(run, scene):
    for group, topics in {"a": ["orders-a"], "b": ["orders-b"]}.items():
        scene.told(group, topics[0], (7, 7))
    scene.mm2.held["c"] = {TopicPartition(LONG, 0): StoredCheckpoint(OffsetPair(7, 7, 0))}
    scene.source.go_away(UnreachableError("the region is gone"))
    cannot_tell(scene, "west", LEADERLESS)
    assert run("failover", "emergency", "-g", "a").code == 0
    for group, why in {"b": "has no leader", "c": "its name of 254"}.items():
        refused = run("failover", "emergency", "-g", group)
        assert refused.code == 3
        (part,) = refused.rows[0]["groups"][0]["partitions"]
        assert part["reason"] == "partition_missing"
        assert why in part["detail"]


def test_a_line_of_an_import_is_refused_by_itself(run, scene, tmp_path):
    cannot_tell(scene, "west", LEADERLESS)
    file = tmp_path / "offsets.csv"
    file.write_text("app,east.orders-a,0,7\nother,east.orders-b,0,7\n")
    answer = run("groups", "import", file)
    assert [(row["group"], row["reason"], row["detail"]) for row in answer.rows] == [
        ("app", "", ""),
        ("other", "partition_missing", LEADERLESS.message),
    ]


def test_members_are_still_named_where_a_partition_is_not_told(run, scene):
    cannot_tell(scene, "west", LEADERLESS)
    scene.source.groups.members["a"] = (Member("app-1", "/10.0.0.9"),)
    refused = run("failover", "planned", "-g", "a")
    assert "group a is active on east" in refused.stderr


@pytest.mark.parametrize("alias", ["east", "west"])
def test_a_group_that_a_cluster_tells_nothing_of_costs_its_own_row(run, scene, alias):
    cluster = {"east": scene.source, "west": scene.target}[alias]
    why = f"cluster {alias} denies DESCRIBE on group b: Group authorization failed"
    cluster.groups.hidden["b"] = NotAuthorisedError(why)
    answer = run("translate-offsets", "-g", "a", "-g", "b")
    assert answer.code == 3
    assert told(answer, "reason") == {("a", "orders-a"): "", ("b", None): "unknown_group"}
    assert told(answer, "detail")["b", None] == why
    audited = run("groups", "audit", "-g", "a", "-g", "b")
    assert told(audited, "verdict") == {("a", "orders-a"): "behind", ("b", None): "stale"}
    assert why in told(audited, "reason")["b", None]


@pytest.mark.parametrize("alias", ["east", "west"])
def test_where_it_is_the_only_one_the_command_ends_with_what_the_cluster_said(run, scene, alias):
    cluster = {"east": scene.source, "west": scene.target}[alias]
    cluster.groups.hidden["b"] = NotAuthorisedError("cluster denies DESCRIBE on group b")
    assert run("translate-offsets", "-g", "b").code == 9


@pytest.mark.parametrize("away", ["east", "west"])
def test_with_one_cluster_away_a_group_that_the_other_one_hides_has_its_row(run, scene, away):
    for group, topic in {"a": "orders-a", "b": "orders-b"}.items():
        scene.told(group, topic, (7, 7))
    gone, left = (scene.source, scene.target) if away == "east" else (scene.target, scene.source)
    gone.go_away(UnreachableError(f"cluster {away} does not answer"))
    left.groups.hidden["b"] = NotAuthorisedError("denied: group b")
    answer = run("groups", "audit", "-g", "a", "-g", "b")
    told_of_b = [(row["verdict"], row["reason"]) for row in answer.rows if row["group"] == "b"]
    assert told_of_b == [("stale", "denied: group b")]
    assert {row["group"] for row in answer.rows} == {"a", "b"}


COLLIDES = (
    "target topic east.orders_c cannot be created: INVALID_TOPIC_EXCEPTION: it collides with east.orders.c"
)


def test_a_topic_that_its_owner_cannot_mirror_is_refused_by_the_rehearsal_with_the_owner_s_reason(run, scene):
    """Never mirrored, and never will be: `replicate` has written down why."""
    scene.source.add_topic("orders_c", "id-c", 20)
    scene.commits("d", "orders_c", 7)
    scene.commits("d", "orders-a", 7)
    scene.state.marked(OwnerRecord("me", "h", 1, 1), RefusedRecord("me", "orders_c", COLLIDES))
    translated = run("translate-offsets", "-g", "d")
    assert told(translated, "reason")["d", "orders_c"] == "partition_missing"
    assert COLLIDES in told(translated, "detail")["d", "orders_c"]
    for words in (("failover", "planned"), ("failover", "drill")):
        assert (run(*words, "-g", "d").code, run(*words, "-g", "a").code) == (3, 0)
    audited = told(run("groups", "audit", "-g", "d"), "reason")
    assert COLLIDES in audited["d", "orders_c"]
