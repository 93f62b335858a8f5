"""Topics and groups that a failover has marked: whoever runs the flow leaves them alone until they are released."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kit.bench import Stage
from kit.broker_watch import wait_for_new_records
from kit.exactness import flow_identity
from kit.lab_admin import delete_topic, grow_topic
from kit.load import Load, produce
from kit.mirror_flow import Owner, flow_of
from kit.wire import on_loop
from mmtool.kafka.state.journal import KafkaMarks
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, topics_of
from mmtool.plan.records.marks import FailedOverRecord

if TYPE_CHECKING:
    from mmtool.config.settings import ClusterSettings
    from mmtool.plan.records.identity import FlowIdentity

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
HOLD_SECONDS = 2.0
SECONDS = 10.0
BY = "failed over by ann@east since 2026-05-28T20:26:40Z (operation fo-7)"


@dataclass(frozen=True)
class Marks:
    """What an operator's failover says about a flow: on its target, and nowhere else."""

    target: ClusterSettings
    identity: FlowIdentity

    def topics(self, *topics, failed_over=True):
        self._write(
            FailedOverRecord(topic, failed_over, "fo-7", "ann@east", 1_780_000_000_000) for topic in topics
        )

    def release(self, *topics):
        self.topics(*topics, failed_over=False)

    def _write(self, marks):
        KafkaMarks(self.target, self.identity, 1, SECONDS).write(marks)


def marks_of(fleet, settings, *sides):
    return Marks(settings.target, flow_identity(*(fleet[side] for side in sides)))


def states(rows):
    return {row["topic"]: row["state"] for row in rows}


def test_what_has_failed_over_is_not_mirrored_until_it_is_released(bench, mmtool, measured):
    """While it runs, at a start, some of it and all of it; then it goes on, and nothing is lost or comes twice."""
    with Stage(bench, f"failed-{os.getpid()}", records_per_second=100.0) as stage:
        plain, other = stage.topics
        held, moving = stage.targets
        target = bench.fleet["target"].bootstrap
        marks = marks_of(bench.fleet, stage.flow, "source", "target")
        status, resume, seek = (
            partial(mmtool, *words, "-c", stage.properties, "-o", "json")
            for words in (["status"], ["flow", "resume"], ["flow", "seek"])
        )
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)

        marks.topics(plain)
        asked = time.monotonic()
        process.wait_line(rf"1 topic \({plain}\) is not mirrored: failed over by ann@east")
        wait_until(lambda: stage.stands_still(held), f"{held} to stand still", PATIENCE_SECONDS)
        measured(
            f"a failed over topic stood still {time.monotonic() - asked - HOLD_SECONDS:.1f} s after its mark"
        )
        wait_for_new_records(target, [moving], PATIENCE_SECONDS)
        resume()
        assert stage.stands_still(held)
        assert seek("--topic", other, "--to", "earliest").code == 10  # the flow runs
        seen = [row for row in status().rows if row["topic"] == plain]
        assert {(row["state"], row["reason"]) for row in seen} == {("failed_over", BY)}

        marks.topics(other)
        wait_until(lambda: stage.stands_still(moving), f"{moving} to stand still", PATIENCE_SECONDS)
        assert process.alive
        marks.release(other)
        wait_for_new_records(target, [moving], PATIENCE_SECONDS)
        marks.topics(other)
        wait_until(lambda: stage.stands_still(moving), f"{moving} to stand still", PATIENCE_SECONDS)
        assert process.stop().code == 143

        before = [stage.length(topic) for topic in stage.targets]
        assert states(status().rows) == {plain: "failed_over", other: "failed_over"}
        for answer in (stage.start("-o", "json").wait(), bench.catch_up(stage.properties, "-o", "json")):
            (error,) = json.loads(answer.stdout)["errors"]
            assert (answer.code, error["code"]) == (3, "failed_over")
            assert "operation fo-7" in error["message"]
            assert "since 2026-05-28T20:26:40Z" in error["message"]

        marks.release(other)
        answer = bench.catch_up(stage.properties, "-o", "json")
        assert (answer.code, states(answer.rows)) == (6, {plain: "failed_over", other: "caught_up"})
        assert (
            f"3 of {len(answer.rows)} partitions have failed over, for example {plain}-0 of" in answer.stderr
        )
        assert f": {BY}" in answer.stderr
        assert stage.length(held) == before[0]

        marks.release(plain)
        stage.stop_writing()
        answer = bench.catch_up(stage.properties, "-o", "json")
        assert (answer.code, states(answer.rows)) == (0, {plain: "caught_up", other: "caught_up"})
        assert stage.differences() == {}
        assert stage.wrong_translations()[1][:5] == []


# --- the topics themselves, by an owner without Spark, on the way from target to source ----------------------


def count_on(bootstrap, topic):
    return topics_of(bootstrap).get(topic, 0)


def planned(owner):
    """What a round would mirror, beside MM2's heartbeats."""
    return {partition.topic for partition in owner.task().flows[0].partitions} - {"heartbeats"}


@on_loop
async def test_the_target_is_not_made_to_follow_a_topic_that_has_failed_over(fleet, tmp_path, topic_name):
    """Nor where it was deleted and made again on the source, larger: it is held by its name, and its books stay."""
    topic, up, down = topic_name("apart"), fleet["target"].bootstrap, fleet["source"].bootstrap
    settings = flow_of(fleet, tmp_path, "target", "source", topic)
    remote, marks = settings.remote_topic(topic), marks_of(fleet, settings, "target", "source")
    create_topic(up, topic)
    produce(up, Load(topic, 10, 1, 100))
    write = partial(asyncio.to_thread, marks.topics)
    await write(topic)

    owner = await Owner.take(settings)
    assert (owner.run.view.set_apart, planned(owner), count_on(down, remote)) == ([topic], set(), 0)
    await write(topic, failed_over=False)
    await asyncio.to_thread(wait_until, lambda: owner.run.wants_look, "the release to be heard", SECONDS)
    await owner.run.refresh()
    await owner.catch_up()
    assert (count_on(down, remote), owner.runs(topic)) == (1, [(0, 0, 10)])
    await write(topic)
    await asyncio.to_thread(wait_until, lambda: owner.run.differs, "the mark to be heard", SECONDS)
    grow_topic(up, topic, 2)
    await owner.run.refresh()
    assert (planned(owner), topic in owner.run.topic_names(), count_on(down, remote)) == (set(), False, 1)
    await owner.close()

    await asyncio.to_thread(delete_topic, up, topic)
    create_topic(up, topic, 3)
    restarted = settings.model_copy(update={"on_topic_recreated": "restart"})
    owner = await Owner.take(restarted)
    assert (planned(owner), count_on(down, remote)) == (set(), 1)
    await owner.close()

    await asyncio.to_thread(delete_topic, down, remote)
    owner = await Owner.take(restarted)
    assert topic in {block.about.source_topic for block in owner.run.standing.blocks.values()}
    await owner.close()
