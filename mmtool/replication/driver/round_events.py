"""Log events of a round: its start, and what each worker reported at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.events import Event, Notice
from mmtool.plan.records.documents import State
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmtool.replication.pump.report import ReportRow
    from mmtool.replication.spark.assignment import TaskAssignment


def round_started(number: int, tasks: Sequence[TaskAssignment]) -> Notice:
    """The log event of a round that is handed to Spark, with its tasks, partitions and flows."""
    flows = sorted({flow.identity.name for task in tasks for flow in task.flows})
    partitions = sum(len(flow.partitions) for task in tasks for flow in task.flows)
    said = f"Spark job {number} starts: {counted(len(tasks), 'task')} for {counted(partitions, 'partition')}"
    return Notice(
        said, Event.ROUND_STARTED, round=number, tasks=len(tasks), partitions=partitions, flows=flows
    )


def round_ended(number: int, rows: Sequence[ReportRow], seconds: float) -> Iterator[Notice]:
    """The log events of a round's end: one per worker with its figures, then one for the round.

    Args:
        number: The round's number.
        rows: What the workers reported.
        seconds: How long the round took.
    """
    executors = sorted({row.executor for row in rows if row.executor})
    for executor in executors:
        figures = _figures([row for row in rows if row.executor == executor])
        said = f"worker {executor} has ended its part of Spark job {number}"
        yield Notice(said, Event.WORKER_ENDED, executor=executor, round=number, **figures)
    said = f"Spark job {number} has ended"
    figures = _figures(rows)
    yield Notice(said, Event.ROUND_ENDED, round=number, seconds=seconds, workers=len(executors), **figures)


def _figures(rows: Sequence[ReportRow]) -> dict[str, object]:
    partitions = [row for row in rows if row.partition >= 0]
    told = sorted({row.told for row in rows if row.told})
    halted = sum(row.state == State.HALTED for row in partitions)
    return {"partitions": len(partitions), "halted": halted, "told": ", ".join(told)}
