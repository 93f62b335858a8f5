"""SIGKILL to each part of a running ``mmtool replicate``, then the same command again."""

import os

import pytest

from kit.bench import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

FIRST_RECORD_SECONDS = 30.0


def test_a_kill_of_any_part_loses_nothing_and_repeats_nothing(bench, measured):
    """Under running producers, one of them transactional; then every offset translates exactly, both ways."""

    def moves_again(after):
        seconds = stage.wait_for_new_records(FIRST_RECORD_SECONDS)
        measured(f"{after}: first new records after {seconds:.1f} s")

    with Stage(bench, f"kill-{os.getpid()}") as stage:
        first = stage.start()
        moves_again("first start")

        assert first.kill("worker")
        moves_again("Python worker killed, same process goes on")

        assert first.kill("jvm")
        answer = first.wait(30)
        assert (answer.code, "run the same command again" in answer.stderr) == (1, True), answer.stderr
        assert "Traceback" not in answer.stderr
        first.wait_until_gone()
        second = stage.start()
        moves_again("JVM killed, started again")

        standby = stage.start("--standby")
        standby.wait_line("waiting", 60)
        second.kill("driver")
        measured(f"driver killed: its JVM and workers were gone {second.wait_until_gone():.1f} s later")
        moves_again("driver killed, a standby takes over")

        standby.kill_all()
        last = stage.start()
        moves_again("all killed at once, started again")

        asked = stage.prove_exact(last, 30)
        measured(f"{asked} offsets translated after five kills")
