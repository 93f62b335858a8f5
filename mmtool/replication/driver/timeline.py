"""The start of `replicate`, step by step, until the first record is on the target: ``--timings``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TypedDict

from mmtool.replication.spark.assignment import ReportRow
from mmtool.runtime.process import now_ms, started_ms
from mmtool.translation.types import UNKNOWN, Unknown


class StartStep(StrEnum):
    """The steps of a start."""

    PROCESS = "process"
    CONFIGURATION = "configuration"
    CLUSTERS = "clusters"
    LEASE = "lease"
    RECOVERY = "recovery"
    JVM = "jvm"
    JOB = "job"
    FIRST_FETCH = "first_fetch"
    FIRST_ANSWER = "first_answer"


_TABLE: dict[StartStep, tuple[tuple[StartStep, ...], str]] = {
    StartStep.PROCESS: ((), "Python has started and loaded the command"),
    StartStep.CONFIGURATION: ((StartStep.PROCESS,), "the properties file is read"),
    StartStep.CLUSTERS: ((StartStep.CONFIGURATION,), "the clusters of the flows answer and are checked"),
    StartStep.LEASE: ((StartStep.CLUSTERS,), "this process has the ownership leases"),
    StartStep.RECOVERY: ((StartStep.LEASE,), "former owners are fenced, and the positions are recovered"),
    StartStep.JVM: ((StartStep.CLUSTERS,), "Spark runs; it starts beside lease and recovery"),
    StartStep.JOB: ((StartStep.RECOVERY, StartStep.JVM), "a worker runs the first Spark job"),
    StartStep.FIRST_FETCH: ((StartStep.JOB,), "the source has answered with records"),
    StartStep.FIRST_ANSWER: ((StartStep.FIRST_FETCH,), "the target has acknowledged records"),
}
"""By step, in order: the steps that it comes after, and what has been reached when it ends."""


class TimedStep(TypedDict):
    """One step of the start.

    Attributes:
        step: Its name.
        at_seconds: From the start of the process to the end of the step.
        seconds: How long it took, from the end of the steps that it comes after.
        meaning: What has been reached by then.
    """

    step: StartStep
    at_seconds: float
    seconds: float
    meaning: str


class Timeline:
    """When each step of the start ended, in ms since 1970; safe to call from several threads.

    A. Only the first time that a step is noted counts.
    B. ``tell`` is called once: when the last step has ended, or by `close`.

    Workers on other hosts note by their own clocks.

    Args:
        tell: Called with the rows.
        began_ms: When the process was started; by default, what the system says.
    """

    def __init__(
        self,
        tell: Callable[[Sequence[TimedStep]], None] = lambda _: None,
        began_ms: int | Unknown = UNKNOWN,
    ) -> None:
        self._tell, self._is_told = tell, False
        known = started_ms() if began_ms is UNKNOWN else began_ms
        self._began_ms = now_ms() if known is UNKNOWN else known
        self._ended: dict[StartStep, int] = {}
        self._lock = threading.Lock()

    def note(self, step: StartStep, at_ms: int | Unknown = UNKNOWN) -> None:
        """Note that a step has ended, now or at ``at_ms``."""
        with self._lock:
            self._ended.setdefault(step, now_ms() if at_ms is UNKNOWN else at_ms)

    def worked(self, rows: Iterable[ReportRow]) -> None:
        """Note what the workers of a round reported; nothing once the first record is acknowledged."""
        if self._is_told:
            return
        times = [row.times for row in rows]
        for step, name in (
            (StartStep.JOB, "began_ms"),
            (StartStep.FIRST_FETCH, "fetched_ms"),
            (StartStep.FIRST_ANSWER, "answered_ms"),
        ):
            known = [at for one in times if (at := getattr(one, name)) is not UNKNOWN]
            if known:
                self.note(step, min(known))
        if StartStep.FIRST_ANSWER in self._ended:
            self.close()

    def close(self) -> None:
        """Tell the rows, unless they were told."""
        if not self._is_told:
            self._is_told = True
            self._tell(self.rows())

    def rows(self) -> list[TimedStep]:
        """The steps that have ended, in the order of the table."""
        with self._lock:
            ended = {step: (at - self._began_ms) / 1000 for step, at in self._ended.items()}
        rows = []
        for step, (after, meaning) in _TABLE.items():
            if step in ended:
                took = ended[step] - max((ended.get(one, 0.0) for one in after), default=0.0)
                at_seconds, seconds = round(ended[step], 3), round(max(took, 0.0), 3)
                rows.append(TimedStep(step=step, at_seconds=at_seconds, seconds=seconds, meaning=meaning))
        return rows
