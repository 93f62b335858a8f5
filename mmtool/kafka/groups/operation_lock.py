"""The operation lock: a group membership that lets one operation at a time run on a flow.

It takes seconds to acquire, so a command requests it before all else, and this module imports little.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.clients import CLIENT_ID
from mmtool.kafka.groups.lease import GroupLease, holder_now, not_let_in
from mmtool.plan.failover.lease_wait import LOOK_SECONDS, LeaseWait
from mmtool.plan.records.identity import JOURNAL_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings
    from mmtool.plan.flow.status import FlowMember

_SILENT_SECONDS = 3.0


class OperationLock:
    """The operation lock: membership of a group on the target, as for the ownership of a flow.

    Joining takes some seconds (``group.initial.rebalance.delay.ms``), so it is begun early and waited for late.
    """

    def __init__(self, target: ClusterSettings, source_alias: str, prepare: Callable[[], None]) -> None:
        """Take the flow's target and the alias of its source; ``prepare`` creates the journal topic."""
        self._target = target
        self._prepare = prepare
        self._joined = False
        self._flow = f"{source_alias}->{target.alias}"
        self._group = f"mmtool.failover.{source_alias}"
        self._held = threading.Event()
        self._lease = GroupLease(target, self._group, JOURNAL_TOPIC, _client_id(), self._changed)

    def _changed(self, held: bool) -> None:
        (self._held.set if held else self._held.clear)()

    def begin(self) -> None:
        if not self._joined:
            self._lease.start()
            self._joined = True

    def join(self) -> None:
        self._prepare()
        self.begin()

    def hold(self) -> None:
        waiting = LeaseWait(time.monotonic())
        look_at = waiting.began + _SILENT_SECONDS
        while not self._held.wait(0.1):
            if self._lease.failure is not None:
                raise self._lease.failure
            if time.monotonic() >= look_at:
                self._look(waiting)
                look_at = time.monotonic() + LOOK_SECONDS
        self._check()

    def _look(self, waiting: LeaseWait) -> None:
        """Check who holds the lock meanwhile, and end the wait where it is hopeless.

        Raises:
            OwnedElsewhereError: another live operation holds the lock.
            UnreachableError: no process holds the lock, and this one was not given it in time.
        """
        holder = holder_now(self._target, self._group)
        if not waiting.ends(holder, time.monotonic()):
            return
        if holder is None:
            raise not_let_in(self._target.alias, self._group)
        raise OwnedElsewhereError(
            f"another operation on flow {self._flow} is running: {holder}; this command wrote nothing",
            remedy="wait until that operation has ended: `mmtool failover list -c FILE` shows its state",
        )

    def _other(self) -> FlowMember | None:
        """The other process that holds the lock, or None."""
        return self._lease.other(holder_now(self._target, self._group))

    def _check(self) -> None:
        """Raise `OwnedElsewhereError` where another process holds the lock.

        A process that was frozen for longer than the session timeout has not heard yet that it lost the lock.
        """
        with suppress(UnreachableError):  # what the group's coordinator told us last has to do
            if (holder := self._other()) is not None:
                raise OwnedElsewhereError(
                    f"another operation on flow {self._flow} has started: {holder}; this process was suspended or"
                    " disconnected for longer than the session timeout of 10 s, and wrote nothing more",
                    remedy="wait until that operation has ended; if `mmtool failover list -c FILE` then shows that the"
                    " operation of this command has not ended, run `mmtool failover resume ID -c FILE --execute`",
                )

    def is_taken(self) -> bool:
        return self._other() is not None

    def leave(self) -> None:
        self._lease.leave()


def _client_id() -> str:
    return f"{CLIENT_ID}-operator-{socket.gethostname()}-pid-{os.getpid()}"
