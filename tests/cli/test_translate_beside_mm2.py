"""``mmtool translate-offsets`` for a flow that MirrorMaker 2 runs, on clusters in memory."""

from dataclasses import replace

import pytest

from kit.scene import Scene
from mmtool.errors import UnreachableError
from mmtool.translation.blocks import Gap
from mmtool.translation.types import TopicId, TopicPartition, UpstreamOffset


@pytest.fixture
def scene(tmp_path, wired):
    """MM2 has mirrored the first of three partitions, mmtool the second and, from record 100 on, the third."""
    made = Scene(tmp_path)
    made.has("orders", 300, 300, 300)
    made.mirrored_by_mm2("orders", 0, 300, (0, 0), (101, 101), (202, 202))
    made.mirrored("orders", 1, [(0, 0, 300)], 300)
    made.mirrored("orders", 2, [(100, 100, 200)], 300, start=(100, 100))
    made.mirrored_by_mm2("orders", 2, 300, (0, 0), (99, 99))
    return wired(made)


@pytest.fixture
def rows(mmtool, scene):
    def run(*arguments, code=0):
        ended = mmtool("translate-offsets", "-c", scene.config, "-o", "json", *arguments)
        assert ended.code == code, ended
        return [
            (row["knowledge"], row["downstream_offset"], row["exactness"], row["reread_max"])
            for row in ended.rows
        ]

    return run


def test_what_the_mirror_passed_over_is_not_looked_for_in_what_was_before(rows, scene):
    """An operator moved it forward: the records from 200 to 250 are nowhere, whatever MM2 has told."""
    scene.mirrored("orders", 2, [(100, 100, 100), (250, 200, 50)], 300, start=(100, 100))
    stored, place = scene.state.stored, (TopicId("id-orders"), 2)
    stored[place] = replace(stored[place], gaps=(Gap(UpstreamOffset(200), UpstreamOffset(250)),))
    scene.commits("app", "orders", 300, 300, 220)
    assert rows(code=3)[2] == ("offset_runs", None, "refused", None)


def test_refined_by_the_records_a_position_is_exact_and_its_neighbours_are_the_proof(mmtool, scene):
    """Ten records of the source were gone when MM2 came to them; so the target lies ten behind."""
    scene.holds(scene.source, "orders", [(n, f"{n}") for n in range(300) if not 110 <= n < 120])
    scene.holds(
        scene.target, "east.orders", [(n - 10 * (n >= 120), f"{n}") for n in range(300) if not 110 <= n < 120]
    )
    scene.mirrored_by_mm2("orders", 0, 300, (0, 0), (101, 101), (202, 192))
    scene.commits("app", "orders", 150)
    (row, *_) = mmtool("translate-offsets", "-c", scene.config, "--refine", "-o", "json").rows
    assert (row["knowledge"], row["exactness"], row["downstream_offset"]) == ("records", "exact", 140)
    assert [(pair["upstream_offset"], pair["downstream_offset"]) for pair in row["proof"].values()] == [
        (149, 139),
        (150, 140),
    ]
    assert f"before 149=139:{b'149'.hex()[:8]} after 150=140" in str(
        mmtool("translate-offsets", "-c", scene.config, "--refine").stdout
    )


def test_refined_where_a_sync_is_about_another_record_the_position_is_ambiguous(mmtool, scene):
    """The target topic was made anew, and MM2 has not told of the new one yet."""
    scene.holds(scene.source, "orders", [(n, f"{n}") for n in range(300)])
    scene.holds(scene.target, "east.orders", [(n, f"{n + 1}") for n in range(300)])
    scene.commits("app", "orders", 150)
    (row, *_) = mmtool("translate-offsets", "-c", scene.config, "--refine", "-o", "json").rows
    assert (row["exactness"], row["reason"]) == ("refused", "ambiguous")


def test_a_sync_that_came_after_a_later_one_takes_no_answer_away(rows, mmtool, scene):
    """MM2's race; refined, the walk begins at the last sync before the commit that nothing contradicts."""
    for cluster, topic in ((scene.source, "orders"), (scene.target, "east.orders")):
        scene.holds(cluster, topic, [(n, f"{n}") for n in range(300)])
    scene.mirrored_by_mm2("orders", 0, 300, (0, 0), (101, 101), (299, 299), (202, 202))
    scene.commits("app", "orders", 150)
    scene.commits("late", "orders", 300)
    assert rows("-g", "app")[0] == ("offset_syncs", 102, "bounded", 48)
    assert rows("-g", "late")[0] == ("offset_syncs", 203, "bounded", 97)
    assert rows("-g", "app", "--refine")[0] == ("records", 150, "exact", 0)
    assert rows("-g", "late", "--refine")[0] == ("records", 300, "exact", 0)


def test_refined_below_the_first_sync_the_walk_begins_where_the_logs_do(rows, scene):
    """MM2 sends ten syncs at a time, and drops what it owes of others: the first may be of any record."""
    for cluster, topic in ((scene.source, "orders"), (scene.target, "east.orders")):
        scene.holds(cluster, topic, [(n, f"{n}") for n in range(300)])
    scene.mirrored_by_mm2("orders", 0, 300, (202, 202))
    scene.commits("app", "orders", 150)
    assert rows(code=3)[0] == ("offset_syncs", None, "refused", None)
    assert rows("--refine")[0] == ("records", 150, "exact", 0)


def test_a_stretch_too_long_to_be_held_in_memory_is_left_bounded_and_said(mmtool, scene):
    scene.has("orders", 900_000, 300, 300)
    scene.mirrored_by_mm2("orders", 0, 900_000, (0, 0), (800_000, 800_000))
    scene.commits("app", "orders", 500_000)
    ended = mmtool("translate-offsets", "-c", scene.config, "--refine", "-o", "json")
    assert (ended.rows[0]["exactness"], ended.rows[0]["reread_max"]) == ("bounded", 499_999)
    assert (
        "--refine compares at most 200,000 records for each commit, so the translated offsets of 1 commit stay bounded"
        " or ambiguous: orders-0" in ended.stderr
    )


@pytest.mark.parametrize("side", ["east", "west"])
def test_a_log_that_cannot_be_read_leaves_its_positions_bounded_and_others_refined(mmtool, scene, side):
    scene.has("orders-2", 300)
    scene.mirrored_by_mm2("orders-2", 0, 300, (0, 0), (101, 101), (202, 202))
    for topic in ("orders", "orders-2"):
        scene.holds(scene.source, topic, [(n, f"{n}") for n in range(300)])
        scene.holds(scene.target, f"east.{topic}", [(n, f"{n}") for n in range(300)])
        scene.commits("app", topic, 150)
    cluster, topic = {"east": (scene.source, "orders"), "west": (scene.target, "east.orders")}[side]
    cluster.unreadable[TopicPartition(topic, 0)] = UnreachableError(f"{side} has no leader for it")
    ended = mmtool("translate-offsets", "-c", scene.config, "--refine", "-o", "json")
    told = {(row["topic"], row["partition"]): row["exactness"] for row in ended.rows}
    assert (ended.code, told["orders", 0], told["orders-2", 0]) == (0, "bounded", "exact")
    assert (
        f"{topic}-0 stay bounded or ambiguous, because its records cannot be read: {side} has" in ended.stderr
    )
