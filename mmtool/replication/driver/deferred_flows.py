"""Deferred flows: a cluster does not answer, all topics have failed over, or another process owns the flow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeGuard

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.events import Event, Notice, flow_fields, flow_notice
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.records.documents import State
from mmtool.replication.driver.notices import NoticeDeduplicator, retried

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence

    from mmtool.config import FlowSettings
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


def is_away(error: object) -> TypeGuard[UnreachableError]:
    """Whether the error says that a cluster does not answer, which may pass; a denied right does not."""
    return isinstance(error, UnreachableError) and not isinstance(error, NotAuthorisedError)


async def has_gone_away(run: FlowRun, error: Exception) -> bool:
    """Whether a connected flow could not be claimed because a cluster has stopped answering.

    If both clusters answer, the cause may last, for instance a partition without a leader.
    """
    return isinstance(error, ConnectionLostError) or (is_away(error) and not await run.flow.answers())


def has_failed_over(error: object) -> TypeGuard[MmtoolError]:
    """Whether the error refuses a flow because all of its topics have failed over; a release lets it start."""
    return isinstance(error, MmtoolError) and error.code == State.FAILED_OVER
