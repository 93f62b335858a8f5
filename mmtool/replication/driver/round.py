"""One round: planned, run as one Spark job for all flows, watched, and ended early when the plan has changed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.events import Event, Notice, NoticeDeduplicator
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.slots import first_shares, pack
from mmtool.plan.records.documents import Command, State
from mmtool.plan.words import counted, retried
from mmtool.replication.driver.slot_watch import SlotWatch, Throttling
from mmtool.replication.spark.assignment import FlowAssignment, ReportRow, TaskAssignment
from mmtool.replication.spark.log import GivenUpError, HungError
from mmtool.runtime.threads import in_thread, left_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from mmtool.plan.topics.facts import HaltReason
    from mmtool.replication.driver.flow_run import FlowRun
    from mmtool.replication.driver.supervisor import FlowSupervisor
    from mmtool.replication.spark.rounds import Rounds

FIRST_RETRY_SECONDS = 15.0
"""Seconds to the first retry of a halt: once a right is granted, the partition continues within half a minute."""


class HaltRetry:
    """Says when the next round starts because of partitions that are halted in this one.

    A. A reason that was not there before is tried again after `FIRST_RETRY_SECONDS`.
    B. For a missing right the interval stays the same, without end. Any other reason is tried less and less often:
       each try reads and sends again what is refused.
    """

    def __init__(self) -> None:
        self._known: AbstractSet[HaltReason] = frozenset()
        self._since = 0.0
        self._wait = FIRST_RETRY_SECONDS

    def due(self, reasons: AbstractSet[HaltReason], now: float) -> bool:
        """Whether a new round must start now to retry halted partitions.

        Args:
            reasons: The reasons of the partitions that are halted now; empty while a retry runs.
            now: Seconds of a monotonic clock.
        """
        if reasons - self._known:
            self._known, self._since, self._wait = reasons, now, FIRST_RETRY_SECONDS
        needs_right = any(reason.lacks_right for reason in reasons)
        if not reasons or now - self._since < (FIRST_RETRY_SECONDS if needs_right else self._wait):
            return False
        self._since = now
        if not needs_right:
            self._wait *= 2
        return True


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


_TICK_SECONDS = 0.25
_AGAIN_SECONDS = 1.0
_STOP_SECONDS = 15.0
"""A service manager kills a process about half a minute after it asked it to stop."""
_CANCEL_SECONDS = 5.0
"""A JVM that hangs cancels nothing; after this time the job is abandoned."""
_RENEWED_SECONDS = 10.0
"""Workers whose old credentials are refused cannot read that they are to stop."""
_HUNG_SECONDS = 180.0
"""Workers end within this time after a round's end: they wait 150 s for a cluster that does not answer, and what a
worker may hold (``mmtool.buffer.bytes``, 128 MiB) takes 135 s over a link of 1 MB/s. A slower one hangs."""


def plan_round(
    runs: Sequence[FlowRun], number: int, slots: int, round_seconds: float
) -> list[TaskAssignment]:
    """The tasks of a round: all shards that have partitions to mirror, in at most ``slots`` tasks."""
    piles = pack([load for run in runs for load in run.loads()], slots)
    parts: dict[int, list[FlowAssignment]] = defaultdict(list)
    for run in runs:
        flow, rate = run.flow.identity.flow, run.worker_rate
        mine = {index: [load for load in pile if load.flow == flow] for index, pile in enumerate(piles)}
        weights = {index: sum(load.weight for load in loads) for index, loads in mine.items() if loads}
        shares: Mapping[int, float | None] = dict.fromkeys(weights)
        if rate is not None and weights:
            shares = first_shares(rate, weights)
        for index, share in shares.items():
            parts[index].append(run.assignment(number, {load.shard for load in mine[index]}, share))
    return [
        TaskAssignment(index, round_seconds, min(flow.settings.buffer_bytes for flow in flows), tuple(flows))
        for index, flows in sorted(parts.items())
    ]


@dataclass(slots=True)
class Round:
    """A running round, and the control records to its workers.

    Attributes:
        number: Counted from the start of this process.
        runs: The flows.
        spark: The Spark session that runs it.
        flows: Has the topics, which are refreshed while the round runs; its `replan` ends the round.
        must_stop: Called a few times a second; true ends the round.
        show: Called as often, for progress.
        again: Decides when halted partitions are worth another round.
        slots: Watches the Spark slots.
    """

    number: int
    runs: Sequence[FlowRun]
    spark: Rounds
    flows: FlowSupervisor
    must_stop: Callable[[], bool]
    show: Callable[[], None]
    again: HaltRetry
    slots: SlotWatch
    _command: Command = field(default=Command.RUN, init=False)
    _asked: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _cancelling: asyncio.Future[None] | None = field(default=None, init=False)

    async def run(self, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
        """Run the tasks as one Spark job, and return what they reported when they ended or were told to end.

        Raises:
            GivenUpError: the job was cancelled, because the workers did not stop in time.
            HungError: Spark did not answer the request to cancel the job.
            Exception: as `Rounds.run`.
        """
        job = asyncio.create_task(in_thread(self.spark.run, tasks))
        self.slots.begin(tasks, self.runs)
        self._ends_within(max(task.round_seconds for task in tasks) + _HUNG_SECONDS, job)
        throttling = Throttling(self.number, self.runs, tasks)
        works = self._refresh_topics(), self._send_commands(), throttling.follow(), self._write_slots()
        beside = [asyncio.create_task(work) for work in works]
        try:
            while not job.done():
                await asyncio.wait({job, *beside}, timeout=_TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                for failed in [work for work in beside if work.done()]:
                    failed.result()
                self.show()
                if self.must_stop() and self._command is not Command.STOP:
                    self._end(Command.STOP, _STOP_SECONDS, job)
                reasons = {reason for run in self.runs for reason in run.may_go_on().values()}
                if self.again.due(reasons, asyncio.get_running_loop().time()):
                    self.flows.replan.set()
                if self._command is Command.RUN and self.slots.ends_round(self.runs):
                    self.flows.replan.set()
                    if (
                        self.slots.may_hang
                    ):  # such a task reads no command, and all other partitions would wait
                        self._ends_within(_STOP_SECONDS, job)
                differs = self.flows.replan.is_set() or any(run.differs for run in self.runs)
                if differs and self._command is Command.RUN:
                    self._end(Command.REPLAN, self._replan_seconds(tasks), job)
        finally:
            for work in beside:
                work.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self.slots.end(self.runs)
        return self._outcome(job)

    def _replan_seconds(self, tasks: Sequence[TaskAssignment]) -> float:
        """How long workers may take to end the round early: less where they have other credentials than the driver."""
        now = {run.flow.identity.flow: run.flow for run in self.runs}
        pairs = ((flow.settings, now[flow.identity.flow].settings) for task in tasks for flow in task.flows)
        renewed = any((old.source, old.target) != (new.source, new.target) for old, new in pairs)
        return _RENEWED_SECONDS if renewed else _HUNG_SECONDS

    def _outcome(self, job: asyncio.Task[list[ReportRow]]) -> list[ReportRow]:
        try:
            return job.result()
        except (Exception, asyncio.CancelledError) as error:
            if self._cancelling is None:
                raise
            if isinstance(error, asyncio.CancelledError) and not self._cancelling.done():
                raise HungError("Spark's JVM does not answer") from error
            raise GivenUpError(
                "the workers did not end in time, perhaps because a cluster does not answer"
            ) from error

    def _end(self, command: Command, seconds: float, job: asyncio.Task[list[ReportRow]]) -> None:
        """Have the workers end the round; cancel the job if they have not after ``seconds``."""
        self._command = command
        self._asked.set()
        self._ends_within(seconds, job)

    def _ends_within(self, seconds: float, job: asyncio.Task[list[ReportRow]]) -> None:
        asyncio.get_running_loop().call_later(seconds, self._abandon, job)

    def _abandon(self, job: asyncio.Task[list[ReportRow]]) -> None:
        """Cancel the Spark job if its workers did not stop in time; its shards stay open and are recovered."""
        if not job.done():
            said = "the workers did not stop in time; cancelling the Spark job"
            self.flows.say(Notice(said, Event.SPARK_JOB_CANCELLED, round=self.number))
            self._cancelling = left_behind(self._cancel, "cancel")
            asyncio.get_running_loop().call_later(_CANCEL_SECONDS, job.cancel)

    def _cancel(self) -> None:
        with suppress(Exception):  # what becomes of it the job tells
            self.spark.cancel()

    # --- beside the job, until it ends ----------------------------------------------------------------------

    async def _refresh_topics(self) -> None:
        while True:
            if self.flows.topics.is_due and await self.flows.topics.look():
                self.flows.replan.set()
            await asyncio.sleep(_TICK_SECONDS)

    async def _send_commands(self) -> None:
        """Send each new command to the workers, until the target takes it."""
        sayings = NoticeDeduplicator(self.flows.say)
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await asyncio.gather(*(run.tell(self._command, self.number) for run in self.runs))
            except MmtoolError as error:
                sayings.once(
                    "command",
                    f"the command to end the Spark job cannot be sent to its workers: {retried(error)};"
                    " mmtool keeps trying",
                )
                await asyncio.sleep(_AGAIN_SECONDS)
                self._asked.set()

    async def _write_slots(self) -> None:
        """Write the slots that changed; a write that the target refuses is repeated later, and no round waits."""
        while True:
            try:
                await asyncio.gather(*(run.write_slots() for run in self.runs if run.has_slot_news))
            except (MmtoolError, ConnectionLostError):
                await asyncio.sleep(_AGAIN_SECONDS)
            await asyncio.sleep(_TICK_SECONDS)
