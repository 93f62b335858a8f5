"""What Spark may be told, what it says, and the processes that Python workers are forked from."""

import json
import logging
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from kit.mirror import assigned
from mmtool.errors import MmtoolError, UnreachableError, UsageError
from mmtool.plan.records.documents import PositionRecord, State, decode, encode
from mmtool.replication.control.control_follower import booked_position
from mmtool.replication.driver.round import round_ended
from mmtool.replication.spark import log, rounds
from mmtool.replication.spark.assignment import AWAY, NOTHING_YET, ReportRow
from mmtool.replication.spark.log import (
    GivenUpError,
    HungError,
    drop_old_logs,
    drop_spark_log,
    ended_by,
    keep_talk_aside,
    log_sink,
    reason_of,
    spark_log,
)
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


def test_spark_connect_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setattr(
        rounds, "find_spec", lambda name: None if name in {"grpc", "pandas"} else find_spec(name)
    )
    with pytest.raises(UsageError) as caught:
        open_rounds("sc://127.0.0.1:15002", {})
    assert "sc://127.0.0.1:15002: Spark Connect needs grpc, pandas" in str(caught.value)
    assert "`pip install 'mmtool[connect]'` in the environment" in caught.value.remedy


HOST = socket.gethostname()
LOG_URL = "http://w1:8081/logPage/?appId=app-1&executorId=7&logType=stderr"


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, f"{HOST}:{os.getpid()}"),
        ({"SPARK_EXECUTOR_ID": "3"}, f"{HOST}/3"),
        ({"SPARK_LOG_URL_STDERR": LOG_URL}, f"{HOST}/7"),
    ],
    ids=["local", "kubernetes", "standalone"],
)
def test_a_worker_is_named_by_its_host_and_by_spark_s_executor_where_that_is_known(
    monkeypatch, environ, name
):
    for variable in ("SPARK_EXECUTOR_ID", "SPARK_LOG_URL_STDERR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    log._name.cache_clear()
    assert log.executor_name() == name
    log._name.cache_clear()


def test_a_position_that_an_older_mmtool_wrote_has_no_executor():
    position = booked_position(assigned(), "me")
    body = decode(position.encode())
    del body["executor"], body["round"]
    assert PositionRecord.decode(encode(body)) == position


def row(executor_, state=State.RUNNING, partition=0, told=""):
    return ReportRow(
        "f", 0, "id", "t", partition, state, "", False, 1, 1, 0, 0, b"", NOTHING_YET, told, executor_
    )


def test_each_worker_s_part_of_a_round_is_told_and_then_the_round():
    rows = [row("h:1"), row("h:2", State.HALTED), row("h:2"), row("h:2", partition=-1, told=AWAY)]
    told = [
        (n.event, n.fields.get("executor"), n.fields["partitions"], n.fields["halted"])
        for n in round_ended(4, rows, 9.0)
    ]
    assert told == [
        ("worker_ended", "h:1", 1, 0),
        ("worker_ended", "h:2", 2, 1),
        ("round_ended", None, 3, 1),
    ]


_LOADED = """
import json, os, sys
from mmtool.replication.pyspark.daemon import load
load()
modules = ["pyspark.worker", "mmtool.replication.pump.pump", "confluent_kafka", "pandas", "pyarrow"]
print(json.dumps([len(os.listdir("/proc/self/task")), [name for name in modules if name in sys.modules]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the threads of a process in /proc")
def test_it_loads_the_pump_and_starts_no_thread_that_a_fork_would_lose():
    ran = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    threads, loaded = json.loads(ran.stdout)
    assert (threads, {"pandas", "pyarrow"} & set(loaded)) == (1, set())
    assert {"pyspark.worker", "mmtool.replication.pump.pump"} <= set(loaded)


CALLED = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
CANCELLED = "[SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs"
STACK = "\n\tat org.apache.spark.scheduler.DAGScheduler.handle(DAGScheduler.scala:1)"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (f"{CALLED}: org.apache.spark.SparkException: {CANCELLED}{STACK}", CANCELLED),
        (
            f"{CALLED}: org.apache.spark.SparkException: Job aborted\nmmtool.errors.MmtoolError: no room\n",
            "mmtool.errors.MmtoolError: no room",
        ),
        (f"{CALLED}: it is gone{STACK}", "it is gone"),
        ("the worker ended\nwith a word", "the worker ended"),
        ("", "ValueError"),
    ],
    ids=["cancelled", "of a task", "without a class", "not of Py4J", "nothing"],
)
def test_the_line_that_says_what_happened_is_found(said, reason):
    assert reason_of(ValueError(said)) == reason


@pytest.mark.parametrize(
    ("error", "stopped", "kind", "said"),
    [
        (GivenUpError("no answer"), True, UnreachableError, "stopped, but not cleanly: no answer"),
        (HungError("no answer"), True, UnreachableError, "stopped, but not cleanly: no answer"),
        (UnreachableError("east is away"), True, UnreachableError, "stopped, but not cleanly: east is away"),
        (ValueError("a bug"), True, MmtoolError, "Spark job failed: a bug"),
        (GivenUpError("no answer"), False, MmtoolError, "Spark job failed: no answer"),
    ],
    ids=["pumps that hang", "a JVM that hangs", "a cluster away", "anything else", "five times in a row"],
)
def test_who_stops_while_a_cluster_is_away_is_told_so_and_not_of_spark(error, stopped, kind, said):
    ended = ended_by(error, stopped=stopped, log=Path("spark.log"))
    assert (type(ended), ended.message) == (kind, said)
    assert ("spark.log" in ended.remedy) == (kind is MmtoolError)
