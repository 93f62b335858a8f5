"""Rounds without Spark do what Spark's do for the driver: results in order, retries, an end for the others."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.forked_rounds import ForkedRounds, WorkerError, open_here
from mmtool.lab.ports import wait_until
from mmtool.replication.spark.log import reason_of
from mmtool.replication.spark.rounds import local_master


@pytest.fixture
def rounds():
    with_two_slots = open_here(local_master(2), {})
    yield with_two_slots
    with_two_slots.stop()


def test_a_worker_that_dies_is_replaced(rounds, tmp_path):
    """The first two die; the third returns how many files the others left."""
    left = f"len(list(__import__('pathlib').Path({str(tmp_path)!r}).iterdir()))"
    dies = (
        f"open({str(tmp_path)!r} + '/' + str(__import__('os').getpid()), 'w') and __import__('os')._exit(1)"
    )
    assert rounds.each([f"{left} if {left} == 2 else {dies}"], eval) == [2]


def test_the_error_of_the_last_attempt_is_the_reason_and_ends_the_other_tasks(rounds):
    began = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        rounds.each(["1 // 0", "__import__('time').sleep(60)"], eval)
    assert reason_of(caught.value) == "ZeroDivisionError: integer division or modulo by zero"
    assert time.monotonic() - began < 50


def test_a_master_or_a_setting_of_spark_starts_spark(monkeypatch):
    opened = []
    monkeypatch.setattr("kit.forked_rounds.open_spark", lambda *asked: opened.append(asked))
    for asked in (("spark://127.0.0.1:1", {}), (local_master(2), {"spark.x": "1"}), ("local[*]", {})):
        open_here(*asked)
    assert (len(opened), type(open_here(local_master(2), {}))) == (3, ForkedRounds)


_DRIVER = """
import sys, threading
from kit.forked_rounds import open_here
work = f"open({sys.argv[1]!r}, 'w').write(str(__import__('os').getpid())) and __import__('time').sleep(300)"
threading.Thread(target=open_here("local[1,4]", {}).each, args=([work], eval), daemon=True).start()
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_no_daemon_outlives_its_driver(tmp_path):
    pid = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", _DRIVER, str(pid)], stdin=subprocess.PIPE) as driver:
        wait_until(lambda: pid.exists() and pid.read_text(), "a worker", 30)
        worker = int(pid.read_text())
        daemon = parent_of(worker)
        driver.kill()
    wait_until(lambda: parent_of(worker) != daemon, "the daemon to end", 10)
    os.kill(worker, signal.SIGKILL)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
