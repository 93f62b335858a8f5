"""The engine: runs the flows in rounds on Spark until it is stopped, and closes them cleanly."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.events import Event, Notice, flow_notice
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import FlowEvent, FlowPhase
from mmtool.replication.driver.notices import NoticeDeduplicator
from mmtool.replication.driver.round import HaltRetry, Round, plan_round, round_ended, round_started
from mmtool.replication.driver.slot_watch import SlotWatch
from mmtool.replication.pump.report import AWAY, FENCED
from mmtool.replication.spark.log import ended_by, reason_of, spark_is_gone, spark_log
from mmtool.replication.spark.rounds import end_spark, local_master, open_rounds, spark_up
from mmtool.runtime.process import usable_cores
from mmtool.runtime.threads import StopAskedError, came_within, left_behind, unless_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmtool.replication.driver.flow_run import FlowRun
    from mmtool.replication.driver.supervisor import FlowSupervisor
    from mmtool.replication.pump.report import ReportRow
    from mmtool.replication.spark.rounds import Rounds

_IDLE_SECONDS = 1.0
_NO_SLOT_SECONDS = 5.0
_FAILURES_IN_A_ROW = 5


@dataclass(slots=True)
class Engine:
    """Runs flows in one process, one Spark job per round for all of them.

    Attributes:
        flows: Starts the flows, and reacquires them.
        tick: Called a few times a second with the runs, for progress.
    """

    flows: FlowSupervisor
    tick: Callable[[Sequence[FlowRun]], None]
    stop: asyncio.Event = field(init=False)
    say: Callable[[str], None] = field(init=False)
    _round: int = 0
    _spark: Rounds | None = None
    _slots: SlotWatch | None = None
    _again: HaltRetry = field(default_factory=HaltRetry)
    _sayings: NoticeDeduplicator = field(init=False)

    def __post_init__(self) -> None:
        self.stop, self.say = self.flows.stop, self.flows.say
        self._sayings = NoticeDeduplicator(self.say)

    async def run(self) -> None:
        """Run the flows until `stop` is set or the goal is reached.

        Raises:
            OwnedElsewhereError: another process owns a flow.
            UsageError: no topic matches, and there is a goal to reach.
            NotAuthorisedError, RefusedError: a check at the start failed.
            UnreachableError: at the start, the clusters of a flow that has a goal, or of all flows, do not answer;
                otherwise the flow is deferred.
        """
        starting: asyncio.Future[Rounds] | None = None
        clean, options = False, self.flows.options
        try:
            await self.flows.meet()
            starting = left_behind(self._open_spark, "spark")
            await self.flows.take()
            for run in self.flows.runs:
                if options.until is not None:
                    run.goal = dict(options.until.get(run.name, {}))
                elif options.until_caught_up:
                    await unless_stopped(run.set_goal(), self.stop)
            if not self._is_done():
                await self._wait_for_spark(starting)
                await self._rounds(starting)
            clean = True
            if self._is_done():
                await self.flows.finish()
        except StopAskedError:
            clean = self.flows.ready.is_set()
        finally:
            await self.flows.end()
            ending = asyncio.create_task(end_spark(starting, clean=clean))
            for run in self.flows.runs:
                with suppress(MmtoolError):
                    await run.close(clean=clean)
                self.say(flow_notice(run.name, "stopped", Event.FLOW_STOPPED, clean=clean))
            await ending

    # --- before the first round ---------------------------------------------------------------------------

    def _open_spark(self) -> Rounds:
        first = self.flows.settings[0]
        limit: int | None = None
        master, place = first.spark_master, f"Spark at {first.spark_master}"
        if not master:
            limit = max(1, usable_cores() // 2)  # one task per two cores, because workers wait on sockets
            master, place = local_master(limit), "Spark"
        rounds = open_rounds(master, first.spark_conf)
        self._slots = SlotWatch(rounds, place, limit, self.say)
        rounds.probe()
        return rounds

    async def _wait_for_spark(self, starting: asyncio.Future[Rounds]) -> None:
        """Wait until Spark has a slot; meanwhile report, also in the control topic, that it has none."""
        telling = asyncio.create_task(self._tell_no_slot())
        try:
            await spark_up(starting, self.stop)
        finally:
            telling.cancel()

    async def _tell_no_slot(self) -> None:
        while True:
            await asyncio.sleep(_NO_SLOT_SECONDS)
            if self._slots is not None and self._slots.tell_none_yet(self.flows.runs):
                for run in self.flows.runs:
                    with suppress(MmtoolError, ConnectionLostError):
                        await run.write_slots()

    # --- rounds -------------------------------------------------------------------------------------------

    async def _rounds(self, starting: asyncio.Future[Rounds]) -> None:
        self._spark = starting.result()
        self.flows.start_duties()
        failures = 0
        while not self.stop.is_set() and not self._is_done():
            self.flows.recover_found()
            await self.flows.settle()
            if not any(run.loads() for run in self.flows.present()):
                is_filling = any(run.prefills.is_busy for run in self.flows.present())
                if self.flows.options.has_goal and not (self.flows.is_busy or is_filling):
                    return
                await self._idle()
                continue
            started = time.monotonic()
            try:
                await self._round_once()
            except (UnreachableError, ConnectionLostError) as error:
                self._recover(error, 0)
            except (MmtoolError, StopAskedError):
                raise
            except Exception as error:  # noqa: BLE001  Spark wraps whatever a task died of
                failures = 0 if time.monotonic() - started > self._round_seconds() / 2 else failures + 1
                self._recover(error, failures)
            else:
                failures = 0

    async def _idle(self) -> None:
        """Wait a moment while there is nothing to mirror, and refresh the topics if that is due."""
        if self.flows.topics.is_due:
            await unless_stopped(self.flows.topics.look(), self.stop)
        for run in self.flows.present():
            if run.life.phase is FlowPhase.GIVEN_UP:
                self.flows.lose(run)
        self._show()
        if self.flows.is_busy:
            await self.flows.wait(_IDLE_SECONDS)
            return
        await came_within(_IDLE_SECONDS, self.stop.wait())

    async def _round_once(self) -> None:
        self._round += 1
        self.flows.planned()
        runs, started = self.flows.present(), time.monotonic()
        for run in runs:
            run.retry_halted()
            try:
                await unless_stopped(run.renew_claims(), self.stop)
            except StopAskedError:
                # some claims are newer than we know of: its shards stay open on record
                run.life.happen(FlowEvent.DOUBT)
                raise
        assert self._spark is not None
        assert self._slots is not None
        slots = self._slots.plan(sum(len(run.loads()) for run in runs))
        tasks = plan_round(runs, self._round, slots, self._round_seconds())
        must_stop, show = self._must_stop, self._show
        this = Round(self._round, runs, self._spark, self.flows, must_stop, show, self._again, self._slots)
        self.say(round_started(self._round, tasks))
        rows, seconds = await this.run(tasks), time.monotonic() - started
        for notice in round_ended(self._round, rows, seconds):
            self.say(notice)
        self._fold(runs, rows, seconds)

    def _must_stop(self) -> bool:
        given_up = any(run.life.phase is FlowPhase.GIVEN_UP for run in self.flows.present())
        return self.stop.is_set() or self._is_done() or given_up or self.flows.has_failed

    def _show(self) -> None:
        self.tick(self.flows.runs)
        for run in self.flows.runs:
            while run.watch.news:
                self.say(flow_notice(run.name, run.watch.news.pop(0)))

    def _round_seconds(self) -> float:
        return float(min(flow.round_seconds for flow in self.flows.settings))

    def _fold(self, runs: Sequence[FlowRun], rows: Sequence[ReportRow], seconds: float) -> None:
        for run in runs:
            mine = [row for row in rows if row.flow == run.flow.identity.flow]
            for why in sorted({row.syncs_failure for row in mine if row.syncs_failure}):  # no end is reported
                said = f"offset syncs: {why}; mmtool mirrors without them and keeps trying"
                notice = flow_notice(run.name, said, Event.DUTY_FAILED, duty="offset syncs")
                self._sayings.once(f"{run.name} {why}", notice)
            told = {row.told for row in mine}
            if not told & {FENCED, AWAY} and run.life.phase is not FlowPhase.GIVEN_UP:
                run.fold(mine, seconds)
            elif self.stop.is_set():
                run.life.happen(FlowEvent.DOUBT)
            else:
                self.flows.lose(run)

    def _recover(self, error: Exception, failures: int) -> None:
        """Reacquire the claimed flows after a failed round: fence, recover from the log of the target, continue.

        Raises:
            MmtoolError: rounds keep failing, Spark itself is gone, or a stop was requested.
        """
        if self.stop.is_set() or failures >= _FAILURES_IN_A_ROW or spark_is_gone(error):
            raise ended_by(error, stopped=self.stop.is_set(), log=spark_log()) from error
        reason = reason_of(error)
        said = f"Spark job failed ({reason}); retrying"
        self.say(Notice(said, Event.SPARK_JOB_FAILED, round=self._round, reason=reason, failures=failures))
        for run in self.flows.present():
            self.flows.lose(run)

    def _is_done(self) -> bool:
        return self.flows.options.has_goal and all(run.has_reached_goal for run in self.flows.runs)
