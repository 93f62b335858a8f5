"""The engine: acquires flows, runs rounds on Spark until it is stopped, and closes cleanly."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.config.changes import compare
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.events import Event, Notice, flow_notice
from mmtool.kafka.errors import BOTH_AWAY
from mmtool.kafka.wire.cluster import ConnectionLostError, remedy_after
from mmtool.output import human
from mmtool.plan.flow.phases import MEANING, START, FlowEvent, FlowPhase
from mmtool.plan.words import counted
from mmtool.replication.background import Scheduler
from mmtool.replication.background.flow_tasks import duties_of
from mmtool.replication.driver.context import connect
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.driver.notices import NoticeDeduplicator, retried
from mmtool.replication.driver.round import HaltRetry, Round, plan_round, round_ended, round_started
from mmtool.replication.driver.slot_watch import SlotWatch
from mmtool.replication.driver.topic_refresh import TopicRefresher, refuse_idle
from mmtool.replication.driver.waiting_flows import (
    DeferredFlows,
    Reacquirer,
    has_gone_away,
    joined,
    take_first,
)
from mmtool.replication.ownership.limits import refuse_met_topics
from mmtool.replication.pump.report import AWAY, FENCED
from mmtool.replication.spark.log import ended_by, reason_of, spark_is_gone, spark_log
from mmtool.replication.spark.rounds import end_spark, local_master, open_rounds, spark_up
from mmtool.runtime.process import usable_cores
from mmtool.runtime.threads import StopAskedError, came_within, left_behind, unless_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.config.changes import Changes
    from mmtool.replication.background import Duty
    from mmtool.replication.driver.context import Place
    from mmtool.replication.pump.report import ReportRow
    from mmtool.replication.spark.rounds import Rounds

_IDLE_SECONDS = 1.0
_NO_SLOT_SECONDS = 5.0
_FAILURES_IN_A_ROW = 5
_THROTTLE = "mmtool.throttle.bytes.per.second"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long a run lasts, and whether it waits for the lease or for MirrorMaker 2.

    Attributes:
        until_caught_up: Stop when every frontier has passed the source's end seen at the start.
        until: Stop when these frontiers are reached instead, by flow name and partition.
        standby: Wait for the ownership lease without a time limit.
        take_over: Wait until MirrorMaker 2 has stopped, and continue where it stopped.
    """

    until_caught_up: bool = False
    until: Mapping[str, Mapping[Place, int]] | None = None
    standby: bool = False
    take_over: bool = False

    @property
    def has_goal(self) -> bool:
        return self.until_caught_up or self.until is not None


@dataclass(slots=True)
class Engine:
    """Runs flows in one process, one Spark job per round for all of them.

    Attributes:
        settings: The flows.
        options: How long to run.
        stop: Set it to end cleanly.
        tick: Called a few times a second with the runs, for progress.
        say: Called with sentences for the operator.
        heartbeats_only: Pairs of clusters that get heartbeats without a flow.
        ready: Set when this process owns every flow that is not deferred.
        late: The deferred flows.
    """

    settings: Sequence[FlowSettings]
    options: RunOptions
    stop: asyncio.Event
    tick: Callable[[Sequence[FlowRun]], None]
    say: Callable[[str], None]
    heartbeats_only: Sequence[FlowSettings] = ()
    runs: list[FlowRun] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _schedulers: dict[str, Scheduler] = field(default_factory=dict)
    _round: int = 0
    _spark: Rounds | None = None
    _slots: SlotWatch | None = None
    _replan: asyncio.Event = field(default_factory=asyncio.Event)
    _again: HaltRetry = field(default_factory=HaltRetry)
    _topics: TopicRefresher = field(init=False)
    _regaining: Reacquirer = field(init=False)
    _sayings: NoticeDeduplicator = field(init=False)
    late: DeferredFlows = field(init=False)

    def __post_init__(self) -> None:
        self._topics = TopicRefresher(self.runs, self.say)
        self._sayings = NoticeDeduplicator(self.say)
        self._regaining = Reacquirer(self._schedulers, self.say, self._replan, self._taken_late)
        self.late = DeferredFlows(self._begin_late, self.say)

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
        clean = False
        try:
            await self._look()
            starting = left_behind(self._open_spark, "spark")
            await self._take_over()
            await self._set_goals()
            if not self._is_done():
                await self._wait_for_spark(starting)
                await self._rounds(starting)
            clean = True
            if self._is_done():
                for scheduler in self._schedulers.values():
                    await scheduler.finish()
        except StopAskedError:
            clean = self.ready.is_set()
        finally:
            await self.late.stop()
            await self._regaining.stop()
            for scheduler in self._schedulers.values():
                await scheduler.stop()
            ending = asyncio.create_task(end_spark(starting, clean=clean))
            for run in self.runs:
                with suppress(MmtoolError):
                    await run.close(clean=clean)
                self.say(flow_notice(run.name, "stopped", Event.FLOW_STOPPED, clean=clean))
            await ending

    def unowned(self) -> list[str]:
        """The flows that this process does not own now, each with the reason; safe to call from other threads."""
        runs = {run.name: run for run in tuple(self.runs)}
        return [f"{flow.name}: {why}" for flow in self.settings if (why := _unowned(runs.get(flow.name)))]

    # --- before the first round ---------------------------------------------------------------------------

    def _open_spark(self) -> Rounds:
        first = self.settings[0]
        rounds = open_rounds(first.spark_master or local_master(_local_slots()), first.spark_conf)
        self._slots = SlotWatch(
            rounds,
            f"Spark at {first.spark_master}" if first.spark_master else "Spark",
            None if first.spark_master else _local_slots(),
            self.say,
        )
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
            if self._slots is not None and self._slots.tell_none_yet(self.runs):
                for run in self.runs:
                    with suppress(MmtoolError, ConnectionLostError):
                        await run.write_slots()

    async def _look(self) -> None:
        """Connect to every flow's clusters, and run the cheap checks before Spark starts or anything is written."""
        meeting = (unless_stopped(self._meet(flow), self.stop) for flow in self.settings)
        found = await asyncio.gather(*meeting, return_exceptions=True)
        self.runs += [run for run in found if isinstance(run, FlowRun)]
        if self.stop.is_set():
            raise StopAskedError
        self.late.sort(self.settings, found, has_goal=self.options.has_goal)
        await unless_stopped(refuse_met_topics(self.runs), self.stop)
        if self.options.until_caught_up:
            await unless_stopped(refuse_idle(self.runs), self.stop)

    async def _meet(self, flow: FlowSettings) -> FlowRun:
        """Connect to both clusters of a flow, and check that it may be mirrored."""
        run = FlowRun(await connect(flow), take_over=self.options.take_over, beside=self.runs)
        try:
            await run.check(self.say)
            await run.check_topics()
        except BaseException:
            await run.close(clean=False)
            raise
        self.say(flow_notice(run.name, "both clusters answer", Event.FLOW_STARTED))
        return run

    async def _begin_late(self, flow: FlowSettings) -> None:
        run = await self._meet(flow)
        try:
            await run.join(standby=self.options.standby, say=self.say)
            await self._prepare_duties(run)
            await self._own(run)
            await self._catch_up(run)
        except BaseException:
            await run.close(clean=False)
            raise
        self._schedulers[run.name].start()
        self._topics.warn()
        self._replan.set()

    async def _take_over(self) -> None:
        """Become the owner of every flow, while Spark starts; a standby, of the flows whose lease it gets."""
        runs = list(self.runs)  # latecomers become owners by themselves, perhaps meanwhile
        await unless_stopped(self._join(runs), self.stop)
        ours = [run for run in runs if run in self.runs]
        await asyncio.gather(*map(self._prepare_duties, ours))
        for run in ours:
            await unless_stopped(self._own_when_there(run), self.stop)
        self._topics.warn()
        self.ready.set()

    async def _join(self, runs: Sequence[FlowRun]) -> None:
        joining = {run: run.join(standby=self.options.standby, say=self.say) for run in runs}
        ours = await joined(joining, some_will_do=self.options.standby and not self.options.has_goal)
        for run in [run for run in runs if run not in ours]:
            self.runs.remove(run)
            await run.close(clean=False)
            self.late.expect(run.flow.settings)

    async def _own_when_there(self, run: FlowRun) -> None:
        """Claim the flow now or, if a cluster stopped answering since the lease was acquired, in the background."""
        try:
            await self._own(run)
        except (UnreachableError, ConnectionLostError) as error:
            if not await has_gone_away(run, error):
                raise
            if self.options.has_goal:
                raise UnreachableError(
                    f"{run.name}: {error}",
                    remedy=remedy_after(error, BOTH_AWAY),
                ) from error
            self._regaining.begin_unclaimed(run, error)

    async def _prepare_duties(self, run: FlowRun) -> None:
        """Create the periodic work of a flow, and the source topics that belong to it: flows list topics after this."""
        self._schedulers[run.name] = Scheduler(run.name, self._duties(run), self.say)
        await self._schedulers[run.name].open()

    async def _own(self, run: FlowRun) -> None:
        await take_first(run, self.say)
        self._regaining.look_for_sources(run)
        self._tell_owner(run)

    def _taken_late(self, run: FlowRun) -> None:
        self._tell_owner(run)
        self._topics.warn()

    def _tell_owner(self, run: FlowRun) -> None:
        count = len(run.partitions())
        said = f"owner of the flow; {counted(count, 'partition')} to mirror"
        self.say(flow_notice(run.name, said, Event.OWNERSHIP_ACQUIRED, partitions=count))
        if run.flow.settings.throttle_bytes_per_second is not None:
            self._tell_throttle(run)

    def _duties(self, run: FlowRun) -> Sequence[Duty]:
        """The flow's periodic tasks; none for a drain, which is short and must not commit for groups being moved."""
        return () if self.options.until is not None else duties_of(run, self.heartbeats_only, self.say)

    async def _set_goals(self) -> None:
        for run in self.runs:
            if self.options.until is not None:
                run.goal = dict(self.options.until.get(run.name, {}))
            elif self.options.until_caught_up:
                await unless_stopped(run.set_goal(), self.stop)

    # --- other settings ---------------------------------------------------------------------------------

    async def adopt(self, changes: Mapping[str, Changes], heartbeats_only: Sequence[FlowSettings]) -> None:
        """Apply the settings of a changed properties file to the running flows; call it only when `ready`.

        Args:
            changes: The changes, by the name of the flow.
            heartbeats_only: As the attribute.
        """
        self.settings = [changes[flow.name].settings for flow in self.settings]
        self.late.flows.update({name: changes[name].settings for name in self.late.flows})
        beating, self.heartbeats_only = self.heartbeats_only, heartbeats_only
        for run in self.runs:
            await self._change(run, changes[run.name], beats_else=list(beating) != list(heartbeats_only))
        self._topics.soon()

    async def _change(self, run: FlowRun, changes: Changes, *, beats_else: bool) -> None:
        try:
            await run.adopt(changes.settings)
        except (MmtoolError, ConnectionLostError) as error:
            but = f"{retried(error)}; then restart `mmtool replicate`"
            said = f"the changed properties file is in use, except for a part: {but}"
            self.say(flow_notice(run.name, said))
        if beats_else or "background" in changes.concerned:
            self._schedulers[run.name].adopt(self._duties(run))
        if "workers" in changes.concerned:
            self._replan.set()
        if _THROTTLE in changes.applied:
            self._tell_throttle(run)

    async def _catch_up(self, run: FlowRun) -> None:
        """Apply what changed in the file while the flow was starting, then add it to the flows of `adopt`."""
        while (changes := compare(run.flow.settings, self.late.flows[run.name])).applied:
            await self._change(run, changes, beats_else=True)
            self._topics.soon()
        self.runs.append(run)

    def _tell_throttle(self, run: FlowRun) -> None:
        rate = run.flow.settings.throttle_bytes_per_second
        said = "no longer throttled" if rate is None else f"throttled at {human.byte_rate(rate)}"
        said = f"{said} ({_THROTTLE})"
        self.say(flow_notice(run.name, said, Event.THROTTLE_CHANGED, bytes_per_second=rate))

    # --- rounds -------------------------------------------------------------------------------------------

    async def _rounds(self, starting: asyncio.Future[Rounds]) -> None:
        self._spark = starting.result()
        for run in self._present():  # not before: records come first, and Spark's start needs the machine
            self._schedulers[run.name].start()
        failures = 0
        while not self.stop.is_set() and not self._is_done():
            self._regaining.begin_found(self._present())
            await self._regaining.settle()
            if not any(run.loads() for run in self._present()):
                is_filling = any(run.prefills.is_busy for run in self._present())
                if self.options.has_goal and not (self._regaining.is_busy or is_filling):
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

    def _present(self) -> list[FlowRun]:
        """The flows that rounds are planned for."""
        return [run for run in self.runs if run.life.is_claimed]

    async def _idle(self) -> None:
        """Wait a moment while there is nothing to mirror, and refresh the topics if that is due."""
        if self._topics.is_due:
            await unless_stopped(self._topics.look(), self.stop)
        for run in self._present():
            if run.life.phase is FlowPhase.GIVEN_UP:
                self._regaining.begin(run)
        self._show()
        if self._regaining.is_busy:
            await self._regaining.wait(_IDLE_SECONDS)
            return
        await came_within(_IDLE_SECONDS, self.stop.wait())

    async def _round_once(self) -> None:
        self._round += 1
        self._regaining.planned()
        runs, started = self._present(), time.monotonic()
        for run in runs:
            run.retry_halted()
            await self._renew(run)
        assert self._spark is not None
        assert self._slots is not None
        slots = self._slots.plan(sum(len(run.loads()) for run in runs))
        tasks = plan_round(runs, self._round, slots, self._round_seconds())
        this = Round(
            self._round,
            runs,
            self._spark,
            self._topics,
            self._replan,
            self._must_stop,
            self._show,
            self.say,
            self._again,
            self._slots,
        )
        self.say(round_started(self._round, tasks))
        rows, seconds = await this.run(tasks), time.monotonic() - started
        for notice in round_ended(self._round, rows, seconds):
            self.say(notice)
        self._fold(runs, rows, seconds)

    async def _renew(self, run: FlowRun) -> None:
        try:
            await unless_stopped(run.renew_claims(), self.stop)
        except StopAskedError:
            run.life.happen(
                FlowEvent.DOUBT
            )  # some claims are newer than we know of: its shards stay open on record
            raise

    def _must_stop(self) -> bool:
        given_up = any(run.life.phase is FlowPhase.GIVEN_UP for run in self._present())
        return self.stop.is_set() or self._is_done() or given_up or self._regaining.has_failed

    def _show(self) -> None:
        self.tick(self.runs)
        for run in self.runs:
            while run.watch.news:
                self.say(flow_notice(run.name, run.watch.news.pop(0)))

    def _round_seconds(self) -> float:
        return float(min(flow.round_seconds for flow in self.settings))

    def _fold(self, runs: Sequence[FlowRun], rows: Sequence[ReportRow], seconds: float) -> None:
        for run in runs:
            mine = [row for row in rows if row.flow == run.flow.identity.flow]
            self._note_syncs(run, mine)
            told = {row.told for row in mine}
            if not told & {FENCED, AWAY} and run.life.phase is not FlowPhase.GIVEN_UP:
                run.fold(mine, seconds)
            elif self.stop.is_set():
                run.life.happen(FlowEvent.DOUBT)
            else:
                self._regaining.begin(run)

    def _note_syncs(self, run: FlowRun, rows: Iterable[ReportRow]) -> None:
        """Report why the workers could not write offset syncs, each cause once; an end of it is not reported."""
        for why in sorted({row.syncs_failure for row in rows if row.syncs_failure}):
            said = f"offset syncs: {why}; mmtool mirrors without them and keeps trying"
            self._sayings.once(
                f"{run.name} {why}", flow_notice(run.name, said, Event.DUTY_FAILED, duty="offset syncs")
            )

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
        for run in self._present():
            self._regaining.begin(run)

    def _is_done(self) -> bool:
        return self.options.has_goal and all(run.has_reached_goal for run in self.runs)


def _unowned(run: FlowRun | None) -> str:
    phase = START if run is None else run.life.phase
    return "" if phase is FlowPhase.RUNNING else MEANING[phase]


def _local_slots() -> int:
    """The tasks of a round where no Spark master is set: one per two cores, because workers wait on sockets."""
    return max(1, usable_cores() // 2)
