"""Of what Spark says when a round fails, the line that tells an operator something."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.replication.spark.log import GivenUpError, HungError, ended_by, reason_of

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
