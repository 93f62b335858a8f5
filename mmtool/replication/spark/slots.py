"""Poll a Spark context for its slots once a second, in a thread of its own."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_LOOK_SECONDS = 1.0
_STALE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SparkSlots:
    """The slots of a Spark context at one moment.

    Attributes:
        held: Tasks that Spark can run at once.
        waiting: Tasks of the running round that have no slot; None while Spark has not started the round's job.
    """

    held: int
    waiting: int | None


class SlotsQuestion:
    """Polls a context for its slots, and for the job of a group.

    In one thread that lives as long as the context: a JVM that hangs blocks no other thread, and each thread has a
    connection of its own to the JVM.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._group = ""
        self._answer: tuple[float, str, SparkSlots] | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._follow, name="spark slots", daemon=True).start()

    def follow(self, group: str) -> None:
        """Poll for the job of ``group`` from now on."""
        self._group = group

    def answer(self) -> SparkSlots | None:
        """The slots as polled last; None while Spark does not answer."""
        if self._answer is None:
            return None
        at, group, slots = self._answer
        if time.monotonic() - at > _STALE_SECONDS:
            return None
        return slots if group == self._group else SparkSlots(slots.held, None)

    def stop(self) -> None:
        """Stop polling."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.is_set():
            with suppress(Exception):  # a JVM that is gone is told by the round that ran in it
                self._look()
            self._ended.wait(_LOOK_SECONDS)

    def _look(self) -> None:
        group = self._group
        spark = self._context._jsc.sc()  # noqa: SLF001  pyspark has no method for it
        held = int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
        slots = SparkSlots(held, self._waiting(group) if group else None)
        self._answer = (time.monotonic(), group, slots)

    def _waiting(self, group: str) -> int | None:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        known = [stage for stage in stages if stage is not None]
        if not known:
            return None
        waiting = (int(s.numTasks - s.numActiveTasks - s.numCompletedTasks) for s in known)
        return max(sum(waiting), 0)
