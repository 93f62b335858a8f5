"""Planned failovers of groups and topics that are not as usual, on real clusters."""

from __future__ import annotations

import time

import pytest

from kit.added_partitions import ADDED, growing_hook
from kit.consumers import consume
from kit.lab_admin import delete_records
from kit.load import Load, produce
from kit.lookups import committed, groups_of
from kit.processes import error_of, partitions_of, run_mmtool
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.promise]


def test_who_is_behind_what_the_source_has_deleted_reads_it_on_the_target(bench, tmp_path):
    """Retention has passed a slow group, and not the mirror: what it has not read is there and nowhere else."""
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    topic = f"behind-{time.monotonic_ns()}"
    create_topic(source, topic, 1)
    produce(source, Load(topic, 60, 1, 100, keys="sequence"))
    written = [(record.key, record.value) for record in read_topic(source, topic)]
    assert groups_of(source).alter(topic, {TopicPartition(topic, 0): Commit(10)}) == {}
    properties = bench.properties(topic)
    assert bench.catch_up(properties).code == 0
    delete_records(source, topic, 30)
    line = ["failover", "planned", "-c", str(properties), "-g", topic, "--execute", "--yes", "-o", "json"]
    answer = run_mmtool(tmp_path / "planned", *line)
    (there,) = partitions_of(answer)
    assert (answer.code, there["exactness"], there["downstream_offset"]) == (0, "exact", 10), answer.stderr
    left = [(record.key, record.value) for record in consume(target, topic, [f"source.{topic}"])]
    assert left == written[10:]


def test_partitions_that_are_added_while_it_runs_are_mirrored_first_or_end_it(bench, tmp_path):
    """Beside a `replicate` that looks for new partitions seldom; the second one is added behind the drain."""
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    topic = f"added-{time.monotonic_ns()}"
    create_topic(source, topic, 1)
    produce(source, Load(topic, 60, 1, 100, keys="sequence"))
    hooks = {
        "check_groups": growing_hook(tmp_path / "early", source, topic, 1),
        "validate": growing_hook(tmp_path / "late", source, topic, 2),
    }
    seldom = {"refresh.topics.interval.seconds": "8"}

    def run(name, *words, path):
        return run_mmtool(
            tmp_path / name, "failover", *words, "-c", str(path), "--execute", "--yes", "-o", "json"
        )

    def planned(step, *more):
        group = f"{topic}-{step}"
        assert groups_of(source).alter(group, {TopicPartition(topic, 0): Commit(10)}) == {}
        path = bench.properties(topic, **seldom, **{f"mmtool.hook.{step}": hooks[step]})
        return run(step, "planned", "-g", group, *more, path=path)

    with bench.start(bench.properties(topic, **seldom)):
        mirrored = planned("check_groups", "--fence", "watch", "--fence-watch", "1s")
        assert (mirrored.code, mirrored.rows[0]["rpo_records"]) == (0, 0), mirrored.stderr
        assert [p["partition"] for p in partitions_of(mirrored)] == [0, 1]
        assert end_offsets(target, f"source.{topic}") == {0: 60, 1: ADDED}
        ended = planned("validate")
        assert (ended.code, error_of(ended)["code"]) == (3, "partitions_added"), ended.stderr
        assert committed(target, f"{topic}-validate") == {}
        path = bench.properties(topic, **seldom)
        resumed = run("resumed", "resume", ended.rows[0]["operation_id"], path=path)
        assert (resumed.code, [p["partition"] for p in partitions_of(resumed)]) == (0, [0, 1, 2]), (
            resumed.stderr
        )
        assert end_offsets(target, f"source.{topic}")[2] == ADDED
