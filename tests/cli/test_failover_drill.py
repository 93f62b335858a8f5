"""``mmtool failover drill`` with limits, as a CI job sees it, on clusters in memory."""

import json
import re

import pytest

from kit.scene import Scene

CONTENTS = [f"record {n}" for n in range(20)]


@pytest.fixture
def drill(mmtool, tmp_path, monkeypatch):
    """``app`` is at 12 of 20 records, mirrored to 15."""
    scene = Scene(tmp_path)
    scene.has("orders", 20)
    scene.mirrored("orders", 0, [(0, 0, 15)], 15, source_end=20)
    scene.commits("app", "orders", 12)
    scene.told("app", "orders", (12, 12))
    scene.holds(scene.source, "orders", enumerate(CONTENTS))
    scene.holds(scene.target, "east.orders", enumerate(CONTENTS))
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: scene.clusters)
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: scene)
    monkeypatch.setattr("mmtool.failover.service.connections.tools", scene.tools)
    monkeypatch.setattr("mmtool.failover.service.connections.target_side", lambda flow, timeout: scene.side)

    def run(*arguments):
        return mmtool("failover", "drill", "-c", scene.config, "-g", "app", "-o", "json", *arguments)

    return run


def test_a_drill_within_its_limits_ends_with_zero(drill):
    ended = drill("--execute", "--yes", "--max-rto", "30s", "--max-reread", "0")
    assert (ended.code, json.loads(ended.stdout)["errors"]) == (0, [])


def test_a_drill_that_took_too_long_ends_with_4_and_is_completed_all_the_same(drill, tmp_path):
    page = tmp_path / "drill.html"
    ended = drill("--execute", "--yes", "--max-rto", "1ms", "--max-reread", "0", "--html", page)
    document = json.loads(ended.stdout)
    (row,), (error,) = document["data"], document["errors"]
    assert (ended.code, error["code"], row["state"]) == (4, "gate_not_met", "completed")
    said = r"the drill exceeded a limit: RTO [\d.]+ s \(limit 0.001 s\); 0 records read again \(limit 0\)"
    assert re.fullmatch(said, error["message"])
    assert page.exists()


def test_a_rehearsal_has_measured_nothing_and_meets_no_limit(drill):
    ended = drill("--max-rto", "30s")
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.code, error["message"][:20]) == (4, "nothing was measured")
    assert "--execute" in error["remedy"]


def test_a_drill_without_limits_has_no_gate(drill):
    assert drill().code == 0


@pytest.mark.parametrize(
    "limit", [("--max-rto", "30"), ("--max-rto", "0s"), ("--max-reread", "-1")], ids=" ".join
)
def test_a_limit_that_is_none_is_a_usage_error(drill, limit):
    assert drill(*limit).code == 2


def test_the_question_names_the_copies_and_not_the_group(drill):
    (error,) = json.loads(drill("--execute").stdout)["errors"]
    assert error["message"].endswith(
        '"commit offsets for copies of app on west, and delete the copies afterwards?"'
    )
