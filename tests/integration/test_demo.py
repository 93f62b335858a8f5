"""The tour as a user types it: it proves its point, and leaves nothing behind."""

import re
import signal
import time
from pathlib import Path

import pytest

from kit.processes import MmtoolProcess
from mmtool.lab.ports import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SECONDS = 400.0  # 40 s on two idle cores
GROUPS = ["billing", "shipping", "reporting"]


def left_over(folder):
    """Processes that were started with this folder as TMPDIR, which every child inherits."""
    mark, found = f"TMPDIR={folder}\0".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes() and (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def start(tmp_path, scratch, *options, **environ):
    return MmtoolProcess(
        tmp_path / "said", "demo", *options, environ={"TMPDIR": str(scratch), "MMTOOL_CONFIG": "", **environ}
    )


@pytest.mark.chaos  # the tutorial in test_documented.py is a tour as well
def test_the_tour_proves_that_nothing_is_skipped_and_nothing_read_again(tmp_path, scratch, measured):
    with start(tmp_path, scratch, "-o", "json") as demo:
        answer = demo.wait(SECONDS)
    assert answer.code == 0, answer.stderr
    rows = {row["group"]: row for row in answer.rows}
    assert list(rows) == GROUPS
    for row in rows.values():
        assert (row["skipped"], row["reread"], row["foreign"], row["verdict"]) == (0, 0, 0, "exact")
        assert row["read_on_east"] + row["read_on_west"] == row["committed_records"] > 40_000
    assert [rows[group]["read_on_west"] > 0 for group in GROUPS] == [False, True, True]
    assert rows["reporting"]["read_on_east"] < rows["shipping"]["read_on_east"]
    summary = answer.said[-1]
    assert re.fullmatch(
        r"3 groups, [\d,]+ records, 0 skipped, 0 re-read, failover took [\d.]+ s, the whole demo \d+ s",
        summary,
    )
    measured(f"mmtool demo: {summary}; {answer.seconds:.0f} s from start to end")
    assert re.search(r"billing .* after a transaction marker in 3 of 3 partitions", answer.stderr)
    assert "none aborted" in answer.stderr
    assert (left_over(scratch), list(scratch.glob("mmtool-demo-*"))) == ([], [])


def test_an_interrupted_tour_takes_everything_down(tmp_path, scratch):
    kept = tmp_path / "kept"
    with start(tmp_path, scratch, "--keep", "--state-dir", str(kept)) as demo:
        demo.wait_line(r"^\[3/8\]", SECONDS)
        time.sleep(1)  # in the middle of what step 3 does
        answer = demo.stop(signal.SIGINT)
    assert answer.code == 130, answer.stderr
    wait_until(lambda: left_over(scratch) == [], "every process to be gone", 30)
    assert not (kept / "lab.json").exists()
