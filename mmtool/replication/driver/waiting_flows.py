"""Flows that do not run yet, or not any more: each waits for its own clusters, its lease or another process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeGuard

from mmtool.errors import MmtoolError, UnreachableError, is_away
from mmtool.events import Event, Notice, flow_fields, flow_notice
from mmtool.kafka.state.claims import ClaimLostError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import offsets_now
from mmtool.plan.flow.phases import FlowEvent
from mmtool.plan.records.documents import State
from mmtool.replication.driver.notices import NoticeDeduplicator, awaited, retried
from mmtool.replication.pump.in_flight import FencedError, InDoubtError
from mmtool.replication.recovery.state_loss import check_led

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.plan.flow.phases import FlowTransition
    from mmtool.replication.background import Scheduler
    from mmtool.replication.driver.flow_run import FlowRun


_AGAIN_SECONDS = 2.0
_TOGETHER_SECONDS = 5.0
"""Leases that one process held become free within this time of each other: each session ends by itself."""


class DeferredFlows:
    """Tries to start each deferred flow every two seconds, beside the flows that run.

    A. Whatever keeps one from beginning, the others are not disturbed: it is said once, and tried again.

    Args:
        begin: Begins a flow, from its first connection to its first place in a round.
        say: Called with sentences for the operator.

    Attributes:
        flows: The flows that have not started, by name.
        failed_over: The flows that do not start because all of their topics have failed over, with the refusal.
    """

    def __init__(self, begin: Callable[[FlowSettings], Awaitable[None]], say: Callable[[str], None]) -> None:
        self._begin = begin
        self._say = say
        self._sayings = NoticeDeduplicator(say)
        self._tasks: set[asyncio.Task[None]] = set()
        self.flows: dict[str, FlowSettings] = {}
        self.failed_over: dict[str, tuple[FlowSettings, MmtoolError]] = {}

    def sort(
        self,
        flows: Sequence[FlowSettings],
        found: Sequence[FlowRun | BaseException],
        *,
        has_goal: bool,
    ) -> None:
        """Defer the flows that cannot start now, where the other flows need not wait for them.

        Args:
            flows: All flows of the run.
            found: For each flow its run, or the error with which it could not be connected or checked.
            has_goal: Whether the run ends by itself: then it waits for no deferred flow.

        Raises:
            BaseException: a flow cannot start, and the others must not start without it.
        """
        some_run = not all(isinstance(one, BaseException) for one in found)
        for flow, failure in zip(flows, found, strict=True):
            if not isinstance(failure, BaseException):
                continue
            if some_run and has_failed_over(failure):
                self.failed_over[flow.name] = flow, failure
                said = f"{failure.message}; {failure.remedy}; starting the other flows"
                self._say(Notice(said, Event.FLOW_DEFERRED, **flow_fields(flow.name), code=failure.code))
            elif not (some_run and is_away(failure) and not has_goal):
                raise failure
            else:
                said = (
                    f"{retried(failure)}; this flow starts when the cluster answers; starting the other flows"
                )
                self._say(flow_notice(flow.name, said, Event.FLOW_DEFERRED, code=failure.code))
            if not has_goal:
                self.expect(flow)

    def expect(self, flow: FlowSettings) -> None:
        """Try to start the flow every two seconds, in the background, until that succeeds."""
        self.flows[flow.name] = flow
        self._tasks.add(asyncio.create_task(self._await(flow.name)))

    async def stop(self) -> None:
        """Cancel the attempts to start deferred flows."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _await(self, name: str) -> None:
        while name in self.flows:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self._begin(self.flows[name])
            except Exception as error:  # noqa: BLE001  whatever it is, it may pass, and nobody else tries
                is_known = has_failed_over(error) and name in self.failed_over
                if not (isinstance(error, ConnectionLostError) or is_away(error) or is_known):
                    said = flow_notice(
                        name,
                        f"cannot start yet: {retried(error)}; mmtool retries every {_AGAIN_SECONDS:g} s",
                        Event.FLOW_DEFERRED,
                    )
                    self._sayings.once(name, said)
            else:
                del self.flows[name]
                self.failed_over.pop(name, None)


async def joined(
    joining: Mapping[FlowRun, Coroutine[Any, Any, None]], *, some_will_do: bool
) -> Collection[FlowRun]:
    """The flows whose leases were acquired; the others' attempts are cancelled.

    Args:
        joining: The coroutine that acquires the lease, by flow.
        some_will_do: Whether the first lease is enough: of two processes that each hold one lease and wait for the
            other's, neither would run anything.

    Raises:
        MmtoolError: the ownership group of a flow cannot be joined.
    """
    if not joining:
        return ()
    tasks = {asyncio.ensure_future(work): run for run, work in joining.items()}
    try:
        enough = asyncio.FIRST_COMPLETED if some_will_do else asyncio.FIRST_EXCEPTION
        done, left = await asyncio.wait(tasks, return_when=enough)
        if left and not any(task.exception() for task in done):
            done, _ = await asyncio.wait(tasks, timeout=_TOGETHER_SECONDS)
        for task in done:
            task.result()
        return [tasks[task] for task in done]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def has_gone_away(run: FlowRun, error: Exception) -> bool:
    """Whether a connected flow could not be claimed because a cluster has stopped answering.

    If both clusters answer, the cause may last, for instance a partition without a leader.
    """
    return isinstance(error, ConnectionLostError) or (is_away(error) and not await run.flow.answers())


def has_failed_over(error: object) -> TypeGuard[MmtoolError]:
    """Whether the error refuses a flow because all of its topics have failed over; a release lets it start."""
    return isinstance(error, MmtoolError) and error.code == State.FAILED_OVER


_LOST = (ClaimLostError, FencedError, InDoubtError)
"""A claim may be lost to an earlier try of this process that a broker handled late; only the group shows the owner."""
_AWAY = (UnreachableError, ConnectionLostError)
_GRACE_SECONDS = 1.0
_LOOK_SECONDS = 5.0


async def take_first(run: FlowRun, say: Callable[[str], None]) -> None:
    """Claim a flow for the first time, under its lease; retry when the lease or a claim is lost meanwhile.

    Raises:
        MmtoolError, ConnectionLostError: the flow cannot be claimed, or a cluster does not answer.
    """
    while True:
        if not run.life.is_leased:
            await run.ownership.again()
        await (
            run.matches()
        )  # while the source does not answer nothing is claimed, as when a flow is reacquired
        try:
            await run.take_to_mirror()
        except _LOST as lost:
            say(_not_claimed(run, lost))
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return


def _not_claimed(run: FlowRun, lost: Exception) -> str:
    """The notice of a claim that did not hold; the clusters answer, and another process may have no part in it."""
    return flow_notice(
        run.name, f"the flow could not be claimed: {lost}; mmtool keeps trying", Event.OWNERSHIP_LOST
    )


class Reacquirer:
    """Reacquires flows beside the rounds of the others.

    Args:
        schedulers: The periodic work of each flow, which pauses meanwhile.
        say: Called with sentences for the operator.
        regained: Set when a flow was reacquired, or has to be: the next round differs.
        begun: Called when a flow was claimed for the first time.
    """

    def __init__(
        self,
        schedulers: Mapping[str, Scheduler],
        say: Callable[[str], None],
        regained: asyncio.Event,
        begun: Callable[[FlowRun], None],
    ) -> None:
        self._begun = begun
        self._schedulers = schedulers
        self._say = say
        self._regained = regained
        self._tasks: set[asyncio.Task[None]] = set()
        self._sayings = NoticeDeduplicator(say)
        self._grace = 0.0
        self._looks: dict[str, asyncio.Task[None]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether any flow is being reacquired."""
        return bool(self._tasks)

    @property
    def has_failed(self) -> bool:
        """Whether a flow cannot be reacquired; `wait` raises the reason."""
        return any(task.done() and not task.cancelled() and task.exception() for task in self._tasks)

    def begin(self, run: FlowRun) -> None:
        """Reacquire, in the background, a flow that this process lost or whose batches are in doubt."""
        self._tell_doubt(run, FlowEvent.DOUBT)
        self._begin(run)

    def begin_unclaimed(self, run: FlowRun, away: Exception) -> None:
        """Claim a flow for the first time, in the background, once the cluster that stopped answering is back.

        No batch of this process can be in doubt: only what the last owner left open is fenced.

        Args:
            run: The flow, whose lease this process holds.
            away: The error that kept it from being claimed.
        """
        self._tell_away(run, away)
        self._begin(run)

    def _begin(self, run: FlowRun) -> None:
        self._grace = _GRACE_SECONDS
        if look := self._looks.pop(run.name, None):
            look.cancel()
        self._tasks.add(asyncio.create_task(self._regain(run)))

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
        if self._tasks:
            done, self._tasks = await asyncio.wait(self._tasks, timeout=seconds)
            for task in done:
                task.result()

    async def stop(self) -> None:
        """Cancel all reacquisitions and all waits for source partitions; the flows stay as they are."""
        left = [*self._tasks, *self._looks.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._tasks.clear()
        self._looks.clear()

    # --- partitions whose source is away ------------------------------------------------------------------

    def look_for_sources(self, run: FlowRun) -> None:
        """Watch the source partitions for which a claimed flow deferred recovery (`OwnedState.later`), if any."""
        if run.standing.later:
            self._looks[run.name] = asyncio.create_task(self._look(run))

    @property
    def has_found(self) -> bool:
        """Whether `begin_found` has a flow to recover again."""
        return any(look.done() for look in self._looks.values())

    def planned(self) -> None:
        """Clear the replan event for a round that is planned now; it stays set while `has_found`."""
        if not self.has_found:
            self._regained.clear()

    def begin_found(self, runs: Iterable[FlowRun]) -> None:
        """Recover again, between rounds, the flows with a deferred source partition that is back or deleted."""
        for run in runs:
            look = self._looks.get(run.name)
            if look is not None and look.done():
                look.result()
                self._tell_doubt(run, FlowEvent.SOURCE_BACK)
                self._begin(run)

    async def _look(self, run: FlowRun) -> None:
        while awaited := run.standing.awaited:
            await asyncio.sleep(_LOOK_SECONDS)
            source = run.flow.source
            try:
                await source.refresh({about.source_topic for about in awaited})
            except (ConnectionLostError, MmtoolError):
                continue
            ends = dict.fromkeys((about.upstream for about in awaited), LATEST)
            led = await offsets_now(source, ends, _LOOK_SECONDS)
            gone = [a for a in awaited if source.topic_id(a.source_topic) != a.topic_id]
            if led or gone:
                break
        self._regained.set()

    async def _regain(self, run: FlowRun) -> None:
        is_first = not run.life.is_in_doubt
        while True:
            try:
                claimed = await self._take_again(run)
            except _AWAY as away:
                self._tell_away(run, away)
                await asyncio.sleep(_AGAIN_SECONDS)
            except _LOST as lost:
                self._sayings.once(run.name, _not_claimed(run, lost))
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                break
        self._sayings.is_well(run.name)
        self.look_for_sources(run)
        if is_first:
            self._begun(run)
        else:
            self._say(flow_notice(run.name, claimed.sentence, Event.OWNERSHIP_REACQUIRED))
        self._regained.set()

    def _tell_doubt(self, run: FlowRun, event: FlowEvent) -> None:
        self._say(flow_notice(run.name, run.life.happen(event).sentence, Event.OWNERSHIP_LOST))

    def _tell_away(self, run: FlowRun, away: Exception) -> None:
        self._sayings.once(run.name, flow_notice(run.name, awaited(away), Event.CLUSTER_AWAY))

    async def _take_again(self, run: FlowRun) -> FlowTransition:
        await self._schedulers[run.name].stop()
        await check_led(run.flow)
        await run.ownership.again()
        # while the source does not answer nothing is fenced: a fence leaves a marker in each mirror
        await run.matches()
        claimed = await run.take_to_mirror()
        self._schedulers[run.name].start()
        return claimed
