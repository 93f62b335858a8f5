"""Of what Spark says when a round fails, the line that tells an operator something."""

from __future__ import annotations

import pytest

from mmtool.replication.spark_errors import reason_of

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
