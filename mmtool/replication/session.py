"""The Spark session of a process, and one round as one job on it."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmtool.errors import UsageError
from mmtool.replication.pump.report import REPORT_SCHEMA, ReportRow
from mmtool.replication.spark_archive import spark_classes
from mmtool.replication.task import run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mmtool.replication.assignment import TaskAssignment

_ATTEMPTS = 4


def local_master(tasks: int) -> str:
    """Spark's local mode with ``tasks`` slots, and with retries, which plain ``local[N]`` does not have."""
    return f"local[{tasks},{_ATTEMPTS}]"


def open_session(master: str, conf: Mapping[str, str]) -> Any:
    """Starts Spark (or joins the session that this process has) and warms one Python worker up.

    Raises:
        UsageError: ``spark.speculation``: two attempts of one task would fence each other for ever.
    """
    if conf.get("spark.speculation", "false").lower() == "true":
        raise UsageError(
            "mmtool.spark.conf.spark.speculation = true: a second attempt of a running task fences the first",
            remedy="remove it; a task that dies is retried anyway",
        )
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.speculation": "false",
        "spark.task.maxFailures": str(_ATTEMPTS),
        "spark.python.worker.reuse": "true",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"{java_options()}{_archived()}",
        **conf,
    }
    if not master.startswith("sc://"):
        _start_jvm({"spark.master": master, "spark.app.name": "mmtool", **settings})
    builder = SparkSession.builder.appName("mmtool")
    session = (builder.remote(master) if master.startswith("sc://") else builder).getOrCreate()
    session.range(0, 1, 1, 1).mapInArrow(_nothing, "id bigint").collect()
    return session


def java_options() -> str:
    """For a JVM that starts fast and keeps its talk, and that of Spark, to itself."""
    log4j = files("mmtool.replication") / "log4j2.properties"
    quiet = "-Xlog:disable -Xlog:all=warning:stderr"
    return f'"-Dlog4j2.configurationFile={log4j}" -XX:TieredStopAtLevel=1 {quiet}'


def _archived() -> str:
    return "".join(f' "{option}"' for option in spark_classes().options())


def parallelism(session: Any) -> int:
    """How many tasks the session runs at once."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001  Spark Connect has no context to ask, and says so in its own way
        return int(session.conf.get("spark.default.parallelism", "2"))


def spark_log() -> Path:
    """Where the JVM and the Python workers of this process write what they have to say."""
    return Path(tempfile.gettempdir()) / f"mmtool-spark-{os.getpid()}.log"


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Starts the JVM with its talk in a file: it warns of its own modules on every start.

    In a process group of its own: what a terminal or timeout(1) sends to ours is for the driver, which finishes what
    is in flight before it ends the JVM. A JVM whose driver died reads the end of its stdin.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.accumulators import AccumulatorTCPServer
    from pyspark.java_gateway import launch_gateway

    if SparkContext._active_spark_context is not None:  # noqa: SLF001  there is no public question
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    with spark_log().open("ab") as log:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": log, "process_group": 0})
    SparkContext(conf=conf, gateway=gateway)
    # a lost JVM is told by the engine in one line, not by the thread that talked to it in twenty
    AccumulatorTCPServer.handle_error = lambda *_: None


def run_round(session: Any, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
    """One round: one job, one stage, one task per assignment, one action.

    Raises:
        Exception: whatever Spark says when a task failed for the last time.
    """
    count = len(tasks)
    report = session.range(0, count, 1, count).mapInArrow(_mirroring(tuple(tasks)), REPORT_SCHEMA)
    return [ReportRow(*row) for row in report.collect()]


def _mirroring(tasks: tuple[TaskAssignment, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The closure that carries the assignments, secrets included: never in Spark's conf, never in rows."""

    def mirror(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _report(run_task(tasks[index], attempt))

    return mirror


def _report(rows: list[ReportRow]) -> Any:
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
    fields = (column.split() for column in REPORT_SCHEMA.split(","))
    schema = pa.schema([(name, types[kind]) for name, kind in fields])
    return pa.RecordBatch.from_pylist([row._asdict() for row in rows], schema=schema)


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    import mmtool.replication.pump.pump  # noqa: F401  the worker has it loaded before the first round

    yield from batches
