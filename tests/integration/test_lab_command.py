"""``mmtool lab``: clusters that outlive the command, and go when told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from mmtool.lab.state import StateDirectory
from mmtool.lab.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def lab(tmp_path):
    """Runs ``mmtool lab VERB ...`` on a state directory of its own; takes the lab down at the end."""

    def run(verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mmtool", "lab", verb, "--state-dir", str(tmp_path), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    yield run
    run("down")


def rows(answer) -> list[dict]:
    return json.loads(answer.stdout)["data"]


def test_up_returns_when_both_clusters_answer_and_down_ends_them(lab, tmp_path):
    started = lab("up", "-o", "json")
    pids = [row["pid"] for row in rows(started)]
    assert [(row["cluster"], row["state"]) for row in rows(started)] == [("a", "running"), ("b", "running")]
    assert rows(lab("status", "-o", "json")) == rows(started)
    assert f"export MMTOOL_CONFIG={tmp_path}/mmtool.properties" in started.stderr
    assert lab("down").returncode == 0
    assert (any(map(psutil.pid_exists, pids)), rows(lab("status", "-o", "json"))) == (False, [])
    assert not (tmp_path / "a").exists()


def test_up_twice_finds_the_running_lab_and_refuses_another_one(lab, tmp_path):
    first = lab("up", "--print-config")
    again = lab("up", "--print-config")
    other = lab("up", "--clusters", "x,y")
    assert first.stdout == (tmp_path / "mmtool.properties").read_text()
    assert (again.returncode, again.stdout, "they run already" in again.stderr) == (0, first.stdout, True)
    assert (other.returncode, "clusters a,b" in other.stderr, "mmtool lab down" in other.stderr) == (
        3,
        True,
        True,
    )


def test_two_ups_at_the_same_moment_find_the_same_lab(lab):
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: lab("up", "-o", "json"), range(2)))
    assert [answer.returncode for answer in answers] == [0, 0]
    assert rows(answers[0]) == rows(answers[1])


def test_a_down_while_the_lab_starts_waits_and_stops_it(lab, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        up = pool.submit(lab, "up")
        wait_until(StateDirectory(tmp_path).is_running, "a supervisor", timeout=30)
        down = lab("down")
        assert (down.returncode, up.result().returncode, rows(lab("status", "-o", "json"))) == (0, 0, [])


def test_kill_9_of_the_supervisor_takes_its_brokers_along(lab, tmp_path):
    brokers = [psutil.Process(row["pid"]) for row in rows(lab("up", "-o", "json"))]
    os.kill(StateDirectory(tmp_path).read().supervisor_pid, signal.SIGKILL)
    gone, _ = psutil.wait_procs(brokers, timeout=5)
    assert (len(gone), rows(lab("status", "-o", "json"))) == (2, [])


def test_data_that_was_kept_is_there_after_the_next_up(lab):
    before = rows(lab("up", "-o", "json"))
    lab("down", "--keep-data")
    after = rows(lab("up", "-o", "json"))
    assert [(r["cluster_id"], r["bootstrap"]) for r in before] == [
        (r["cluster_id"], r["bootstrap"]) for r in after
    ]


def test_down_and_status_without_a_lab_say_so_and_succeed(lab):
    answers = [lab("down"), lab("status")]
    assert [answer.returncode for answer in answers] == [0, 0]
    assert all("no lab runs in" in answer.stderr for answer in answers)
