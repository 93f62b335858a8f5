"""Start or join Spark, run each round as one Spark job, and poll Spark for its slots.

The rounds run on a Spark context of this process, or over Spark Connect, which has data frames and no RDDs.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from mmtool.errors import MmtoolError, UsageError, install_extra
from mmtool.java import ClassArchive
from mmtool.plain_text import marks_secret
from mmtool.plan.flow.slots import asked_slots
from mmtool.replication.spark.assignment import ReportRow, TaskAssignment
from mmtool.replication.spark.log import (
    drop_old_logs,
    drop_spark_log,
    keep_talk_aside,
    log_sink,
    reason_of,
    spark_log,
)
from mmtool.replication.spark.task import run_attempt
from mmtool.runtime.files import cache_root
from mmtool.runtime.threads import StopAskedError, in_thread, or_stop, within

T = TypeVar("T")
R = TypeVar("R")

_END_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_STALE_SECONDS = 5.0
_PARALLELISM, _SLOTS = "spark.default.parallelism", "2"
_ATTEMPTS = 4
_DAEMON = ("spark.python.daemon.module", "mmtool.replication.pyspark.daemon")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": "0",  # else a task that started counts as waiting until its executor's next word
    "spark.speculation": "false",
    "spark.task.maxFailures": str(_ATTEMPTS),
    "spark.python.worker.reuse": "true",
    "spark.driver.memory": "512m",
    # a larger closure would go through a file in clear on the driver and on each executor; ours holds private keys
    "spark.broadcast.UDFCompressionThreshold": str((1 << 31) - 1),
    # a folder called mmtool where the command is typed, as above a clone, is not the package
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}


def local_master(tasks: int) -> str:
    """Spark's master URL for local mode with ``tasks`` slots and with retries, which ``local[N]`` lacks."""
    return f"local[{tasks},{_ATTEMPTS}]"


def open_rounds(master: str, conf: Mapping[str, str]) -> Rounds:
    """Start Spark, or connect to its server (``sc://host:port``), or join the context that this process has.

    Raises:
        UsageError: ``spark.speculation`` is on: two attempts of one task would fence each other without end; or a
            package that Spark Connect needs beside pyspark is not installed.
    """
    if conf.get("spark.speculation", "false").lower() == "true":
        raise UsageError(
            "mmtool.spark.conf.spark.speculation = true: two attempts of one task would stop each other",
            remedy="remove this key: Spark retries failed tasks without speculation as well",
        )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("sc://"):
        missing = [name for name in ("grpc", "pandas", "pyarrow") if find_spec(name) is None]
        if missing:
            raise UsageError(
                f"mmtool.spark.master = {master}: Spark Connect needs {', '.join(missing)}, which this host lacks",
                remedy=install_extra("connect"),
            )
        from pyspark.sql import SparkSession

        session = SparkSession.builder.appName("mmtool").remote(master).getOrCreate()
        asked = conf.get(_PARALLELISM) or session.conf.get(_PARALLELISM, _SLOTS)
        return ConnectRounds(session, int(asked))
    return ContextRounds(_context({"spark.master": master, "spark.app.name": "mmtool", **_SETTINGS, **conf}))


@dataclass(frozen=True, slots=True)
class SparkSlots:
    """The slots of a Spark context at one moment.

    Attributes:
        held: Tasks that Spark can run at once.
        waiting: Tasks of the running round that have no slot; None while Spark has not started the round's job.
    """

    held: int
    waiting: int | None


class Rounds(Protocol):
    """The port that runs rounds on Spark."""

    @property
    def tells_slots(self) -> bool:
        """Whether Spark reports how many slots it has, and how many tasks wait for one."""

    def run(self, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
        """Run one round: one job, one stage, one task per assignment, one action.

        Raises:
            Exception: any error of Spark, when a task failed for the last time.
        """

    def each(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        """Run ``work`` on each item, each in a task of its own, as one job; raises as `run`.

        Results are pickled.
        """

    def cancel(self) -> None:
        """Kill the running round; its workers store nothing more."""

    def slots(self) -> SparkSlots | None:
        """Spark's slots and the tasks that wait for one; None while Spark does not answer."""

    def asked_slots(self) -> int | None:
        """How many slots Spark was asked for; None where that is as many as there are."""

    def probe(self) -> None:
        """Run one small task, which imports the copier; returns once there was a slot for it."""

    def stop(self) -> None:
        """Stop Spark."""


class ContextRounds:
    """Rounds on a Spark context of this process: plain jobs without Spark SQL or Arrow (decision 18).

    A thread that lives as long as the context polls it for its slots, and for the job of the running round: a JVM that
    hangs blocks no other thread, and each thread has a connection of its own to the JVM.
    """

    tells_slots = True

    def __init__(self, context: Any) -> None:
        self._context = context
        self._asked = asked_slots(context.master, dict(context.getConf().getAll()))
        self._group = ""
        self._polled: tuple[float, str, SparkSlots] | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._poll, name="spark slots", daemon=True).start()

    def run(self, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
        group = f"mmtool-round-{uuid.uuid4().hex}"
        self._context.setJobGroup(group, "mmtool replicate")  # of this thread alone
        self._group = group
        return [row for rows in self.each(tasks, run_attempt) for row in rows]

    def each(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        every, count = tuple(items), len(items)
        job = self._context.parallelize(range(count), count).mapPartitions(
            lambda indexes: (work(every[index]) for index in indexes)
        )
        return list(job.collect())

    def cancel(self) -> None:
        self._context.cancelAllJobs()

    def slots(self) -> SparkSlots | None:
        if self._polled is None:
            return None
        at, group, slots = self._polled
        if time.monotonic() - at > _STALE_SECONDS:
            return None
        return slots if group == self._group else SparkSlots(slots.held, None)

    def asked_slots(self) -> int | None:
        return self._asked

    def probe(self) -> None:
        self.each((0,), _load_pump)

    def stop(self) -> None:
        self._ended.set()
        self._context.stop()

    def _poll(self) -> None:
        while not self._ended.is_set():
            with suppress(Exception):  # a JVM that is gone is told by the round that ran in it
                group = self._group
                spark = self._context._jsc.sc()  # noqa: SLF001  pyspark has no method for it
                profile = spark.resourceProfileManager().defaultResourceProfile()
                held = int(spark.maxNumConcurrentTasks(profile))
                slots = SparkSlots(held, self._waiting(group) if group else None)
                self._polled = (time.monotonic(), group, slots)
            self._ended.wait(_LOOK_SECONDS)

    def _waiting(self, group: str) -> int | None:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        known = [stage for stage in stages if stage is not None]
        if not known:
            return None
        waiting = (int(s.numTasks - s.numActiveTasks - s.numCompletedTasks) for s in known)
        return max(sum(waiting), 0)


@dataclass(frozen=True, slots=True)
class ConnectRounds:
    """`Rounds` on a session: one data frame of task numbers, mapped in Arrow batches.

    Attributes:
        asked: How many slots were asked for.
    """

    tells_slots: ClassVar[bool] = False

    session: Any
    asked: int = int(_SLOTS)

    def run(self, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
        return [row for rows in self.each(tasks, run_attempt) for row in rows]

    def each(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        every, count = tuple(items), len(items)

        def worked(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                results = [pickle.dumps(work(every[index])) for index in batch.column(0).to_pylist()]
                yield pa.RecordBatch.from_arrays([pa.array(results, pa.binary())], names=["result"])

        rows = self.session.range(0, count, 1, count).mapInArrow(worked, "result binary").collect()
        return [pickle.loads(row[0]) for row in rows]  # noqa: S301  what our own workers pickled

    def cancel(self) -> None:
        self.session.interruptAll()

    def slots(self) -> SparkSlots | None:
        return None

    def asked_slots(self) -> int | None:
        return self.asked

    def probe(self) -> None:
        self.each((0,), _load_pump)

    def stop(self) -> None:
        self.session.stop()


def _load_pump(_: int) -> None:
    import mmtool.replication.pump.pump  # noqa: F401  the worker has it loaded before its first round


def java_options() -> str:
    """JVM options for a fast start, with the messages of the JVM and of Spark on stderr only."""
    log4j = files("mmtool.replication") / "log4j2.properties"
    quiet = "-Xlog:disable -Xlog:all=warning:stderr"
    return f'"-Dlog4j2.configurationFile={log4j}" -XX:TieredStopAtLevel=1 {quiet}'


def spark_classes() -> ClassArchive:
    """The class archive for this Java and this Spark; its file may be missing."""
    spark = distribution("pyspark")
    return ClassArchive(cache_root() / "spark", (spark.version, spark.locate_file("pyspark")))


def _context(settings: Mapping[str, str]) -> Any:
    """Start the JVM with its messages in a file, and return a Spark context; or return the process's context.

    The JVM warns of its own modules on every start. It gets a process group of its own: signals that a terminal or
    timeout(1) sends to ours are for the driver, which completes the batches in flight before it ends the JVM. A JVM
    whose driver died reads the end of its stdin.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.accumulators import AccumulatorTCPServer
    from pyspark.java_gateway import launch_gateway

    if SparkContext._active_spark_context is not None:  # noqa: SLF001  there is no public question
        return SparkContext._active_spark_context  # noqa: SLF001  likewise
    keep_talk_aside()
    conf = SparkConf(loadDefaults=False)
    archived = "".join(f' "{option}"' for option in spark_classes().options())
    java = settings.get("spark.driver.extraJavaOptions", f"{java_options()}{archived}")
    for name, value in {**settings, "spark.driver.extraJavaOptions": java}.items():
        conf.set(name, value)
    drop_old_logs()
    # every user of the host can read the JVM's command line; the context gets all settings over py4j
    public = SparkConf(loadDefaults=False)
    public.setAll([(name, value) for name, value in conf.getAll() if not marks_secret(name)])
    with log_sink() as log:
        gateway = launch_gateway(public, popen_kwargs={"stderr": log, "process_group": 0})
    if settings["spark.master"].startswith("local"):  # elsewhere pyspark may be in Spark's zip alone
        # not on the JVM's command line: who looks for Python workers would find it there
        conf.setIfMissing(*_DAEMON)
    context = SparkContext(conf=conf, gateway=gateway)
    # a lost JVM is told by the engine in one line, not by the thread that talked to it in twenty
    AccumulatorTCPServer.handle_error = lambda *_: None
    return context


async def spark_up(starting: asyncio.Future[Rounds], stop: asyncio.Event) -> None:
    """Wait until Spark has started.

    Raises:
        MmtoolError: Spark did not start, or was killed while it did.
        StopAskedError: the stop came first.
    """
    try:
        await or_stop(starting, stop)
    except (MmtoolError, StopAskedError):
        raise
    except Exception as error:
        raise MmtoolError(
            f"Spark did not start: {reason_of(error)}",
            remedy=f"read Spark's log {spark_log()}, and check mmtool.spark.* in the properties file; then run the same"
            " command again",
        ) from error


async def end_spark(starting: asyncio.Future[Rounds] | None, *, clean: bool) -> None:
    """Stop Spark, whether it has started or is still starting; its log is kept unless ``clean``."""
    if starting is None:
        return
    if starting.cancel():
        _kill_jvm()
    else:
        try:
            await within(_END_SECONDS, in_thread(starting.result().stop))
        except TimeoutError:
            _kill_jvm()  # it hangs
        except Exception:  # noqa: BLE001, S110  it never came up, or is gone
            pass
    if clean:
        drop_spark_log()


def _kill_jvm() -> None:
    """Kill a JVM that is still starting, or one that hangs.

    One that is starting would notice only afterwards that its driver no longer waits. The JVM leads a process group of
    its own, and is the only child of this process that does.
    """
    for listed in Path("/proc/self/task").glob("*/children"):  # Linux; elsewhere it is left to itself
        with suppress(OSError):  # that thread, or its child, is gone
            for pid in map(int, listed.read_text().split()):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
