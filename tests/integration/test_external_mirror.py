"""``mmtool.mirror = external``: groups move over a mirror that another system keeps, on real brokers.

The mirror is kept by a small relay of the tests; mmtool copies nothing.
"""

from __future__ import annotations

import threading
import time

import pytest

from kit.consumers import consume
from kit.kept_mirror import KeptMirror
from kit.lab_admin import delete_topic
from kit.load import Load, Transactions, produce
from kit.lookups import groups_of
from kit.processes import error_of, partitions_of, row_of
from kit.same_offsets import compacted
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

RECORDS, AT = 400, 75
EXTERNAL = {"mmtool.offsets": "same", "mmtool.mirror": "external", "sync.group.offsets.enabled": "true"}


class Scene:
    """A topic with transactions, a group that has read a part of it, and its mirror."""

    def __init__(self, bench, create=None, **extra):
        self.bench, self.stem = bench, f"kept-{time.monotonic_ns()}"
        self.topic, self.group = f"{self.stem}-orders", f"{self.stem}-billing"
        self.properties = bench.properties(f"{self.stem}-.*", **{**EXTERNAL, **extra})
        self.source, self.target = (bench.fleet[side].bootstrap for side in ("source", "target"))
        self.kept = KeptMirror(bench.flow(self.properties), self.topic)
        if create is None:
            create_topic(self.source, self.topic, 2)
            self.write(0)
        else:
            create(self.source, self.topic)
            self.kept.partitions = len(end_offsets(self.source, self.topic))
        self.commit()
        self.kept.create()

    def commit(self):
        places = [TopicPartition(self.topic, number) for number in range(self.kept.partitions)]
        assert groups_of(self.source).alter(self.group, dict.fromkeys(places, Commit(AT))) == {}

    def write(self, first):
        how = Transactions(f"{self.topic}-writer", 20, 3)
        produce(self.source, Load(self.topic, RECORDS, 2, 100, transactions=how, first_sequence=first))

    def ask(self, *words):
        return self.bench.ask(self.properties, *words)

    def replicated(self):
        answer = self.bench.catch_up(self.properties)
        assert answer.code == 0, answer.stderr
        return self

    def emergency(self, *words):
        """Rehearse an emergency with a source that does not answer: the group's exactness, bounds and reasons."""
        lost = self.bench.properties(
            f"{self.stem}-.*", **{**EXTERNAL, "source.bootstrap.servers": "127.0.0.1:9"}
        )
        answer = self.bench.ask(lost, "failover", "emergency", "-g", self.group, *words)
        parts = partitions_of(answer)
        return answer.code, {(at["exactness"], at["reread_max"], at["reason"]) for at in parts}

    def verify(self):
        return {row["partition"]: row["verdict"] for row in self.ask("verify").rows}

    def translated(self, *words):
        rows = self.ask("translate-offsets", "-g", self.group, *words).rows
        return {row["partition"]: (row["downstream_offset"], row["exactness"], row["reason"]) for row in rows}


@pytest.fixture(scope="module")
def bench(own_bench):
    """On the session's clusters mmtool itself has mirrored this flow for other tests."""
    return own_bench


@pytest.fixture(scope="module")
def scene(bench):
    found = Scene(bench)
    found.kept.catch_up()
    return found.replicated()


def test_replicate_copies_nothing_and_says_how_far_the_mirror_is(scene):
    rows = scene.ask("status").rows
    ends = end_offsets(scene.source, scene.topic)
    assert {r["partition"]: (r["upstream_position"], r["downstream_position"]) for r in rows} == {
        n: (end, end) for n, end in ends.items()
    }
    assert {r["offsets"] for r in rows} == {"same"}


def test_replicate_waits_until_the_mirror_has_caught_up(bench):
    scene = Scene(bench)
    late = threading.Timer(4.0, scene.kept.catch_up)
    late.start()
    scene.replicated()
    late.join()
    assert end_offsets(scene.target, scene.kept.mirror) == end_offsets(scene.source, scene.topic)
    assert {row["lag_records"] for row in scene.ask("status").rows} == {0}


def test_offsets_are_exact_where_records_are_the_same_now(scene):
    found = scene.translated()
    assert [exactness for _, exactness, _ in found.values()] == ["exact", "exact"], found
    audited = scene.ask("groups", "audit", "-g", scene.group).rows
    assert {row["verdict"] for row in audited} <= {"synced", "behind"}, audited


def test_groups_are_synced(scene):
    answer = scene.ask("groups", "sync", "-g", scene.group, "--once")
    assert (answer.code, answer.rows[0]["state"]) == (0, "synced"), answer.stderr
    assert {row["verdict"] for row in scene.ask("groups", "audit", "-g", scene.group).rows} == {"synced"}


NOT_VERIFIED = {("refused", None, "mirror_not_verified")}
EXACT = {("exact", 220 - AT, "")}
"""How it is shown in an emergency: the group may have read on since."""


def test_an_emergency_needs_an_earlier_verify_or_the_operators_word(scene):
    assert scene.emergency() == (3, NOT_VERIFIED)
    assert scene.emergency("--accept-unverified") == (0, {("bounded", None, "")})
    assert scene.verify() == {0: "identical", 1: "identical"}
    assert scene.emergency() == (0, EXACT)


def test_a_drill_moves_copies(scene):
    answer = scene.ask("failover", "drill", "-g", scene.group, "--execute", "--yes")
    assert (answer.code, row_of(answer)["state"]) == (0, "completed"), answer.stderr


def test_a_planned_failover_waits_for_the_mirror_and_stops_it_by_the_hook(bench, tmp_path):
    told, code, hook = tmp_path / "told", tmp_path / "code", tmp_path / "promote"
    hook.write_text(f'#!/bin/sh\necho "$MMTOOL_STEP $MMTOOL_TOPICS" >> {told}\nexit $(cat {code})\n')
    hook.chmod(0o755)
    scene = Scene(bench, **{"mmtool.hook.promote": str(hook)})
    scene.kept.catch_up()
    scene.replicated()
    scene.write(RECORDS)
    code.write_text("1")
    line = ("failover", "planned", "-g", scene.group, "--execute", "--yes")
    behind = scene.ask(*line, "--timeout", "5s")
    assert (behind.code, told.exists()) == (4, False), behind.stderr
    runbook = tmp_path / "runbook.md"
    assert scene.ask(*line[:4], "--runbook", str(runbook)).code == 0
    assert "run mmtool.hook.promote, which stops the mirror of" in runbook.read_text()
    late = threading.Timer(5.0, scene.kept.catch_up)
    late.start()
    failed = scene.ask(*line)
    late.join()
    assert (failed.code, error_of(failed)["code"]) == (3, "hook_failed"), failed.stderr
    assert {at["written"] for at in partitions_of(failed)} == {False}
    code.write_text("0")
    moved = scene.ask(*line)
    assert (moved.code, row_of(moved)["rpo_records"], row_of(moved)["reread_records"]) == (0, 0, 0), (
        moved.stderr
    )
    assert {at["exactness"] for at in partitions_of(moved)} == {"exact"}
    assert told.read_text() == f"promote {scene.topic}\n" * 2
    steps = [step["name"] for step in row_of(moved)["steps"]]
    assert steps.index("validate") + 1 == steps.index("promote") == steps.index("write") - 1
    read = consume(scene.target, scene.group, [scene.kept.mirror])
    left = [record for record in read_topic(scene.source, scene.topic) if record.offset >= AT]
    assert sorted((r.partition, r.offset) for r in read) == sorted((r.partition, r.offset) for r in left)


def shifted(scene):
    scene.kept.shift = 1


def fewer(scene):
    records = read_topic(scene.source, scene.topic)
    scene.kept.leaves_out = {(r.partition, r.offset) for r in records if AT - 20 <= r.offset < AT + 20}


@pytest.mark.parametrize("spoil", [shifted, fewer])
def test_a_mirror_that_differs_is_never_taken_for_the_source(bench, spoil):
    scene = Scene(bench)
    spoil(scene)
    scene.kept.catch_up()
    scene.replicated()
    for _ in range(2):  # before the verify and after it
        assert {(exact, reason) for _, exact, reason in scene.translated().values()} == {
            ("refused", "mirror_not_verified")
        }
        assert scene.verify() == {0: "different", 1: "different"}
    ended = error_of(scene.ask("verify"))
    assert "stored offset map" not in ended["message"]
    remedy = ended["remedy"]
    assert f"mirror {scene.topic} to target again" in remedy
    assert not {"forget", "rebuild"} & set(remedy.split())
    bounded = scene.translated("--accept-unverified")
    assert {exactness for _, exactness, _ in bounded.values()} == {"bounded"}
    assert scene.ask("groups", "sync", "-g", scene.group, "--once").code == 3
    assert scene.emergency()[0] == 3


def test_holes_of_compaction_at_the_same_offsets_do_no_harm(bench):
    scene = Scene(bench, create=compacted)
    scene.kept.catch_up()
    scene.replicated()
    assert {(exact, reason) for _, exact, reason in scene.translated().values()} == {("exact", "")}
    assert set(scene.verify().values()) == {"identical"}


def test_a_recreated_topic_is_not_the_one_that_was_verified(bench):
    scene = Scene(bench)
    scene.kept.catch_up()
    scene.replicated()
    assert scene.verify() == {0: "identical", 1: "identical"}
    assert scene.emergency() == (0, EXACT)
    delete_topic(scene.target, scene.kept.mirror)
    scene.kept.create()
    fewer(scene)
    scene.kept.catch_up()
    assert scene.emergency() == (3, NOT_VERIFIED)
    assert {reason for *_, reason in scene.translated().values()} == {"mirror_not_verified"}
    assert scene.verify() == {0: "different", 1: "different"}
    assert scene.emergency() == (3, NOT_VERIFIED)


def test_the_source_topic_recreated_is_not_the_one_that_was_verified(bench):
    scene = Scene(bench)
    scene.kept.catch_up()
    scene.replicated()
    assert scene.verify() == {0: "identical", 1: "identical"}
    delete_topic(scene.source, scene.topic)
    create_topic(scene.source, scene.topic, 2)
    scene.write(0)
    scene.commit()
    scene.replicated()
    assert scene.emergency() == (3, NOT_VERIFIED)
    assert {reason for *_, reason in scene.translated().values()} == {"mirror_not_verified"}


def test_a_mirror_that_no_replicate_has_seen_is_never_ran(bench):
    scene = Scene(bench)
    scene.kept.catch_up()
    assert {reason for *_, reason in scene.translated("--accept-unverified").values()} == {"never_ran"}
    doctor = scene.ask("doctor").rows
    about = [row for row in doctor if row["check"] == "names" and row["severity"] != "ok"]
    assert about == []
    moved = scene.ask("failover", "planned", "-g", scene.group, "--execute", "--yes")
    assert moved.code == 4, moved.stderr
    assert "start `mmtool replicate -c " in error_of(moved)["remedy"]


def test_the_topics_that_the_other_system_creates_are_not_listed_as_needed(scene):
    found = {row["topic"] for row in scene.ask("acls", "--topics").rows}
    assert found
    assert scene.kept.mirror not in found


def test_positions_are_compared_as_commits_are(scene, tmp_path):
    file = tmp_path / "positions.csv"
    file.write_text(f"{scene.topic},0,{AT}\n{scene.topic},1,{AT}\n")
    answer = scene.ask("translate-offsets", "--positions", str(file))
    assert {(row["exactness"], row["downstream_offset"]) for row in answer.rows} == {("exact", AT)}


def test_replicate_says_which_mirrors_are_missing(bench):
    scene = Scene(bench)
    delete_topic(scene.target, scene.kept.mirror)
    answer = bench.catch_up(scene.properties)
    assert answer.code == 3
    assert (
        f"target topic {scene.kept.mirror} does not exist: the system that keeps the mirror" in answer.stderr
    )


def test_external_needs_the_sources_offsets(bench):
    properties = bench.properties("orders", **{"mmtool.mirror": "external"})
    answer = bench.ask(properties, "status")
    assert answer.code == 2
    assert "expected mmtool.offsets = same beside external" in error_of(answer)["message"]
