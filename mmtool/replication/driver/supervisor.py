"""Start each flow, and reacquire it when it was lost or its cluster did not answer, beside the rounds of the others.

Every flow is claimed by one coroutine (`FlowSupervisor._claim`), whatever its phase: at the start of the process, when
a deferred flow starts later, and when a claimed flow is in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from mmtool.config import FlowSettings
from mmtool.config.changes import Changes, compare
from mmtool.errors import MmtoolError, UnreachableError, is_away
from mmtool.events import Event, Notice, NoticeDeduplicator, flow_fields, flow_notice
from mmtool.kafka.errors import BOTH_AWAY, awaited
from mmtool.kafka.state.claims import ClaimLostError
from mmtool.kafka.wire.cluster import ConnectionLostError, remedy_after
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import offsets_now
from mmtool.output import human
from mmtool.plan.flow.phases import MEANING, START, FlowEvent, FlowPhase, FlowTransition
from mmtool.plan.records.documents import State
from mmtool.plan.topics.requirements import MISSING_TOPICS
from mmtool.plan.words import counted, retried
from mmtool.replication.background import Duty, Scheduler, duties_of
from mmtool.replication.driver.context import Place, connect
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.driver.timeline import StartStep, Timeline
from mmtool.replication.driver.topic_refresh import TopicRefresher, refuse_idle
from mmtool.replication.ownership.checks import check_led
from mmtool.replication.ownership.limits import refuse_met_topics
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.runtime.threads import StopAskedError, unless_stopped

_AGAIN_SECONDS = 2.0
_TOGETHER_SECONDS = 5.0
"""Leases that one process held become free within this time of each other: each session ends by itself."""
_GRACE_SECONDS = 1.0
_LOOK_SECONDS = 5.0
_THROTTLE = "mmtool.throttle.bytes.per.second"
_LOST = (ClaimLostError, FencedError, InDoubtError)
"""A claim may be lost to an earlier try of this process that a broker handled late; only the group shows the owner."""
_AWAY = (UnreachableError, ConnectionLostError)


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
class FlowSupervisor:
    """Runs the life of each flow of the process, but for its rounds.

    A. Whatever keeps a deferred flow from starting, the others are not disturbed: it is said once, and tried again.
    B. While a flow is reacquired, its periodic work is stopped, and no round is planned for it.

    Attributes:
        settings: The flows.
        options: How long to run.
        stop: Set it to end cleanly.
        say: Called with sentences for the operator.
        heartbeats_only: Pairs of clusters that get heartbeats without a flow.
        runs: The flows that have started.
        ready: Set when this process owns every flow that is not deferred.
        replan: Set when the next round differs: a flow was claimed, has to be recovered, or has other settings.
        topics: Refreshes the topics of the flows.
        failed_over: The flows that do not start because all of their topics have failed over, with the refusal.
        timeline: Of the start.
    """

    settings: Sequence[FlowSettings]
    options: RunOptions
    stop: asyncio.Event
    say: Callable[[str], None]
    heartbeats_only: Sequence[FlowSettings] = ()
    runs: list[FlowRun] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    replan: asyncio.Event = field(default_factory=asyncio.Event)
    topics: TopicRefresher = field(init=False)
    failed_over: dict[str, tuple[FlowSettings, MmtoolError]] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)
    _deferred: dict[str, FlowSettings] = field(default_factory=dict)
    _starting: set[asyncio.Task[None]] = field(default_factory=set)
    _claiming: set[asyncio.Task[None]] = field(default_factory=set)
    _looks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _schedulers: dict[str, Scheduler] = field(default_factory=dict)
    _sayings: NoticeDeduplicator = field(init=False)
    _grace: float = 0.0

    def __post_init__(self) -> None:
        self.topics = TopicRefresher(self.runs, self.say)
        self._sayings = NoticeDeduplicator(self.say)

    def unowned(self) -> list[str]:
        """The flows that this process does not own now, each with the reason; safe to call from other threads."""
        phases = {run.name: run.life.phase for run in tuple(self.runs)}
        of_each = ((flow.name, phases.get(flow.name, START)) for flow in self.settings)
        return [f"{name}: {MEANING[phase]}" for name, phase in of_each if phase is not FlowPhase.RUNNING]

    def present(self) -> list[FlowRun]:
        """The flows that rounds are planned for."""
        return [run for run in self.runs if run.life.is_claimed]

    # --- the start of the process -------------------------------------------------------------------------

    async def meet(self) -> None:
        """Connect to every flow's clusters, and run the cheap checks before Spark starts or anything is written.

        Flows that cannot start now are deferred, where the other flows need not wait for them.

        Raises:
            MmtoolError: a flow cannot start, and the others must not start without it.
            StopAskedError: the stop came first.
        """
        meeting = (unless_stopped(self._meet(flow), self.stop) for flow in self.settings)
        met = await asyncio.gather(*meeting, return_exceptions=True)
        self.runs += [run for run in met if isinstance(run, FlowRun)]
        if self.stop.is_set():
            raise StopAskedError
        for flow, failure in zip(self.settings, met, strict=True):
            if isinstance(failure, BaseException):
                self._defer(flow, failure)
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

    def _defer(self, flow: FlowSettings, failure: BaseException) -> None:
        """Start the other flows without this one, which could not be connected or checked; a goal waits for none.

        Raises:
            BaseException: the failure, where the others must not start without the flow.
        """
        if self.runs and has_failed_over(failure):
            self.failed_over[flow.name] = flow, failure
            said = f"{failure.message}; {failure.remedy}; starting the other flows"
            self.say(Notice(said, Event.FLOW_DEFERRED, **flow_fields(flow.name), code=failure.code))
        elif self.runs and is_away(failure) and not self.options.has_goal:
            said = f"{retried(failure)}; this flow starts when the cluster answers; starting the other flows"
            self.say(flow_notice(flow.name, said, Event.FLOW_DEFERRED, code=failure.code))
        elif self.options.has_goal or getattr(failure, "code", "") != MISSING_TOPICS:
            raise failure
        if not self.options.has_goal:
            self._expect(flow)

    def _expect(self, flow: FlowSettings) -> None:
        self._deferred[flow.name] = flow
        self._starting.add(asyncio.create_task(self._start_late(flow.name)))

    async def take(self) -> None:
        """Become the owner of every flow, while Spark starts; a standby, of the flows whose lease it gets.

        Raises:
            MmtoolError: a flow cannot be joined or claimed.
            StopAskedError: the stop came first.
        """
        runs = list(self.runs)  # deferred flows become owned by themselves, perhaps meanwhile
        await unless_stopped(self._join(runs), self.stop)
        self.timeline.note(StartStep.LEASE)
        ours = [run for run in runs if run in self.runs]
        await asyncio.gather(*map(self._open_duties, ours))
        for run in ours:
            await unless_stopped(self._claim_first(run), self.stop)
        self.timeline.note(StartStep.RECOVERY)
        self.topics.warn()
        self.ready.set()

    async def _join(self, runs: Sequence[FlowRun]) -> None:
        """Acquire the lease of every flow; for a standby without a goal the first leases are enough.

        Of two processes that each hold one lease and wait for the other's, neither would run anything. The flows whose
        lease another process holds are deferred.

        Raises:
            MmtoolError: the ownership group of a flow cannot be joined.
        """
        if not runs:
            return
        join = {asyncio.ensure_future(r.join(standby=self.options.standby, say=self.say)): r for r in runs}
        some_will_do = self.options.standby and not self.options.has_goal
        try:
            enough = asyncio.FIRST_COMPLETED if some_will_do else asyncio.FIRST_EXCEPTION
            done, left = await asyncio.wait(join, return_when=enough)
            if left and not any(task.exception() for task in done):
                done, left = await asyncio.wait(join, timeout=_TOGETHER_SECONDS)
            for task in done:
                task.result()
        finally:
            for task in join:
                task.cancel()
            await asyncio.gather(*join, return_exceptions=True)
        for run in [run for task, run in join.items() if task in left]:
            self.runs.remove(run)
            await run.close(clean=False)
            self._expect(run.flow.settings)

    async def _claim_first(self, run: FlowRun) -> None:
        """Claim the flow now or, if a cluster stopped answering since the lease was acquired, in the background.

        If both clusters answer, the cause may last, for instance a partition without a leader. In the background no
        batch of this process can be in doubt: only what the last owner left open is fenced.
        """
        try:
            await self._claim(run, waits=False)
        except _AWAY as error:
            if not isinstance(error, ConnectionLostError) and (
                not is_away(error) or await run.flow.answers()
            ):
                raise
            if self.options.has_goal:
                remedy = remedy_after(error, BOTH_AWAY)
                raise UnreachableError(f"{run.name}: {error}", remedy=remedy) from error
            self._tell_away(run, error)
            self._claim_beside(run)

    # --- a deferred flow ----------------------------------------------------------------------------------

    async def _start_late(self, name: str) -> None:
        """Try to start a deferred flow every two seconds, from its first connection to its place in a round."""
        while name in self._deferred:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                run = await self._meet(self._deferred[name])
                try:
                    await run.join(standby=self.options.standby, say=self.say)
                    await self._open_duties(run)
                    await self._claim(run, waits=False)
                    # apply what changed in the file meanwhile; from then on `adopt` reaches the flow
                    while (changes := compare(run.flow.settings, self._deferred[name])).applied:
                        await self._change(run, changes, beats_else=True)
                        self.topics.soon()
                except BaseException:
                    await run.close(clean=False)
                    raise
            except Exception as error:  # noqa: BLE001  whatever it is, it may pass, and nobody else tries
                is_known = has_failed_over(error) and name in self.failed_over
                if not (isinstance(error, ConnectionLostError) or is_away(error) or is_known):
                    said = f"cannot start yet: {retried(error)}; mmtool retries every {_AGAIN_SECONDS:g} s"
                    self._sayings.once(name, flow_notice(name, said, Event.FLOW_DEFERRED))
            else:
                self.runs.append(run)
                del self._deferred[name]
                self.failed_over.pop(name, None)
                self._schedulers[name].start()
                self.topics.warn()
                self.replan.set()

    # --- claims -------------------------------------------------------------------------------------------

    async def _claim(self, run: FlowRun, *, waits: bool) -> None:
        """Claim a flow under its lease, for the first time or in doubt, and report it.

        Args:
            run: The flow.
            waits: Also wait for clusters that do not answer, with the flow's periodic work stopped meanwhile.

        Raises:
            MmtoolError: the flow cannot be claimed, for instance because another process owns it now.
            UnreachableError, ConnectionLostError: a cluster does not answer; not if ``waits``.
        """
        name, is_first = run.name, not run.life.is_in_doubt
        claimed = await self._taken(run, waits=waits)
        self._sayings.is_well(name)
        if run.standing.later:
            self._looks[name] = asyncio.create_task(self._look(run))
        if is_first:
            is_external = run.flow.settings.is_external
            count = len(run.view.places if is_external else run.partitions())
            does = "that another system mirrors" if is_external else "to mirror"
            said = f"owner of the flow; {counted(count, 'partition')} {does}"
            self.say(flow_notice(name, said, Event.OWNERSHIP_ACQUIRED, partitions=count))
            if run.flow.settings.throttle_bytes_per_second is not None:
                self._tell_throttle(run)
        else:
            self.say(flow_notice(name, claimed.sentence, Event.OWNERSHIP_REACQUIRED))
        if waits and is_first:
            self.topics.warn()
        if waits:
            self._schedulers[name].start()
            self.replan.set()

    async def _taken(self, run: FlowRun, *, waits: bool) -> FlowTransition:
        """Try until the claim holds; as `_claim`."""
        while True:
            try:
                if waits:
                    await self._schedulers[run.name].stop()
                    await check_led(run.flow)
                if waits or not run.life.is_leased:
                    await run.ownership.again()
                # while the source does not answer nothing is fenced: a fence leaves a marker in each mirror
                await run.matches()
                claimed = await run.take_to_mirror()
            except _AWAY as away:
                if not waits:
                    raise
                self._tell_away(run, away)
            except _LOST as lost:  # the clusters answer, and another process may have no part in it
                said = f"the flow could not be claimed: {lost}; mmtool keeps trying"
                self._sayings.once(run.name, flow_notice(run.name, said, Event.OWNERSHIP_LOST))
            else:
                return claimed
            await asyncio.sleep(_AGAIN_SECONDS)

    def lose(self, run: FlowRun, event: FlowEvent = FlowEvent.DOUBT) -> None:
        """Reacquire, in the background, a flow that this process lost or whose batches are in doubt."""
        self.say(flow_notice(run.name, run.life.happen(event).sentence, Event.OWNERSHIP_LOST))
        self._claim_beside(run)

    def _claim_beside(self, run: FlowRun) -> None:
        self._grace = _GRACE_SECONDS
        if look := self._looks.pop(run.name, None):
            look.cancel()
        self._claiming.add(asyncio.create_task(self._claim(run, waits=True)))

    def _tell_away(self, run: FlowRun, away: Exception) -> None:
        self._sayings.once(run.name, flow_notice(run.name, awaited(away), Event.CLUSTER_AWAY))

    @property
    def is_busy(self) -> bool:
        """Whether any flow is being claimed beside the rounds."""
        return bool(self._claiming)

    @property
    def has_failed(self) -> bool:
        """Whether a flow cannot be reacquired; `wait` raises the reason."""
        return any(task.done() and not task.cancelled() and task.exception() for task in self._claiming)

    async def settle(self) -> None:
        """Wait up to a second for flows that were just lost; most are reacquired at once, without a pause.

        Raises:
            MmtoolError: as `wait`.
        """
        grace, self._grace = self._grace, 0.0
        await self.wait(grace)

    async def wait(self, seconds: float) -> None:
        """Wait until all flows are reacquired, but not longer than ``seconds``.

        Raises:
            MmtoolError: a flow cannot be reacquired, for instance because another process owns it now.
        """
        if self._claiming:
            done, self._claiming = await asyncio.wait(self._claiming, timeout=seconds)
            for task in done:
                task.result()

    # --- partitions whose source is away ------------------------------------------------------------------

    async def _look(self, run: FlowRun) -> None:
        """Watch the source partitions for which a claimed flow deferred recovery, until one is back or deleted."""
        while awaited_ones := run.standing.awaited:
            await asyncio.sleep(_LOOK_SECONDS)
            source = run.flow.source
            try:
                await source.refresh({about.source_topic for about in awaited_ones})
            except (ConnectionLostError, MmtoolError):
                continue
            ends = dict.fromkeys((about.upstream for about in awaited_ones), LATEST)
            led = await offsets_now(source, ends, _LOOK_SECONDS)
            if led or any(source.topic_id(a.source_topic) != a.topic_id for a in awaited_ones):
                break
        self.replan.set()

    def planned(self) -> None:
        """Clear the replan event for a round that is planned now; it stays set while a flow is to be recovered."""
        if not any(look.done() for look in self._looks.values()):
            self.replan.clear()

    def recover_found(self) -> None:
        """Recover again, between rounds, the flows with a deferred source partition that is back or deleted."""
        for run in self.present():
            look = self._looks.get(run.name)
            if look is not None and look.done():
                look.result()
                self.lose(run, FlowEvent.SOURCE_BACK)

    # --- periodic work, and other settings ----------------------------------------------------------------

    async def _open_duties(self, run: FlowRun) -> None:
        """Create the periodic work of a flow, and the source topics that belong to it: flows list topics after this."""
        self._schedulers[run.name] = Scheduler(run.name, self._duties(run), self.say)
        await self._schedulers[run.name].open()

    def start_duties(self) -> None:
        """Start the periodic work; not before Spark: records come first, and its start needs the machine."""
        for run in self.present():
            self._schedulers[run.name].start()

    def _duties(self, run: FlowRun) -> Sequence[Duty]:
        """The flow's periodic tasks; none for a drain, which is short and must not commit for groups being moved."""
        return () if self.options.until is not None else duties_of(run, self.heartbeats_only, self.say)

    async def finish(self) -> None:
        """Stop the periodic work with its last turn, at the end of a run with a goal.

        Raises:
            PartlyAppliedError: such a turn failed; all records are mirrored.
        """
        for scheduler in self._schedulers.values():
            await scheduler.finish()

    async def end(self) -> None:
        """Cancel what goes on beside the rounds; the flows stay as they are."""
        left = [*self._starting, *self._claiming, *self._looks.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for scheduler in self._schedulers.values():
            await scheduler.stop()

    async def adopt(self, changes: Mapping[str, Changes], heartbeats_only: Sequence[FlowSettings]) -> None:
        """Apply the settings of a changed properties file to the running flows; call it only when `ready`.

        Args:
            changes: The changes, by the name of the flow.
            heartbeats_only: As the attribute.
        """
        self.settings = [changes[flow.name].settings for flow in self.settings]
        self._deferred.update({name: changes[name].settings for name in self._deferred})
        beating, self.heartbeats_only = self.heartbeats_only, heartbeats_only
        for run in self.runs:
            await self._change(run, changes[run.name], beats_else=list(beating) != list(heartbeats_only))
        self.topics.soon()

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
            self.replan.set()
        if _THROTTLE in changes.applied:
            self._tell_throttle(run)

    def _tell_throttle(self, run: FlowRun) -> None:
        rate = run.flow.settings.throttle_bytes_per_second
        said = "no longer throttled" if rate is None else f"throttled at {human.byte_rate(rate)}"
        said = f"{said} ({_THROTTLE})"
        self.say(flow_notice(run.name, said, Event.THROTTLE_CHANGED, bytes_per_second=rate))


def has_failed_over(error: object) -> TypeGuard[MmtoolError]:
    """Whether the error refuses a flow because all of its topics have failed over; a release lets it start."""
    return isinstance(error, MmtoolError) and error.code == State.FAILED_OVER
