"""A group that has another name on the target, through the command line on real brokers.

The pair is stored on the target before the first commit, so that every later command uses it: also after the file has
changed or is gone.
"""

from __future__ import annotations

import re
import time
from itertools import count

import pytest

from kit.black_hole import BlackHole
from kit.consumers import consume
from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.processes import error_of, run_mmtool
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

PARTITIONS, RECORDS, READ = 2, 200, 70
KEY = "mmtool.group.map"
_numbers = count(1)


class Stage:
    """One topic, one group ``a`` that has read a part of it, and a map of ``a`` to ``a-dr``.

    Attributes:
        group, other: The group's names on the source and on the target.
        before: What the group has read on the source.
    """

    def __init__(self, bench, folder, **extra):
        self.bench, self.folder, stem = bench, folder, f"named-{next(_numbers)}-{time.monotonic_ns()}"
        self.topic, self.group, self.other = f"{stem}-orders", f"{stem}-a", f"{stem}-dr"
        self.map = folder / f"{stem}.csv"
        self.map.write_text(f"source,target\n{self.group},{self.other}\n")
        create_topic(self.source, self.topic, PARTITIONS)
        produce(self.source, Load(self.topic, RECORDS, PARTITIONS, 100, keys="sequence"))
        self.before = self.read(self.source, self.group, self.topic, READ)
        lines = {KEY: str(self.map), "groups": f"{stem}.*", **extra}
        lines = {name: value.replace("STEM", stem) for name, value in lines.items() if value}
        self.properties = bench.properties(f"{stem}-.*", **lines)
        self.remote = f"source.{self.topic}"

    @property
    def source(self):
        return self.bench.fleet["source"].bootstrap

    @property
    def target(self):
        return self.bench.fleet["target"].bootstrap

    @staticmethod
    def read(bootstrap, group, topic, at_most=None):
        return [(record.key, record.value) for record in consume(bootstrap, group, [topic], at_most)]

    def mirrored(self):
        answer = self.bench.catch_up(self.properties)
        assert answer.code == 0, answer.stderr
        return self

    def run(self, *words):
        line = [*words, "-c", str(self.properties), "-o", "json"]
        return run_mmtool(self.folder / f"run-{next(_numbers)}", *line)

    def move(self, mode, *more):
        return self.run("failover", mode, "-g", self.group, *more, "--execute", "--yes")

    def on_target(self, name):
        return sum(committed(self.target, name).values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("named")


def test_a_planned_failover_commits_under_the_target_name_and_a_failback_returns_to_the_source_name(
    bench, folder
):
    stage = Stage(bench, folder).mirrored()
    moved = stage.move("planned")
    assert moved.code == 0, moved.stderr
    assert [(g["group"], g["target_group"]) for g in moved.rows[0]["groups"]] == [(stage.group, stage.other)]
    assert committed(stage.target, stage.group) == {}
    there = stage.read(stage.target, stage.other, stage.remote, 60)
    assert not set(there) & set(stage.before)
    stage.map.write_text(f"{stage.group},{stage.other}-changed\n")  # the stored pair counts
    back = stage.move("failback")
    assert back.code == 0, back.stderr
    rest = stage.read(stage.source, stage.group, stage.topic)
    assert len(stage.before) + len(there) + len(rest) == RECORDS
    assert len({*stage.before, *there, *rest}) == RECORDS


def test_a_rollback_undoes_the_commits_of_the_target_name_also_when_the_file_is_gone(bench, folder):
    stage = Stage(bench, folder, **{"sync.group.offsets.enabled": "false"}).mirrored()
    moved = stage.move("planned")
    assert moved.code == 0, moved.stderr
    assert stage.on_target(stage.other) > 0
    stage.map.unlink()
    undone = stage.run("failover", "rollback", moved.rows[0]["operation_id"], "--execute", "--yes")
    assert undone.code == 0, undone.stderr
    assert committed(stage.target, stage.other) == {}


def test_replicate_syncs_under_the_stored_name_and_an_emergency_moves_the_group_there(bench, folder):
    more = {"sync.group.offsets.enabled": "true", "emit.checkpoints.interval.seconds": "1"}
    stage = Stage(bench, folder, **more).mirrored()
    kept = stage.on_target(stage.other)
    assert (kept > 0, committed(stage.target, stage.group)) == (True, {})
    stage.map.write_text(f"{stage.group},{stage.other}-changed\n")
    before = [*stage.before, *stage.read(stage.source, stage.group, stage.topic, 50)]
    stage.mirrored()
    assert stage.on_target(stage.other) > kept
    assert committed(stage.target, f"{stage.other}-changed") == {}
    for words in (("groups", "audit"), ("status", "--groups")):
        answer = stage.run(*words, "-s", "source", "-t", "target")
        rows = [row for row in answer.rows if row["group"] == stage.group]
        assert {row["target_group"] for row in rows} == {stage.other}, answer.stderr
    checkpoints = stage.run("failover", "emergency", "-g", stage.group)
    assert checkpoints.rows[0]["groups"][0]["target_group"] == stage.other

    with BlackHole() as hole:
        text = stage.properties.read_text()
        stage.properties.write_text(f"{text}\nsource.bootstrap.servers = {hole.bootstrap}\n")
        stage.map.unlink()
        moved = stage.move("emergency", "--accept-data-loss")
        assert moved.code == 0, moved.stderr
        assert stage.run("failover", "show", moved.rows[0]["operation_id"]).rows[0]["groups"][0][
            "target_group"
        ] == (stage.other)
        stage.properties.write_text(text)
    there = stage.read(stage.target, stage.other, stage.remote, 40)
    assert len({*before, *there}) == len(before) + len(there)
    back = stage.move("failback")
    assert back.code == 0, back.stderr
    rest = stage.read(stage.source, stage.group, stage.topic)
    assert len({*before, *there, *rest}) == len(before) + len(there) + len(rest) == RECORDS


def test_translated_offsets_are_written_and_undone_under_the_target_name(bench, folder):
    stage = Stage(bench, folder, **{KEY: "", "sync.group.offsets.enabled": "false"}).mirrored()
    words = ("translate-offsets", "-g", stage.group, "--group-map", str(stage.map))
    written = stage.run(*words, "--execute", "--yes")
    assert written.code == 0, written.stderr
    assert {row["target_group"] for row in written.rows} == {stage.other}
    assert (stage.on_target(stage.other) > 0, committed(stage.target, stage.group)) == (True, {})
    (undo,) = re.findall(r"\S+\.json", written.stderr)
    undone = stage.run("groups", "import", undo, "--execute", "--yes")
    assert undone.code == 0, undone.stderr
    assert committed(stage.target, stage.other) == {}


def test_a_saved_plan_keeps_the_name_when_the_file_has_changed(bench, folder):
    stage = Stage(bench, folder, **{"sync.group.offsets.enabled": "false"}).mirrored()
    plan, page = folder / f"{stage.other}.json", folder / f"{stage.other}.md"
    saved = stage.run("failover", "planned", "-g", stage.group, "--out", str(plan), "--runbook", str(page))
    assert saved.code == 0, saved.stderr
    assert f"--group {stage.other}" in page.read_text()
    stage.map.write_text(f"{stage.group},{stage.other}-changed\n")
    moved = stage.run("failover", "planned", "--plan", str(plan), "--execute", "--yes")
    assert moved.code == 0, moved.stderr
    assert (stage.on_target(stage.other) > 0, stage.on_target(f"{stage.other}-changed")) == (True, 0)


def test_groups_sync_leaves_out_a_group_whose_name_is_in_use_and_syncs_the_others(bench, folder):
    stage = Stage(bench, folder, **{"sync.group.offsets.enabled": "false"}).mirrored()
    second = f"{stage.group}-2"
    commit(stage.source, second, stage.topic, 0, 0)
    commit(stage.target, stage.other, stage.remote, 3, 3)
    answer = stage.run("groups", "sync", "--once")
    rows = {row["group"]: row for row in answer.rows}
    assert answer.code == 6, answer.stderr
    assert rows[stage.group]["state"] == "behind"
    assert f"target has a group {stage.other} that this flow did not create" in rows[stage.group]["reason"]
    assert committed(stage.target, stage.other) == {(stage.remote, 0): 3, (stage.remote, 1): 3}
    assert (rows[second]["state"], rows[second]["target_group"]) == ("synced", second), rows[second]["reason"]
    assert f"-g {stage.group} --group-map {stage.map}`" in error_of(answer)["remedy"]
    ready = stage.run("status", "--groups", "-g", stage.group)
    assert {(row["ready"], row["reason"].split(":")[0]) for row in ready.rows} == {
        (False, "group_name_taken")
    }
    told = {row["subject"]: row["severity"] for row in stage.run("doctor").rows if row["check"] == "names"}
    assert told == {stage.group: "problem"}
    stage.properties.write_text(stage.properties.read_text() + "\nsync.group.offsets.enabled = true\n")
    ended = stage.bench.catch_up(stage.properties)
    assert (ended.code, f"give the group another target name in {stage.map}" in ended.stderr) == (6, True), (
        ended.stderr
    )


def test_the_reverse_flow_uses_the_map_the_other_way_round(bench, folder):
    both = {
        "target->source.enabled": "true",
        "target->source.topics": "STEM-.*",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.group.offsets.enabled": "false",
    }
    stage = Stage(bench, folder, **both)
    refused = stage.run("status", "-s", "source", "-t", "target")
    assert refused.code == 2
    assert "set it for one of them only" in refused.stderr
    text = stage.properties.read_text().replace(KEY, f"source->target.{KEY}")
    stage.properties.write_text(text)
    assert stage.bench.catch_up(stage.properties).code == 0
    moved = stage.move("planned", "-s", "source", "-t", "target")
    assert moved.code == 0, moved.stderr
    stage.read(stage.target, stage.other, stage.topic, 60)
    answer = stage.run("translate-offsets", "-s", "target", "-t", "source", "-g", stage.other)
    assert {row["target_group"] for row in answer.rows} == {stage.group}, answer.stderr
    # other tests run this flow with other names of topics, and would find mirrors that are none to them
    way = ("-s", "target", "-t", "source", "--topic", stage.topic)
    forgotten = stage.run("flow", "forget", *way, "--execute", "--yes")
    assert forgotten.code == 0, forgotten.stderr


BAD = {
    "malformed": ("{a},{b}\n{c}\n", 2, "line 2 does not have two names"),
    "empty name": ("{a},\n", 2, "line 1 does not have two names"),
    "not CSV": ('{a},"{b}\n', 2, "line 1: unexpected end of data"),
    "one target name": ("source,target\n{a},{b}\n{c},{b}\n", 2, "line 3: groups"),
    "a circle": ("{a},{c}\n{c},{a}\n", 2, "in a chain or a circle"),
    "a chain": ("{a},{c}\n{c},{b}\n", 2, "in a chain or a circle"),
    "a name of mmtool's": ("{a},mmtool.x\n", 2, "line 1: mmtool.x is a name of mmtool's internal groups"),
    "another group of the flow": ("{a},{c}\n", 3, "is also the name of a group of source"),
    "in use on the target": ("{a},{d}\n", 3, "that this flow did not create"),
}


@pytest.fixture(scope="module")
def stage(bench, folder):
    """A flow with groups a and c on the source, and a group d on the target that is not of this flow."""
    stage = Stage(bench, folder, **{"sync.group.offsets.enabled": "false"})
    stage.map.write_text("")
    stage.mirrored()
    commit(stage.source, f"{stage.group}-c", stage.topic, 5, 5)
    commit(stage.target, f"{stage.group}-d", stage.remote, 5, 5)
    return stage


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
@pytest.mark.parametrize("words", [("translate-offsets",), ("failover", "planned"), ("failover", "drill")])
def test_a_bad_map_is_refused_before_anything_is_written(stage, text, words):
    lines, code, said = text
    names = {"a": stage.group, "b": stage.other, "c": f"{stage.group}-c", "d": f"{stage.group}-d"}
    bad = stage.folder / "bad.csv"
    bad.write_text(lines.format(**names))
    answer = stage.run(*words, "-g", stage.group, "--group-map", str(bad), "--execute", "--yes")
    assert (answer.code, said in answer.stderr, "Traceback" in answer.stderr) == (code, True, False)
    assert all(committed(stage.target, stage.group + end) == {} for end in ("", "-c"))
    assert set(committed(stage.target, names["d"]).values()) == {5}
    if code == 2:
        properties = stage.properties.read_text()
        stage.map.write_text(lines.format(**names))
        by_key = stage.run(*words, "-g", stage.group, "--execute", "--yes")
        stage.map.write_text("")
        assert (by_key.code, said in by_key.stderr) == (2, True), by_key.stderr
        assert stage.properties.read_text() == properties


def test_a_map_that_is_not_there_is_refused_for_groups_without_a_stored_name(stage):
    missing = stage.run("translate-offsets", "-g", stage.group, "--group-map", str(stage.folder / "no.csv"))
    assert (missing.code, "no.csv" in missing.stderr) == (2, True)
    stage.map.rename(kept := stage.map.with_suffix(".kept"))
    by_key = stage.run("translate-offsets", "-g", stage.group, "--execute", "--yes")
    ready = stage.run("status", "--groups", "-g", stage.group)
    kept.rename(stage.map)
    assert {row["ready"] for row in ready.rows} == {False}
    assert f"restore {stage.map}" in ready.rows[0]["reason"]
    assert (by_key.code, "cannot be read" in by_key.stderr) == (2, True)
    assert committed(stage.target, stage.group) == {}


def test_a_line_for_a_group_that_no_cluster_has_is_a_warning(stage):
    (stage.folder / "more.csv").write_text(f"{stage.group},{stage.other}\nnobody,nobody-dr\n")
    for words in (("translate-offsets",), ("groups", "audit", "-s", "source", "-t", "target")):
        answer = stage.run(*words, "-g", stage.group, "--group-map", str(stage.folder / "more.csv"))
        assert (answer.code, "names groups that source does not have: nobody" in answer.stderr) == (0, True)


def test_kafka_s_own_policy_class_is_refused_by_name(stage):
    text = stage.properties.read_text()
    stage.properties.write_text(f"{text}\ngroup.mirroring.policy.class = com.example.Prefixed\n")
    answer = stage.run("translate-offsets")
    stage.properties.write_text(text)
    assert (answer.code, "mmtool.group.map" in answer.stderr) == (2, True)
