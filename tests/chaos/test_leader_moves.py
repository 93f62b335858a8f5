"""Leaders that move each second, on both clusters at once, under a running flow."""

import os
import subprocess
import time

import pytest

from kit.bench import Bench, Stage
from kit.kafka_tools import java_source
from mmtool.lab.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

BROKERS, MOVES = 3, 60
LOOKS, BETWEEN_SECONDS = 4, 5.0
RECOVERY_SECONDS = 30.0
PATIENCE_SECONDS = 120.0
_FIRST_SECONDS = 60.0


class LeaderMoves:
    """Each partition of some topics gets another leader every second. A context manager.

    Args:
        bootstrap: A cluster with several brokers.
        part: Of the topics' names.
        said: A file for what is done.
    """

    def __init__(self, bootstrap, part, said):
        self._arguments = (bootstrap, part, "1000")
        self._said = said

    @property
    def count(self):
        """How many leaders have moved so far."""
        lines = self._said.read_text().splitlines() if self._said.exists() else []
        return sum(int(line.split()[1]) for line in lines if line.startswith("moved "))

    def __enter__(self):
        with java_source("MoveLeaders", *self._arguments) as command:
            with self._said.open("wb") as said:
                self._process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
            try:
                wait_until(lambda: self.count > 0, f"a leader that moves: {self._said}", _FIRST_SECONDS)
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()


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
