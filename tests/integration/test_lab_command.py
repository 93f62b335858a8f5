"""``mmtool lab``: clusters that outlive the command, and go when told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest

from kit.load import Load, produce
from mmtool.lab.ports import wait_until
from mmtool.lab.state import StateDirectory
from mmtool.lab.topics import create_topic, read_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.kafka


def lab_in(directory):
    """Runs ``mmtool lab VERB ...`` on a state directory."""

    def run(verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mmtool", "lab", verb, "--state-dir", str(directory), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    return run


@pytest.fixture
def lab(tmp_path):
    """A lab of the test's own; taken down at the end."""
    run = lab_in(tmp_path)
    yield run
    run("down")


@dataclass(frozen=True)
class Running:
    """A lab that runs, and what the two commands said that started it at the same moment."""

    folder: Path
    lab: Callable[..., subprocess.CompletedProcess[str]]
    answers: list[subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Nobody stops it before the end of the module."""
    folder = tmp_path_factory.mktemp("lab")
    lab = lab_in(folder)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: lab("up", "-o", "json"), range(2)))
    yield Running(folder, lab, answers)
    lab("down")


def rows(answer) -> list[dict]:
    return json.loads(answer.stdout)["data"]


def test_up_returns_when_both_clusters_answer_and_says_where_their_settings_are(running):
    started = rows(running.lab("status", "-o", "json"))
    assert [(row["cluster"], row["state"]) for row in started] == [("a", "running"), ("b", "running")]
    assert f"export MMTOOL_CONFIG={running.folder}/mmtool.properties" in running.answers[0].stderr


def test_two_ups_at_the_same_moment_find_the_same_lab(running):
    assert [answer.returncode for answer in running.answers] == [0, 0]
    assert rows(running.answers[0]) == rows(running.answers[1]) == rows(running.lab("status", "-o", "json"))


def test_up_finds_the_running_lab_and_refuses_another_one(running):
    again = running.lab("up", "--print-config")
    other = running.lab("up", "--clusters", "x,y")
    assert again.stdout == (running.folder / "mmtool.properties").read_text()
    assert (again.returncode, "the clusters were already running" in again.stderr) == (0, True)
    assert (other.returncode, "clusters a,b" in other.stderr, "mmtool lab down" in other.stderr) == (
        3,
        True,
        True,
    )


def test_a_down_while_the_lab_starts_waits_and_stops_it(lab, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        up = pool.submit(lab, "up")
        wait_until(StateDirectory(tmp_path).is_running, "a supervisor", timeout=30)
        down = lab("down")
        assert (down.returncode, up.result().returncode, rows(lab("status", "-o", "json"))) == (0, 0, [])


def test_kill_9_of_the_supervisor_takes_its_brokers_along(lab, tmp_path):
    up = lab("up", "-o", "json")
    brokers = [psutil.Process(row["pid"]) for row in rows(up)]
    os.kill(StateDirectory(tmp_path).read().supervisor_pid, signal.SIGKILL)
    gone, _ = psutil.wait_procs(brokers, timeout=5)
    assert (len(gone), rows(lab("status", "-o", "json"))) == (2, [])


def test_clusters_that_are_kept_are_there_after_the_next_up_and_gone_after_a_plain_down(lab, tmp_path):
    before, _ = rows(lab("up", "--clusters", "east,west", "-o", "json"))
    create_topic(before["bootstrap"], "kept")
    produce(before["bootstrap"], Load("kept", count=10))
    lab("down", "--keep-data")
    after, _ = rows(lab("up", "-o", "json"))
    assert [after[key] for key in ("cluster", "cluster_id", "bootstrap")] == [
        before[key] for key in ("cluster", "cluster_id", "bootstrap")
    ]
    assert len(list(read_topic(after["bootstrap"], "kept"))) == 10
    assert lab("down").returncode == 0
    assert (psutil.pid_exists(after["pid"]), (tmp_path / "east").exists()) == (False, False)


def test_down_and_status_without_a_lab_say_so_and_succeed(lab):
    answers = [lab("down"), lab("status")]
    assert [answer.returncode for answer in answers] == [0, 0]
    assert all("no lab runs in" in answer.stderr for answer in answers)
