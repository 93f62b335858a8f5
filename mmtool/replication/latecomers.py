"""Flows one of whose clusters is away when the process starts: the others do not wait for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeGuard

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication.looking import Sayings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mmtool.config import FlowSettings

_AGAIN_SECONDS = 2.0


class Latecomers:
    """Tries each of them every two seconds, beside those that run.

    A. Whatever keeps one from beginning, the others are not disturbed: it is said once, and tried again.

    Args:
        begin: Begins a flow, from its first connection to its first place in a round.
        say: Called with sentences for the operator.

    Attributes:
        flows: Those that are still expected, by name.
    """

    def __init__(self, begin: Callable[[FlowSettings], Awaitable[None]], say: Callable[[str], None]) -> None:
        self._begin = begin
        self._say = say
        self._sayings = Sayings(say)
        self._tasks: set[asyncio.Task[None]] = set()
        self.flows: dict[str, FlowSettings] = {}

    def expect(self, flow: FlowSettings, why: MmtoolError) -> None:
        """It begins when its clusters answer."""
        self._say(f"{flow.name}: {why.message}; this flow begins when it does, the others begin now")
        self.flows[flow.name] = flow
        self._tasks.add(asyncio.create_task(self._await(flow.name)))

    async def stop(self) -> None:
        """Waits for none of them any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _await(self, name: str) -> None:
        while name in self.flows:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self._begin(self.flows[name])
            except (MmtoolError, ConnectionLostError) as error:
                if isinstance(error, MmtoolError) and not is_away(error):
                    self._sayings.once(name, f"{name}: cannot begin yet: {error.message}")
            else:
                del self.flows[name]


def is_away(error: object) -> TypeGuard[UnreachableError]:
    """Whether a cluster does not answer at all: that may pass, while a missing right must be granted."""
    return isinstance(error, UnreachableError) and not isinstance(error, NotAuthorisedError)
