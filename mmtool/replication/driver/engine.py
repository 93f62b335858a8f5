"""`replicate`: runs the flows in rounds on Spark until they are done or stopped by a signal; closes them cleanly."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

from mmtool.config.live import LiveFile
from mmtool.errors import MmtoolError, PartlyAppliedError, RefusedError, StoppedError, UnreachableError
from mmtool.events import FLOW_ARROW, Event, Notice, NoticeDeduplicator, flow_notice
from mmtool.java import java_binary
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.output.console import leave_terminal
from mmtool.output.progress import ProgressSnapshot
from mmtool.plan.flow.phases import FlowEvent, FlowPhase
from mmtool.plan.flow.positions import PartitionRow
from mmtool.plan.records.documents import State
from mmtool.plan.records.marks import FAILED_OVER_REMEDY
from mmtool.plan.words import are, flow_options
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.driver.progress import FlowsShown, rows_of_run
from mmtool.replication.driver.reload import Reloader
from mmtool.replication.driver.round import HaltRetry, Round, plan_round, round_ended, round_started
from mmtool.replication.driver.slot_watch import SlotWatch
from mmtool.replication.driver.supervisor import FlowSupervisor, RunOptions
from mmtool.replication.driver.timeline import StartStep, Timeline
from mmtool.replication.same_offsets.refusals import refuse_take_over
from mmtool.replication.spark.assignment import AWAY, FENCED, ReportRow
from mmtool.replication.spark.log import ended_by, reason_of, spark_is_gone, spark_log
from mmtool.replication.spark.rounds import Rounds, end_spark, local_master, open_rounds, spark_up
from mmtool.runtime.process import usable_cores
from mmtool.runtime.threads import StopAskedError, came_within, left_behind, run_loop, unless_stopped

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
            self.flows.timeline.note(StartStep.CLUSTERS)
            if self._copies:
                starting = left_behind(self._open_spark, "spark")
            await self.flows.take()
            for run in self.flows.runs:
                if options.until is not None:
                    run.goal = dict(options.until.get(run.name, {}))
                elif options.until_caught_up:
                    await unless_stopped(run.set_goal(), self.stop)
            if not self._is_done():
                if starting is not None:
                    await self._wait_for_spark(starting)
                    self._spark = starting.result()
                await self._rounds()
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

    @property
    def _copies(self) -> bool:
        """Whether any flow's mirrors are mmtool's own, so that Spark is needed."""
        return not all(flow.is_external for flow in self.flows.settings)

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
        self.flows.timeline.note(StartStep.JVM)
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

    async def _rounds(self) -> None:
        self.flows.start_duties()
        failures = 0
        while not self.stop.is_set() and not self._is_done():
            self.flows.recover_found()
            await self.flows.settle()
            if not any(run.loads() for run in self.flows.present()):
                is_filling = any(run.prefills.is_busy for run in self.flows.present())
                is_filling |= any(run.flow.settings.is_external for run in self.flows.present())  # by others
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
                await unless_stopped(run.tidy(), self.stop)
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
        self.flows.timeline.worked(rows)
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


Observe = Callable[[FlowSupervisor], AbstractContextManager[object]]

_REMAINING = {
    State.HALTED: ("is halted", "are halted"),
    State.FAILED_OVER: ("has failed over", "have failed over"),
}
"""The states that keep a run from being complete, as verbs of one partition and of several."""


@dataclass(slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        rows: One per partition, in the contract's shape.
        stopped_by: The signal that ended it; None when it reached its goal.
        has_goal: Whether it had one.
    """

    rows: list[dict[str, object]] = field(default_factory=list)
    stopped_by: signal.Signals | None = None
    has_goal: bool = False

    @property
    def error(self) -> MmtoolError | None:
        """The error by which the command gets the contract's exit code; None when all went well.

        A clean stop after a signal (130, 143), some partitions halted or failed over (6), or all of them (3).
        """
        if self.stopped_by is not None:
            return StoppedError(self.stopped_by, is_end=not self.has_goal)
        rest = {state: [row for row in self.rows if row["state"] == state] for state in _REMAINING}
        count = sum(map(len, rest.values()))
        if not count:
            return None
        said = [self._sentence(rows, _REMAINING[state]) for state, rows in rest.items() if rows]
        remedy, code = "do what the reason of each row says, then run the same command again", None
        if not rest[State.HALTED]:
            remedy, code = FAILED_OVER_REMEDY, str(State.FAILED_OVER)
        if count == len(self.rows):
            return RefusedError("; ".join(said), remedy=remedy, code=code)
        return PartlyAppliedError(
            "; ".join(said), remedy=f"{remedy}; the other partitions are mirrored", code=code
        )

    def _sentence(self, rows: list[dict[str, object]], verbs: tuple[str, str]) -> str:
        """What became of some of the rows: the only one, or their number with an example."""
        one, several = verbs
        first = min(rows, key=lambda row: row["topic"] is None)
        if first["topic"] is None:  # all are rows of flows, which their reasons name
            return "; ".join(str(row["reason"]) for row in rows)
        number = "" if first["partition"] is None else f"-{first['partition']}"
        place = f"{first['topic']}{number} of {first['source']}{FLOW_ARROW}{first['target']}"
        reason = first["reason"]
        if len(rows) == 1:
            return f"{place} {one}: {reason}"
        is_whole = all(row["partition"] is not None for row in self.rows)
        things = "partitions" if is_whole else "partitions or topics"
        return f"{len(rows)} of {len(self.rows)} {things} {several}, for example {place}: {reason}"


def replicate(
    file: LiveFile,
    options: RunOptions,
    *,
    show: Callable[[Sequence[ProgressSnapshot]], None],
    say: Callable[[str], None],
    warn: Callable[[str], None],
    timeline: Timeline | None = None,
    observe: Observe = nullcontext,
) -> Outcome:
    """Run the flows of a file in this process until the goal of ``options`` is reached or a signal arrives.

    Args:
        file: The properties file; read again when it changes, and on SIGHUP.
        options: How long to run.
        show: Called about twice a second with the flows' progress.
        say: Called with sentences for the operator.
        warn: Called with warnings for the operator.
        timeline: Gets the steps of the start.
        observe: A context manager that is entered with the flows while they run, for instance to serve its metrics.

    Raises:
        MmtoolError: as `Engine.run`, each with the contract's exit code; UsageError: the file cannot be used.
    """
    chosen, timeline = file.load(), timeline or Timeline()
    timeline.note(StartStep.CONFIGURATION)
    if options.take_over:
        refuse_take_over(chosen.flows)
    if not all(flow.is_external for flow in chosen.flows):
        java_binary()  # missing or too old is said before anything is touched
    flows = FlowSupervisor(
        chosen.flows, options, asyncio.Event(), say, chosen.heartbeats_only, timeline=timeline
    )
    engine, reloader = Engine(flows, FlowsShown(show).runs), Reloader(file, flows, say, warn)
    with observe(flows):
        return run_loop(_run(flows, engine, reloader))


async def _run(flows: FlowSupervisor, engine: Engine, reloader: Reloader) -> Outcome:
    outcome = Outcome(has_goal=flows.options.until_caught_up)

    def stopped(signum: signal.Signals) -> None:
        if flows.stop.is_set():
            flows.say(
                Notice(
                    "stopped at once; the next start recovers the batches in flight",
                    Event.STOPPING,
                    signal=signum.name,
                )
            )
            leave_terminal()
            os._exit(128 + signum)  # asked twice: nothing is waited for
        outcome.stopped_by = signum
        said = "stopping: finishing the batches in flight"
        flows.say(Notice(said, Event.STOPPING, signal=signum.name))
        flows.stop.set()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopped, signum)
    loop.add_signal_handler(signal.SIGHUP, reloader.asked.set)
    reloading = asyncio.create_task(reloader.run())
    try:
        await engine.run()
    finally:
        reloading.cancel()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(signum)
    now_ms = int(time.time() * 1000)
    outcome.rows = [row for run in flows.runs for row in rows_of_run(run, now_ms)]
    for flow, why in flows.failed_over.values():
        names = flow.source.alias, flow.target.alias, None
        row = PartitionRow(*names, state=State.FAILED_OVER, reason=why.message)
        outcome.rows.append(row._asdict())
    if flows.options.until_caught_up and outcome.stopped_by is None:
        paused = [row for row in outcome.rows if row["state"] == State.PAUSED]
        ways = sorted({(str(row["source"]), str(row["target"])) for row in paused})
        resume = " and ".join(f"`mmtool flow resume {flow_options(*name)}`" for name in ways)
        if paused:
            flows.say(
                f"{len(paused)} of {len(outcome.rows)} partitions {are(len(paused))} paused, and replicate did not wait"
                f" for {'it' if len(paused) == 1 else 'them'}; to end the pause, run {resume}"
            )
    return outcome
