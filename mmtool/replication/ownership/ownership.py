"""The ownership of a flow: its lease, and its phase in this process."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from os import getpid
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, OwnedElsewhereError
from mmtool.events import Event, Notice, flow_fields
from mmtool.kafka.clients import CLIENT_ID
from mmtool.kafka.groups.lease import (
    LOOK_SECONDS,
    NOBODY_WAITS_SECONDS,
    GroupLease,
    LeaseWait,
    lease_holder,
    not_let_in,
    waits,
)
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import (
    CLAIMED,
    IN_DOUBT,
    LEASED,
    START,
    FlowEvent,
    FlowPhase,
    FlowTransition,
    advance,
)
from mmtool.plan.records.identity import owner_client
from mmtool.runtime.threads import came_within, in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mmtool.config import ClusterSettings
    from mmtool.plan.flow.status import FlowMember
    from mmtool.replication.driver.context import FlowContext


class FlowLife:
    """Changes phases by `mmtool.plan.flow.phases.TABLE`, on the event loop. Other threads may read `phase`.

    A. Rounds are planned for a flow, and its shards recorded as closed, only while they are claimed and not in doubt.
    B. Once claimed, a flow is claimed again only in doubt: every shard is fenced.

    Attributes:
        phase: The flow's current phase.
        leased: Set while this process holds the ownership lease.
    """

    def __init__(self, phase: FlowPhase = START) -> None:
        self.phase = phase
        self.leased = asyncio.Event()
        self._show_lease()

    def happen(self, event: FlowEvent) -> FlowTransition:
        """Move the flow to the next phase that the table gives for the event; returns the transition.

        Raises:
            IllegalFlowEventError: the table has no such row; nothing has changed.
        """
        transition = advance(self.phase, event)
        self.phase = transition.next
        self._show_lease()
        return transition

    def _show_lease(self) -> None:
        (self.leased.set if self.is_leased else self.leased.clear)()

    @property
    def is_leased(self) -> bool:
        """Whether this process holds the ownership lease."""
        return self.phase in LEASED

    @property
    def is_claimed(self) -> bool:
        """Whether rounds are planned for the flow."""
        return self.phase in CLAIMED

    @property
    def is_in_doubt(self) -> bool:
        """Whether this process may have appended batches that the flow's stored state does not contain."""
        return self.phase in IN_DOUBT


_SILENT_SECONDS = 2.0
_FAILURE_LOOK_SECONDS = 0.2


class Ownership:
    """The lease by which this process runs one flow.

    Args:
        flow: The flow.
        life: Its phase, which this moves as the lease comes and goes.

    A. A lost lease ends nothing by itself: its coordinator may have died. The next owner fences before it writes, so
       that what is mirrored meanwhile is mirrored once or refused.
    """

    def __init__(self, flow: FlowContext, life: FlowLife) -> None:
        self._life = life
        self._target = flow.target
        self._identity = identity = flow.identity
        self._loop = asyncio.get_running_loop()
        self._lease = GroupLease(
            flow.settings.target,
            identity.ownership_group,
            identity.control_topic,
            # another process reports the owner by it
            f"{CLIENT_ID}{owner_client(socket.gethostname(), getpid())}",
            self._changed,
        )
        self._keeping: asyncio.Task[None] | None = None

    async def acquire(self, *, standby: bool, say: Callable[[str], None]) -> None:
        """Join the ownership group, and wait for the lease: as long as `LeaseWait` allows; a standby without limit.

        If it has to wait, ``say`` is called with the process that holds the lease.

        Raises:
            OwnedElsewhereError: a live member holds the lease; the message names it.
            UnreachableError, NotAuthorisedError: the group cannot be joined.
        """
        self._life.happen(FlowEvent.JOIN)
        waiting = LeaseWait(self._loop.time())
        # before our own joining hides it for some seconds
        waiting.saw(await self._holder(), waiting.began)
        self._lease.start()
        with suppress(TimeoutError):
            await self._wait(_SILENT_SECONDS)
            return
        owner = await self._holder()
        until = "until that process ends" if standby and owner else waits(owner)
        name = self._identity.name
        said = f"flow {name} {f'is run by {owner}' if owner else 'has no owner yet'}; waiting {until}"
        say(Notice(said, Event.OWNERSHIP_AWAITED, **flow_fields(name), owner=str(owner or "")))
        if standby:
            await self._wait(None)
        elif not await self._held_by(waiting, self._holder):
            await self.release()
            if waiting.holder is None:
                raise not_let_in(self._target.alias, self._identity.ownership_group)
            raise OwnedElsewhereError(
                f"flow {name} is run by {waiting.holder}",
                remedy="stop that process; or start `mmtool replicate -c FILE --standby`, which takes over when that"
                " process ends",
            )

    async def again(self) -> None:
        """Wait until this process holds the lease again, also while no member holds it after an outage.

        Raises:
            OwnedElsewhereError: another process holds the lease now.
            UnreachableError: the cluster does not report the lease's holder.
        """
        waiting = LeaseWait(self._loop.time())
        self._lease.start()
        while not await self._held_by(waiting, self._other):
            if waiting.holder is not None:
                raise OwnedElsewhereError(
                    f"lost ownership of flow {self._identity.name} to {waiting.holder}: this process was suspended or"
                    " disconnected for longer than the session timeout of 10 s",
                    remedy="to take over when that process ends, start `mmtool replicate -c FILE --standby`",
                )
            self._lease.start()

    def renew_credentials(self, target: ClusterSettings) -> None:
        """Use other credentials for the lease; it is not lost by that."""
        self._lease.renew_credentials(target)

    def claimed(self) -> FlowTransition:
        """Move the flow to its next phase, after its shards were claimed and its stored state was recovered."""
        transition = self._life.happen(FlowEvent.CLAIM)
        self._keep_asking()
        return transition

    def _keep_asking(self) -> None:
        if self._life.is_leased or self._life.phase is FlowPhase.CLOSED:
            return
        if self._keeping is None or self._keeping.done():
            self._keeping = self._loop.create_task(self._keep())

    async def _keep(self) -> None:
        """Asks for the lease until it is held, another process holds it, or the group admits no owner for a minute."""
        until = self._loop.time() + NOBODY_WAITS_SECONDS
        while self._loop.time() < until:
            self._lease.start()
            if await came_within(LOOK_SECONDS, self._life.leased.wait()):
                return
            with suppress(
                MmtoolError, ConnectionLostError
            ):  # an unanswered question has named no other holder
                if await self._other() is not None:
                    break
        if self._life.phase is FlowPhase.LOST:  # otherwise `again` waits for the lease, and judges it
            self._life.happen(FlowEvent.GIVE_UP)

    async def _held_by(self, waiting: LeaseWait, holder: Callable[[], Awaitable[FlowMember | None]]) -> bool:
        """Whether the lease is acquired before the wait is over; ``holder`` returns its holder meanwhile."""
        while True:
            with suppress(TimeoutError):
                await self._wait(LOOK_SECONDS)
                return True
            if waiting.ends(await holder(), self._loop.time()):
                return False

    async def _wait(self, seconds: float | None) -> None:
        waiting = asyncio.create_task(self._life.leased.wait())
        try:
            async with asyncio.timeout(seconds):
                while not waiting.done():
                    await asyncio.wait({waiting}, timeout=_FAILURE_LOOK_SECONDS)
                    if self._lease.failure is not None and not waiting.done():
                        raise self._lease.failure
        finally:
            waiting.cancel()

    async def _holder(self) -> FlowMember | None:
        return await lease_holder(self._target, self._identity.ownership_group)

    async def _other(self) -> FlowMember | None:
        return self._lease.other(await self._holder())

    async def release(self) -> None:
        """Leave the ownership group and move the flow to the phase CLOSED."""
        self._life.happen(FlowEvent.CLOSE)
        if self._keeping is not None:
            self._keeping.cancel()
        await in_thread(self._lease.leave)

    def _changed(self, held: bool) -> None:
        """Pass the lease's state to the event loop; called in the lease's thread."""
        self._loop.call_soon_threadsafe(self._now, held)

    def _now(self, held: bool) -> None:
        if held != self._life.is_leased:  # a consumer may say twice that it was revoked
            self._life.happen(FlowEvent.LEASE_HELD if held else FlowEvent.LEASE_LOST)
        self._keep_asking()
