"""A running ``mmtool replicate`` and an operator who holds one of its topics."""

from __future__ import annotations

import os
import time

import pytest

from kit.bench import Stage
from kit.broker_watch import wait_for_new_records
from kit.mirror_flow import mirror
from mmtool.lab.ports import wait_until

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
HOLD_SECONDS = 2.0


@pytest.fixture
def flow(mmtool):
    """``mmtool flow ...`` on a stage."""

    def run(stage, *words, code=0):
        answer = mmtool("flow", *words, "-c", stage.properties, "-o", "json")
        assert answer.code == code, answer.stderr
        return answer

    return run


def test_a_paused_topic_waits_and_the_others_go_on_until_it_is_resumed(bench, flow, mmtool, measured):
    """Through a restart, through a run that ends when it has caught up; nothing is lost and nothing comes twice."""
    with Stage(bench, f"held-{os.getpid()}", records_per_second=100.0) as stage:
        plain, other = stage.topics
        held, moving = stage.targets
        target = bench.fleet["target"].bootstrap
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        rows = flow(stage, "pause", "--topic", plain, "--reason", "disk full").rows
        assert {(row["topic"], row["action"], row["state"]) for row in rows} == {(plain, "pause", "paused")}
        assert all("disk full" in row["reason"] for row in rows)
        asked = time.monotonic()
        process.wait_line(f"{plain} is paused by .*disk full")
        wait_until(lambda: stage.stands_still(held), f"{held} to stand still", PATIENCE_SECONDS)
        measured(
            f"a paused topic stood still {time.monotonic() - asked - HOLD_SECONDS:.1f} s after the command"
        )
        wait_for_new_records(target, [moving], PATIENCE_SECONDS)
        assert {row["action"] for row in flow(stage, "pause", "--topic", plain).rows} == {"keep"}
        flow(stage, "seek", "--topic", plain, "--to", "earliest", code=10)

        assert {row["action"] for row in flow(stage, "resume", "--topic", plain).rows} == {"resume"}
        resumed = time.monotonic()
        wait_for_new_records(target, [held], PATIENCE_SECONDS)
        measured(f"a resumed topic moved {time.monotonic() - resumed:.1f} s after the command")

        flow(stage, "pause")
        process.wait_line("the whole flow is paused")
        wait_until(lambda: stage.stands_still(moving), f"{moving} to stand still", PATIENCE_SECONDS)
        refused = flow(stage, "resume", "--topic", other, code=3)
        assert "whole flow is paused" in refused.stderr
        flow(stage, "resume")
        wait_for_new_records(target, [held, moving], PATIENCE_SECONDS)
        flow(stage, "pause", "--topic", plain)
        assert process.stop().code == 143

        seen = mmtool("status", "-c", stage.properties, "-o", "json").rows
        assert {row["state"] for row in seen if row["topic"] == plain} == {"paused"}

        before = stage.length(held)
        answer = bench.catch_up(stage.properties, "-o", "json")
        states = {row["topic"]: row["state"] for row in answer.rows}
        assert (answer.code, states) == (0, {plain: "paused", other: "caught_up"}), answer.stderr
        assert (
            f"3 of {len(answer.rows)} partitions are paused, and replicate did not wait for them"
            in answer.stderr
        )
        assert stage.length(held) == before

        flow(stage, "resume")
        stage.stop_writing()
        mirror(stage.flow)
        assert stage.differences() == {}
        assert stage.wrong_translations()[1][:5] == []
