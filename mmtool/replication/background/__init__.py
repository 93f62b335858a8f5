"""Periodic work of a flow's owner beside mirroring: heartbeats, checkpoints, group offsets, configs, ACLs.

The work is that of MirrorMaker 2's scheduled tasks, each with its own interval. It runs in the driver, over the flow's
own connections, and never delays mirroring. A task that fails is reported once and tried again at its next interval.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mmtool.errors import MmtoolError, PartlyAppliedError
from mmtool.events import Event, flow_notice
from mmtool.plan.words import then
from mmtool.replication.driver.notices import retried
from mmtool.runtime.threads import came_within

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence


@dataclass(frozen=True, slots=True)
class Duty:
    """One kind of periodic work.

    Attributes:
        name: Its name in messages, as ``heartbeats``.
        seconds: The interval.
        perform: Performs the task once; the message of an error that it raises is reported.
        extra: When it is performed once more: first, because it creates a topic that flows mirror, before flows list
            their topics; last, before a run ends because it has caught up.
    """

    name: str
    seconds: float
    perform: Callable[[], Coroutine[None, None, None]]
    extra: Literal["", "first", "last"] = ""


class Scheduler:
    """Performs a flow's periodic work until stopped."""

    def __init__(self, flow: str, duties: Sequence[Duty], say: Callable[[str], None]) -> None:
        self._flow = flow
        self._duties = duties
        self._say = say
        self._tasks: list[tuple[str, asyncio.Task[None]]] = []
        self._retired = asyncio.Event()
        self._is_started = False

    async def open(self) -> None:
        """Perform the tasks with a first turn; `start` repeats and reports one that failed."""
        for duty in self._duties:
            if duty.extra == "first":
                with suppress(Exception):
                    await duty.perform()

    def start(self) -> None:
        """Start every task at once; a second call does nothing."""
        if not self._is_started:
            self._is_started = True
            self._begin()

    def adopt(self, duties: Sequence[Duty]) -> None:
        """Replace the tasks by ``duties``.

        A task in the middle of a turn finishes it first, and its successor of the same name waits for that: two turns
        at a time could undo each other's work.
        """
        self._duties = duties
        self._retired.set()
        self._retired = asyncio.Event()
        if self._is_started:
            self._begin()

    def _begin(self) -> None:
        left = [(name, task) for name, task in self._tasks if not task.done()]
        begun = [
            (duty.name, asyncio.create_task(self._repeat(duty, {t for name, t in left if name == duty.name})))
            for duty in self._duties
        ]
        self._tasks = [*left, *begun]

    async def stop(self) -> None:
        """Cancel every task, in the middle of its turn if need be, without the last turn that `finish` makes."""
        tasks = [task for _, task in self._tasks]
        self._tasks, self._is_started = [], False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Stop every task, then perform those with a last turn, at the end of a run with a goal.

        Raises:
            PartlyAppliedError: such a turn failed; all records are mirrored.
        """
        await self.stop()
        for duty in self._duties:
            if duty.extra == "last":
                try:
                    await duty.perform()
                except MmtoolError as error:
                    raise PartlyAppliedError(
                        f"{self._flow}: all records are mirrored, but the last update of {duty.name} failed:"
                        f" {error.message}",
                        remedy=then(error.remedy or "run the same command again"),
                    ) from error

    async def _repeat(self, duty: Duty, before: set[asyncio.Task[None]]) -> None:
        failure, retired = "", self._retired
        if before:
            await asyncio.wait(before)
        while not retired.is_set():
            started = time.monotonic()
            failure = await self._turn(duty, failure)
            await came_within(max(duty.seconds - (time.monotonic() - started), 0.0), retired.wait())

    async def _turn(self, duty: Duty, failure: str) -> str:
        """Perform the task once, and report a new failure; returns the failure, empty if there was none."""
        try:
            await duty.perform()
        except Exception as error:  # noqa: BLE001  whatever it is, the mirror goes on
            why = str(error) or type(error).__name__
            if why != failure:
                said = f"{duty.name}: {retried(error)}; retrying every {duty.seconds:g} s"
                self._say(flow_notice(self._flow, said, Event.DUTY_FAILED, duty=duty.name))
            return why
        if failure:
            self._say(
                flow_notice(self._flow, f"{duty.name}: working again", Event.DUTY_RESUMED, duty=duty.name)
            )
        return ""
