"""Watch Spark's slots: how many tasks a round may have; divide each flow's throttle over them."""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.events import Event, Notice, NoticeDeduplicator
from mmtool.plan.flow.slots import (
    Change,
    SlotFacts,
    SlotsRecord,
    Use,
    decide_slots,
    divide,
    is_news,
    slots_sentence,
)
from mmtool.plan.records.documents import SharesRecord
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.runtime.threads import left_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mmtool.replication.driver.flow_run import FlowRun
    from mmtool.replication.spark.assignment import TaskAssignment
    from mmtool.replication.spark.rounds import Rounds


_LOOK_SECONDS = 1.0
_SHARES_SILENT_SECONDS = 3.0

Shares = dict[int, float | None]


class Throttling:
    """The throttle shares of one round.

    Args:
        number: Of the round.
        runs: The flows.
        tasks: With the shares that they begin with.
    """

    def __init__(self, number: int, runs: Sequence[FlowRun], tasks: Sequence[TaskAssignment]) -> None:
        self._number = number
        self._runs = {run.flow.identity.flow: run for run in runs}
        self._told: dict[str, Shares] = defaultdict(dict)
        for task in tasks:
            for flow in task.flows:
                self._told[flow.identity.flow][task.index] = flow.bytes_per_second
        self._told_at: dict[str, float] = dict.fromkeys(self._told, time.monotonic())

    async def follow(self) -> None:
        """Divide the throttles anew once a second, until cancelled."""
        while True:
            await self.divide()
            await asyncio.sleep(_LOOK_SECONDS)

    async def divide(self) -> dict[str, Shares]:
        """Write the shares of each flow that differ from those its workers know; returns them.

        Shares that the target does not take now differ the next time as well.
        """
        news = {flow: self._shares(flow, told) for flow, told in self._told.items()}
        news = {flow: shares for flow, shares in news.items() if is_news(self._told[flow], shares)}
        for flow, shares in news.items():
            run = self._runs[flow]
            words = {str(t): None if share is None else max(round(share), 1) for t, share in shares.items()}
            record = SharesRecord(run.owner, self._number, words)
            with suppress(MmtoolError):
                await write_documents(run.flow, run.flow.identity.control_topic, [record])
                self._told[flow], self._told_at[flow] = shares, time.monotonic()
        return news

    def _shares(self, flow: str, told: Mapping[int, float | None]) -> Shares:
        rate = self._runs[flow].worker_rate
        if rate is None:
            return dict.fromkeys(told)
        uses = {task: self._use(flow, task) for task in told}
        known = [share for share in told.values() if share is not None]
        adds_up = len(known) == len(told) and math.isclose(sum(known), rate, rel_tol=1e-3)
        if None in uses.values() and adds_up:
            return dict(told)  # it rests on what was carried in the last round: better than to divide blindly
        return {**divide(rate, uses)}

    def _use(self, flow: str, task: int) -> Use | None:
        """How much of its share a task uses: none if it is silent for long, None while its report may still come."""
        said = self._runs[flow].watch.uses.get(task)
        if said is not None and said.round == self._number:
            return Use(said.bytes_per_second, said.is_all)
        is_silent = time.monotonic() - self._told_at[flow] > _SHARES_SILENT_SECONDS
        return Use(0.0, is_all=False) if is_silent else None


_TASK_SILENT_SECONDS = 15.0  # pumps repeat where they stand every ten
_START_SECONDS = 30.0
_AGAIN_SECONDS = 10.0
_ABOUT = "slots"


class SlotWatch:
    """Follows the slots of one Spark session from round to round.

    Args:
        spark: Where rounds run.
        place: What the operator calls it.
        limit: No round has more tasks than that; None is without limit.
        say: Called with sentences for the operator.
        clock: Seconds that only go forward; the one by which `ControlFollower.heard` goes.

    Attributes:
        wanted: The tasks that the running round would have if Spark had a slot for each.
        held: Its tasks that have a slot, or have ended.
    """

    def __init__(
        self,
        spark: Rounds,
        place: str,
        limit: int | None,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._clock = clock
        self._place = place
        self._limit = limit
        self._say = say
        self._sayings = NoticeDeduplicator(say)
        self._free = FreeSlot(spark)
        self._capacity: int | None = None
        self._most_seen = 1
        self._loads = 0
        self._tasks: Sequence[TaskAssignment] = ()
        self._made_at = self._began_at = clock()
        self._short_since: float | None = None
        self._look_at = 0.0
        self.wanted = 0
        self.held = 0

    def plan(self, loads: int) -> int:
        """The number of tasks that the next round may have, to mirror ``loads`` shards."""
        self._loads, slots = loads, self._slots()
        known = self._asked() if slots is None else slots
        self._capacity = max(min(self._capacity or known, known), 1)
        return self._capacity

    def begin(self, tasks: Sequence[TaskAssignment], runs: Sequence[FlowRun]) -> None:
        """Start to watch a new round with these tasks."""
        self._tasks, self._began_at, self._short_since = tasks, self._clock(), None
        self.held, self.wanted = len(tasks), max(min(self._asked(), self._loads), len(tasks))
        self._mark(runs, ())
        self._free.forget()
        self._tell_tasks(len(tasks))

    def end(self, runs: Sequence[FlowRun]) -> None:
        """Mark that the round has ended, so that no shard waits for a slot any more."""
        self._mark(runs, ())

    def ends_round(self, runs: Sequence[FlowRun]) -> bool:
        """Whether the round must end early because the next one has fewer or more tasks; checks once a second."""
        now, slots = self._clock(), self._slots()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        waiting = self._waiting(runs, slots, now)
        self.wanted = max(min(self._asked(), self._loads), len(self._tasks))
        self.held = len(self._tasks) - len(waiting)
        self._mark(runs, waiting)
        self._short_since = (self._short_since or now) if waiting else None
        decision = decide_slots(
            SlotFacts(
                wanted=self.wanted,
                planned=len(self._tasks),
                served=self.held,
                held=slots,
                short_seconds=now - self._short_since if self._short_since else 0.0,
                free_seconds=self._free.seconds(now, is_wanted=self.held == len(self._tasks) < self.wanted),
                tells_slots=self._spark.tells_slots,
            )
        )
        if decision.change is Change.KEEP:
            if self.held == 0 and slots == 0:
                self._tell_nothing_runs()
            elif self.held == len(self._tasks):
                self._tell_tasks(self.held)
            return False
        self._capacity = decision.tasks
        if decision.change is Change.PACK:
            self._tell_tasks(decision.tasks)
        return True

    @property
    def may_hang(self) -> bool:
        """Whether a task is silent and Spark cannot show that it only lacks a slot, as over Spark Connect."""
        return not self._spark.tells_slots and self.held < len(self._tasks)

    def tell_none_yet(self, runs: Sequence[FlowRun]) -> bool:
        """Before the first round: report that Spark has no slot, and return True; False while it may have one."""
        slots = self._slots()
        is_late = not self._spark.tells_slots and self._clock() - self._made_at > _START_SECONDS
        if slots != 0 and not is_late:
            return False
        self.wanted = self._asked()
        for run in runs:
            run.slots = SlotsRecord(run.owner, self.wanted, 0, tuple(range(run.shard_count)))
        self._tell_nothing_runs()
        return True

    # --- what Spark and the tasks say ----------------------------------------------------------------------

    def _slots(self) -> int | None:
        answer = self._spark.slots()
        if answer is None:
            return None
        held = answer.held if self._limit is None else min(answer.held, self._limit)
        self._most_seen = max(self._most_seen, held)
        return held

    def _asked(self) -> int:
        asked = max(self._spark.asked_slots() or 1, self._most_seen)
        return asked if self._limit is None else min(asked, self._limit)

    def _waiting(self, runs: Sequence[FlowRun], slots: int | None, now: float) -> list[TaskAssignment]:
        """The tasks without a slot: where Spark gives only their number, those that have been silent for longest."""
        heard = {run.flow.identity.flow: run.watch.heard for run in runs}
        last = dict.fromkeys((task.index for task in self._tasks), self._began_at)
        for task in self._tasks:
            for flow in task.flows:
                of_flow = heard.get(flow.identity.flow, {})
                words = (of_flow.get((p.topic_id, p.partition), 0.0) for p in flow.partitions)
                last[task.index] = max(last[task.index], *words, 0.0)
        longest = sorted(self._tasks, key=lambda task: last[task.index])
        silent = [task for task in longest if now - last[task.index] > _TASK_SILENT_SECONDS]
        answer = self._spark.slots()
        if answer is not None and slots is not None:
            lack = max(len(longest) - slots if answer.waiting is None else answer.waiting, 0)
            return longest[:lack] if slots < len(longest) else silent[:lack]
        is_over = any(now - self._began_at > task.round_seconds for task in silent)
        if self._spark.tells_slots or is_over or len(silent) == len(longest):
            return []  # Spark does not answer, tasks have ended, or the target takes no positions
        return silent

    # --- what is said of it ---------------------------------------------------------------------------------

    def _tell_tasks(self, tasks: int) -> None:
        said = slots_sentence(tasks, self.wanted)
        if tasks < self.wanted:
            shared = f"all partitions share {tasks} tasks" if tasks > 1 else "all partitions share one task"
            short = f"{said}; {shared} until it has more. Check the executors of {self._place}"
            self._sayings.once(_ABOUT, Notice(short, Event.SLOTS_SHORT, slots=tasks, wanted=self.wanted))
        elif self._sayings.is_well(_ABOUT):
            enough = f"{said}; partitions are spread over {tasks} tasks"
            self._say(Notice(enough, Event.SLOTS_ENOUGH, slots=tasks, wanted=self.wanted))

    def _tell_nothing_runs(self) -> None:
        said = slots_sentence(0, self.wanted)
        none = f"{said}; nothing is copied until it has one. Check the executors of {self._place}"
        self._sayings.once(_ABOUT, Notice(none, Event.SLOTS_SHORT, slots=0, wanted=self.wanted))

    def _mark(self, runs: Sequence[FlowRun], waiting: Sequence[TaskAssignment]) -> None:
        for run in runs:
            mine = [f for task in waiting for f in task.flows if f.identity.flow == run.flow.identity.flow]
            shards = tuple(sorted(shard.shard for flow in mine for shard in flow.shards))
            rounds = (flow.round for task in self._tasks for flow in task.flows)
            run.slots = SlotsRecord(run.owner, self.wanted, self.held, shards, max(rounds, default=0))


class FreeSlot:
    """Finds out whether a slot is free beside a round: one small task queues behind the round's own.

    It also makes Spark ask for executors where it allocates them dynamically.
    """

    def __init__(self, spark: Rounds) -> None:
        self._spark = spark
        self._task: asyncio.Future[None] | None = None
        self._counts = False
        self._since: float | None = None
        self._again_at = 0.0

    def forget(self) -> None:
        """Discard what the probe found, because another round begins: between rounds every slot is free."""
        self._counts, self._since = False, None

    def seconds(self, now: float, *, is_wanted: bool) -> float | None:
        """Seconds for which a slot is known to have been free; None while none is, or none is wanted."""
        if not is_wanted:
            self.forget()
            return None
        if self._task is None and now >= self._again_at:
            self._task, self._counts = left_behind(self._spark.probe, "slot probe"), True
            self._since = None  # while this one waits, the slot that an earlier one found is taken
        elif self._task is not None and self._task.done():
            failed = self._task.cancelled() or self._task.exception() is not None
            if self._counts and not failed:
                self._since = self._since or now
            self._task, self._again_at = None, now + _AGAIN_SECONDS
        return None if self._since is None else now - self._since
