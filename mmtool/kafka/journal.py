"""The journal of a target cluster, ``mmtool-journal.internal``, and the seat of the one who may write to it."""

from __future__ import annotations

import os
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.clients import CLIENT_ID, wire_cluster
from mmtool.kafka.errors import unreachable
from mmtool.kafka.log_reader import read_log
from mmtool.kafka.membership import Seat, holder_now
from mmtool.kafka.own_log import append_records, make_missing
from mmtool.kafka.state_log import newest_records, unreadable
from mmtool.kafka.wire.beside import WireBeside
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.documents import UnreadableDocumentError
from mmtool.plan.journal import JOURNAL_TOPIC, Entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.kafka.wire.cluster import WireCluster

_NEWCOMER_WAITS_SECONDS = 15.0


class KafkaJournal:
    """A `JournalPort`. The topic is made when something is first written."""

    def __init__(self, target: ClusterSettings, replication_factor: int, seconds: float) -> None:
        """Say where, how the topic is made, and how long one request may take."""
        self._target = target
        self._factor = replication_factor
        self._wire = WireBeside(wire_cluster(target, "journal", role="producer"), seconds)
        self._is_there = False

    def prepare(self) -> None:
        """Make the topic where it is missing.

        Raises:
            UnreachableError, NotAuthorisedError, MmtoolError: It cannot be made.
        """
        if not self._is_there:
            make = partial(
                make_missing, settings=self._target, topic=JOURNAL_TOPIC, replication_factor=self._factor
            )
            self._ask(make, f"making {JOURNAL_TOPIC}")
            self._is_there = True

    def append(self, entries: Sequence[Entry]) -> None:
        self.prepare()
        records = [(entry.key, entry.encode()) for entry in entries]
        append = partial(append_records, topic=JOURNAL_TOPIC, records=records)
        self._ask(append, f"writing to {JOURNAL_TOPIC}")

    def _ask(self, question: Callable[[WireCluster], Awaitable[None]], what: str) -> None:
        try:
            self._wire.ask(question, what)
        except ConnectionLostError as lost:
            raise unreachable(self._target.alias, what, str(lost)) from lost

    def entries(self) -> list[Entry]:
        found = []
        for record in newest_records(read_log(self._target, JOURNAL_TOPIC)):
            if record.value is None:
                continue
            try:
                found.append(Entry.decode(record.value))
            except UnreadableDocumentError as error:
                raise unreadable(JOURNAL_TOPIC, record.partition, record.offset, str(error)) from error
        return found


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

    def leave(self) -> None:
        self._seat.leave()


def _client_id() -> str:
    return f"{CLIENT_ID}-operator-{socket.gethostname()}-pid-{os.getpid()}"
