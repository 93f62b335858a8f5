"""A partition that a cluster cannot tell the end of costs its own rows: no other group, topic or flow waits for it."""

import json
from dataclasses import replace

import pytest

from kit.processes import partitions_of
from kit.scene import Scene
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.ports import StoredCheckpoint
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


def test_a_topic_that_cannot_be_on_the_target_is_named(run, scene):
    scene.mm2.held["c"] = {TopicPartition(LONG, 0): StoredCheckpoint(OffsetPair(7, 7, 0))}
    too_long = "its name of 254 characters is longer than Kafka's limit of 249"
    audited = run("groups", "audit", "-g", "c")
    assert (told(audited, "verdict")["c", LONG], too_long in told(audited, "reason")["c", LONG]) == (
        "not_mirrored",
        True,
    )
    planned = run("failover", "planned", "-g", "c")
    why = f"group c, {LONG}-0: cluster west cannot have a topic of this name: {too_long}"
    assert (planned.code, why in planned.stderr) == (3, True)
    scene.source.go_away(UnreachableError("the region is gone"))
    emergency = run("failover", "emergency", "-g", "c")
    (part,) = partitions_of(emergency)
    assert (emergency.code, part["reason"], too_long in part["detail"]) == (3, "partition_missing", True)


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
