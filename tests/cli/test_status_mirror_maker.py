"""``mmtool status`` of a flow that MirrorMaker 2 runs, on clusters in memory."""

import json
import time

import pytest

from kit.clusters import FakeFlowWatch
from kit.scene import Scene
from mmtool.errors import UnreachableError
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.translation.types import TopicPartition

FIRST, SECOND = (TopicPartition("orders", n) for n in range(2))


@pytest.fixture
def scene(tmp_path, wired):
    """``orders`` has 100 and 10 records."""
    made = Scene(tmp_path)
    made.state = made.watch = FakeFlowWatch()
    made.has("orders", 100, 10)
    made.holds(made.source, "orders", [(n, f"record {n}") for n in range(100)])
    return wired(made)


@pytest.fixture
def rows(mmtool, scene):
    def run(*arguments, code=0):
        ended = mmtool("status", "-c", scene.config, "-o", "json", *arguments)
        assert ended.code == code, ended
        return json.loads(ended.stdout)["data"]

    return run


def copied(scene, *positions, **about):
    places = {TopicPartition("orders", n): position for n, position in enumerate(positions)}
    scene.watch.mm2 = MirrorMakerProgress(places, **about)


def told(row):
    return row["state"], row["upstream_position"], row["lag_records"], row["reason"]


def test_its_partitions_are_told_from_what_it_has_stored(rows, scene):
    copied(scene, 60, 10, workers=1)
    scene.watch.times["orders", 0, 60] = int((time.time() - 7) * 1000)
    first, second = rows()
    assert told(first) == ("running", 60, 40, "mirrored by MirrorMaker 2")
    assert told(second) == ("caught_up", 10, 0, "mirrored by MirrorMaker 2")
    assert 7 <= first["lag_seconds"] < 12
    assert (second["lag_seconds"], second["target_topic"]) == (0.0, "east.orders")


def test_the_line_of_the_flow_says_that_mirror_maker_runs_it(mmtool, scene):
    copied(scene, 100, 10, workers=2)
    said = mmtool("status", "-c", scene.config).stderr
    assert "east->west: run by MirrorMaker 2, 2 workers; 2 partitions: 2 caught_up; lag 0" in said


def test_a_gate_is_met_by_a_mirror_of_mirror_maker_that_has_caught_up(rows, scene):
    copied(scene, 100, 10)
    rows("--max-lag-seconds", "5")
    copied(scene, 99, 10)
    rows("--max-lag-seconds", "5", code=4)


def test_what_waits_for_workers_that_have_left_is_not_shown_as_running(rows, scene):
    copied(scene, 60, 10, has_left=True)
    first, second = rows()
    assert told(first) == ("idle", 60, 40, "mirrored by MirrorMaker 2, which is not running")
    assert second["state"] == "caught_up"


def test_markers_behind_the_last_record_are_no_lag(rows, scene):
    copied(scene, 98, 10)
    scene.holds(scene.source, "orders", [(n, f"record {n}") for n in range(98)])
    assert told(rows()[0])[:3] == ("caught_up", 100, 0)


def test_a_partition_that_it_has_told_nothing_of_was_never_mirrored_unless_it_is_empty(rows, scene):
    copied(scene, 100)
    scene.has("orders-empty", 0)
    _, unknown, empty = rows()
    assert (unknown["state"], unknown["lag_records"]) == ("never_ran", None)
    assert unknown["reason"].startswith(
        "MirrorMaker 2 mirrors this flow, and has stored no source offset of this partition yet: it copied"
    )
    assert (empty["state"], empty["lag_records"]) == ("caught_up", 0)


def test_where_its_topics_cannot_be_read_the_flow_never_ran(rows, scene, monkeypatch):
    def fail():
        raise UnreachableError("no leader")

    monkeypatch.setattr(scene.watch, "mirror_maker", fail)
    (row,) = rows()
    assert row["state"] == "never_ran"


def test_what_a_group_would_lose_is_what_mirror_maker_has_not_copied(rows, scene):
    copied(scene, 60, 10)
    scene.mirrored_by_mm2("orders", 0, 60, (0, 0), (50, 50))
    scene.commits("app", "orders", 55)
    scene.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000), by_mm2=True)
    scene.watch.times["orders", 0, 60] = int((time.time() - 7) * 1000)
    row = rows("--groups")[0]
    assert (row["ready"], row["rpo_records"], row["reread_max"], row["lag_records"]) == (True, 40, 10, 45)
    assert 7 <= row["rpo_seconds"] < 12
