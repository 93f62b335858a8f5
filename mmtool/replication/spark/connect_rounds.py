"""Rounds over Spark Connect, which has data frames and no RDDs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from mmtool.errors import UsageError, install_extra
from mmtool.replication.pump.report import ReportRow
from mmtool.replication.spark.log import attempt_number
from mmtool.replication.spark.task import run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mmtool.replication.spark.assignment import TaskAssignment
    from mmtool.replication.spark.slots import SparkSlots

T = TypeVar("T")
R = TypeVar("R")

_PARALLELISM, _SLOTS = "spark.default.parallelism", "2"
_SCHEMA = (
    "flow string, shard int, topic_id string, topic string, partition int, state string, reason string,"
    " for_good boolean, producer_id bigint, epoch int, next_sequence int, runs_sequence int, block binary,"
    " records bigint, bytes bigint, dead_letters bigint, foreign bigint, foreign_end bigint,"
    " gaps bigint, gaps_end bigint, latency array<bigint>, latency_ms bigint, told string, executor string,"
    " syncs_failure string"
)
"""Spark's DDL for ``ReportRow``."""


@dataclass(frozen=True, slots=True)
class ConnectRounds:
    """`Rounds` on a session: one data frame of task numbers, mapped in Arrow batches.

    Attributes:
        asked: How many slots were asked for.
    """

    tells_slots: ClassVar[bool] = False

    session: Any
    asked: int = int(_SLOTS)

    @classmethod
    def open(cls, master: str, conf: Mapping[str, str]) -> Self:
        """Connect to the Spark Connect server at ``master``, a URL ``sc://host:port``.

        Raises:
            UsageError: A package that Spark Connect needs beside pyspark is not installed.
        """
        missing = [name for name in ("grpc", "pandas", "pyarrow") if find_spec(name) is None]
        if missing:
            raise UsageError(
                f"mmtool.spark.master = {master}: Spark Connect needs {', '.join(missing)}, which this host lacks",
                remedy=install_extra("connect"),
            )
        from pyspark.sql import SparkSession

        session = SparkSession.builder.appName("mmtool").remote(master).getOrCreate()
        return cls(session, int(conf.get(_PARALLELISM) or session.conf.get(_PARALLELISM, _SLOTS)))

    def run(self, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
        count = len(tasks)
        report = self.session.range(0, count, 1, count).mapInArrow(_mirroring(tuple(tasks)), _SCHEMA)
        return [ReportRow(*row) for row in report.collect()]

    def each(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        count = len(items)
        found = self.session.range(0, count, 1, count).mapInArrow(
            _working(tuple(items), work), "result binary"
        )
        return [pickle.loads(row[0]) for row in found.collect()]  # noqa: S301  what our own workers pickled

    def cancel(self) -> None:
        self.session.interruptAll()

    def slots(self) -> SparkSlots | None:
        return None

    def asked_slots(self) -> int | None:
        return self.asked

    def probe(self) -> None:
        self.session.range(0, 1, 1, 1).mapInArrow(_loading, "id bigint").collect()

    def stop(self) -> None:
        self.session.stop()


def _loading(batches: Iterator[Any]) -> Iterator[Any]:
    import mmtool.replication.pump.pump  # noqa: F401  the worker has it loaded before its first round

    yield from batches


def _working(items: tuple[T, ...], work: Callable[[T], R]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def worked(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            results = [pickle.dumps(work(items[index])) for index in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(results, pa.binary())], names=["result"])

    return worked


def _mirroring(tasks: tuple[TaskAssignment, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def mirror(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _report(run_task(tasks[index], attempt_number()))

    return mirror


def _report(rows: list[ReportRow]) -> Any:
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
    types |= {"boolean": pa.bool_(), "array<bigint>": pa.list_(pa.int64())}
    fields = (column.split() for column in _SCHEMA.split(","))
    schema = pa.schema([(name, types[kind]) for name, kind in fields])
    return pa.RecordBatch.from_pylist([row._asdict() for row in rows], schema=schema)
