"""Leaders that move each second, on both clusters at once, under a running flow."""

from __future__ import annotations

import os
import time

import pytest

from kit.bench import Bench, Stage
from kit.leader_moves import LeaderMoves

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

BROKERS, MOVES = 3, 60
LOOKS, BETWEEN_SECONDS = 4, 5.0
RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 120.0


def test_the_flow_goes_on_while_leaders_move_and_every_offset_is_exact(threes, tmp_path, measured):
    name = f"leaders-{os.getpid()}"
    with Stage(Bench(threes, tmp_path), name, replicas=BROKERS) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        slowest = 0.0
        with (
            LeaderMoves(threes["source"].bootstrap, name, tmp_path / "source") as there,
            LeaderMoves(threes["target"].bootstrap, name, tmp_path / "target") as here,
        ):
            for _ in range(LOOKS):
                time.sleep(BETWEEN_SECONDS)
                slowest = max(slowest, stage.wait_until_every_partition_moves(RECOVERY_SECONDS))
            moves = there.count, here.count
        asked = stage.prove_exact(process)
        measured(
            f"{moves[0]} leaders moved on the source, {moves[1]} on the target: every partition moved within"
            f" {slowest:.1f} s meanwhile; {asked} offsets translated exactly"
        )
    assert min(moves) >= MOVES
    assert slowest < RECOVERY_SECONDS
