"""What Spark may be told, and what not."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time

import pytest

from mmtool.errors import UsageError
from mmtool.replication.spark.log import drop_old_logs, drop_spark_log, keep_talk_aside, log_sink, spark_log
from mmtool.replication.spark.rounds import open_rounds


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_two_attempts_of_one_task_are_refused_before_spark_is_started(value):
    """They would fence each other for ever."""
    with pytest.raises(UsageError, match=r"spark\.speculation"):
        open_rounds("local[1]", {"spark.speculation": value})


_LOST = """
import logging
from mmtool.replication.spark.log import keep_talk_aside, spark_log
keep_talk_aside()
try:
    raise ConnectionError("the JVM is gone")
except ConnectionError:
    logging.exception("Exception while sending command.")  # as py4j does
print(spark_log().read_text())
spark_log().unlink()
"""


def test_what_py4j_says_of_a_lost_jvm_is_in_spark_s_log_and_not_on_the_screen():
    ran = subprocess.run([sys.executable, "-c", _LOST], capture_output=True, text=True, check=True)
    assert (ran.stderr, "ConnectionError: the JVM is gone" in ran.stdout) == ("", True)


def test_a_program_that_has_a_place_for_what_libraries_log_keeps_it():
    before = list(logging.getLogger().handlers)
    assert before, "pytest's own"
    keep_talk_aside()
    assert logging.getLogger().handlers == before


_NO_DISK = """
import asyncio, logging, os, sys
from mmtool.replication.spark.log import keep_talk_aside, spark_log
from mmtool.replication.spark.rounds import end_spark
os.environ["XDG_STATE_HOME"] = sys.argv[1]
keep_talk_aside()
spark_log().mkdir(parents=True)  # neither written nor removed, by root either


async def main():
    async def fails():
        raise ConnectionError("the JVM is gone")

    class Spark:
        def stop(self): pass

    lost, up = asyncio.ensure_future(fails()), asyncio.get_running_loop().create_future()
    up.set_result(Spark())
    await asyncio.sleep(0.01)
    del lost  # asyncio logs that nobody has heard of it
    await end_spark(up, clean=True)


asyncio.run(main())
print("well")
"""


def test_a_disk_that_takes_no_log_any_more_ends_nothing_and_is_no_traceback(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", _NO_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("well\n", "")


def test_spark_s_log_is_in_the_state_folder_and_gone_after_a_clean_end(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with log_sink() as sink:
        sink.write(b"a line")
    assert [path.name for path in (tmp_path / "mmtool" / "spark").iterdir()] == [f"{os.getpid()}.log"]
    drop_spark_log()
    assert not list((tmp_path / "mmtool" / "spark").iterdir())


def test_a_state_folder_that_takes_no_file_keeps_nobody_from_mirroring(monkeypatch, tmp_path):
    (tmp_path / "mmtool").write_text("a file where a folder would have to be")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with log_sink() as sink:
        assert sink.write(b"a line") == len(b"a line")
    drop_old_logs()


@pytest.mark.parametrize(("days", "pid", "kept"), [(8, 1 << 30, False), (6, 1 << 30, True), (8, 1, True)])
def test_the_log_of_a_run_that_crashed_is_kept_for_a_week(monkeypatch, tmp_path, days, pid, kept):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log = spark_log().with_name(f"{pid}.log")
    log.parent.mkdir(parents=True)
    log.write_text("why it crashed")
    then = time.time() - days * 86_400
    os.utime(log, (then, then))
    drop_old_logs()
    assert log.exists() == kept
