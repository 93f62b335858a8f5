"""The seat of the one who may write to a target's journal: one operation on a flow at a time.

It takes seconds to be had, so a command asks for it before all else: little is imported here.
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
from mmtool.kafka.membership import Seat, holder_now
from mmtool.plan.identity import JOURNAL_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings

_NEWCOMER_WAITS_SECONDS = 15.0


class KafkaOperatorSeat:
    """An `OperatorSeat`: membership of a group on the target, as for the ownership of a flow.

    Joining takes some seconds (``group.initial.rebalance.delay.ms``), so it is begun early and waited for late.
    """

    def __init__(self, target: ClusterSettings, source_alias: str, prepare: Callable[[], None]) -> None:
        """Say of which flow: its target, and what its source is called there; ``prepare`` makes the journal."""
        self._target = target
        self._prepare = prepare
        self._joined = False
        self._group = f"mmtool.failover.{source_alias}"
        self._held = threading.Event()
        self._seat = Seat(target, self._group, JOURNAL_TOPIC, _client_id(), self._changed)

    def _changed(self, held: bool) -> None:
        (self._held.set if held else self._held.clear)()

    def begin(self) -> None:
        if not self._joined:
            self._seat.start()
            self._joined = True

    def join(self) -> None:
        self._prepare()
        self.begin()

    def hold(self) -> None:
        deadline = time.monotonic() + _NEWCOMER_WAITS_SECONDS
        while not self._held.wait(0.1):
            if self._seat.failure is not None:
                raise self._seat.failure
            if time.monotonic() > deadline:
                self._give_up()
        self._check()

    def _check(self) -> None:
        """Who was frozen for longer than a session has not heard yet that somebody else has the seat since."""
        with suppress(UnreachableError):  # what the group's coordinator told us last has to do
            holder = holder_now(self._target, self._group)
            if holder is not None and holder.client_id != _client_id():
                raise OwnedElsewhereError(
                    f"another operation on this flow has begun meanwhile: {holder}; nothing more was written",
                    remedy="this process was stopped or cut off for longer than the session timeout of 10 s; see"
                    " `mmtool failover list`",
                )

    def _give_up(self) -> None:
        holder = holder_now(self._target, self._group)
        if holder is None:
            raise UnreachableError(
                f"cluster {self._target.alias} did not let us into group {self._group} within"
                f" {_NEWCOMER_WAITS_SECONDS:g} s; nothing was written",
                remedy="run again",
            )
        raise OwnedElsewhereError(
            f"another operation on this flow is under way: {holder}; nothing was written",
            remedy="wait until it has ended; see `mmtool failover list`",
        )

    def is_taken(self) -> bool:
        holder = holder_now(self._target, self._group)
        return holder is not None and holder.client_id != _client_id()

    def leave(self) -> None:
        self._seat.leave()


def _client_id() -> str:
    return f"{CLIENT_ID}-operator-{socket.gethostname()}-pid-{os.getpid()}"
