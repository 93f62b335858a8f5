"""A lease by group membership, which a process holds; and the operation lock, which is such a membership."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.clients import CLIENT_ID
from mmtool.kafka.errors import failure_of
from mmtool.plan.records.identity import JOURNAL_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings
    from mmtool.config.scopes import Role
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.groups import DescribedGroup
    from mmtool.plan.flow.status import FlowMember


SESSION_SECONDS = 10.0
NEWCOMER_WAITS_SECONDS = 15.0
"""The least wait while a process holds the lease: long enough to tell a live holder from a dead one."""
LOOK_SECONDS = 1.0
"""The time between two checks of the lease's holder."""
NOBODY_WAITS_SECONDS = 60.0
"""The wait without a holder: the group counts dead members until their sessions end, and may elect several of them."""
_OUTLIVED_SECONDS = SESSION_SECONDS + 2.0

SESSION_TIMEOUT_MS = int(SESSION_SECONDS * 1000)
_HEARTBEAT_MS = 2_000
_POLL_SECONDS = 0.1
_ROLE: Role = "admin"
_DESCRIBE_SECONDS = 10.0


@dataclass(eq=False)
class GroupLease:
    """A member of ``group``, kept alive by a thread of its own.

    Attributes:
        cluster: Where the group is.
        group: Its name.
        topic: One partition; its records are not read.
        client_id: Names this process to others that read the lease's holder.
        changed: Called from the thread with True when this process gets the lease, False when it loses it.
        failure: Why this process is no member, or cannot get the lease; None where nothing keeps it from it.
    """

    cluster: ClusterSettings
    group: str
    topic: str
    client_id: str
    changed: Callable[[bool], None]
    failure: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _broke: bool = False
    _held: bool = False
    _renewed: threading.Event = field(default_factory=threading.Event)

    def renew_credentials(self, cluster: ClusterSettings) -> None:
        """Use other credentials from the next connection on; the lease stays.

        A member cannot change its certificate. So a new one joins when the lease is not held, as after the old
        certificate was refused; until then the open connection serves.
        """
        self.cluster = cluster
        self._renewed.set()

    def start(self) -> None:
        """Join the group, or join again after the membership has failed; does nothing while a member."""
        if self._thread is None or self._broke:
            self.failure, self._broke = None, False
            self._thread = threading.Thread(target=self._run, name=f"member of {self.group}", daemon=True)
            self._thread.start()

    def leave(self) -> None:
        """Leave the group at once, so that a waiting member need not wait for the session to end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def other(self, holder: FlowMember | None) -> FlowMember | None:
        """The given holder of the lease, or None where it is this process, by its client id."""
        return None if holder is None or holder.client_id == self.client_id else holder

    def _run(self) -> None:
        """Poll as a member until `leave`; a failure reports the lease as lost, whatever was reported before."""
        from confluent_kafka import KafkaException

        try:
            while not self._stop.is_set():
                self._be_member()
        except KafkaException as error:
            self.failure = failure_of(
                self.cluster,
                error.args[0],
                f"joining group {self.group}",
                right=f"READ on group {self.group}",
            )
        except Exception as error:  # noqa: BLE001  whoever waits must hear of it
            self.failure = error
        if self.failure is not None and not self._stop.is_set():
            self._broke = True
            self.changed(False)

    def _be_member(self) -> None:
        """Poll as one member of the group, until `leave` or until another member is needed."""
        from confluent_kafka import Consumer

        from mmtool.kafka.clients import librdkafka_config, new_client, renew_login

        self._renewed.clear()
        joined_with, self._held = self.cluster, False
        config = {
            **librdkafka_config(self.cluster, role=_ROLE, is_lasting=True),
            "client.id": self.client_id,
            "group.id": self.group,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
        consumer = new_client(Consumer, config, joined_with)
        consumer.subscribe(
            [self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._stop.is_set() and (self._held or not _certificates_differ(joined_with, self.cluster)):
            if self._renewed.is_set():
                self._renewed.clear()
                renew_login(consumer, config, self.cluster.security_for(_ROLE), self.cluster.alias)
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and message.error() is not None:
                self._check(message.error())
        consumer.close()

    def _check(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}:
            of_topic = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            denied = f"topic {self.topic}" if of_topic else f"group {self.group}"
            self.failure = failure_of(self.cluster, error, f"READ on {denied}")

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # membership is all that is wanted
            self.failure = None  # a right that was missing is there again
            self._held = True
            self.changed(True)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_unassign(partitions)
            self._held = False
            self.changed(False)


def _certificates_differ(before: ClusterSettings, now: ClusterSettings) -> bool:
    if before is now:
        return False
    old, new = (cluster.security_for(_ROLE).model_copy(update={"sasl": None}) for cluster in (before, now))
    return old != new


async def described(cluster: WireCluster, group: str) -> DescribedGroup:
    """Describe a classic group by its coordinator, waiting while that moves; an absent group is Dead.

    Raises:
        NotAuthorisedError: without DESCRIBE on the group.
        UnreachableError: the group has no coordinator, or that does not answer.
    """
    from mmtool.kafka.wire.cluster import retrying
    from mmtool.kafka.wire.groups import Coordinated, DescribeGroupsRequest

    async def attempt() -> tuple[int, DescribedGroup]:
        node = await cluster.coordinator(group, Coordinated.GROUP)
        (answer,) = (await cluster.send(node, DescribeGroupsRequest([group]), purpose="metadata")).values()
        return answer.error_code, answer

    code, found = await retrying(
        attempt, what=f"describing group {group} on {cluster.alias}", alias=cluster.alias
    )
    cluster.check_denied(code, f"DESCRIBE on group {group}")
    return found  # type: ignore[no-any-return]


async def lease_holder(cluster: WireCluster, group: str) -> FlowMember | None:
    """The member that holds the lease; None while no member does.

    Raises:
        UnreachableError, NotAuthorisedError: as `described`.
    """
    return _holder(_members(await described(cluster, group)))


def _members(group: DescribedGroup) -> tuple[FlowMember, ...]:
    """The members of a lease's group, and which of them holds it; during a rebalance none does."""
    from mmtool.plan.flow.status import FlowMember

    return tuple(FlowMember(m.client_id, m.host, m.holds_partitions) for m in group.members)


def _holder(members: tuple[FlowMember, ...]) -> FlowMember | None:
    return next((member for member in members if member.holds), None)


@dataclass(slots=True)
class LeaseWait:
    """The wait of a process that has requested a lease.

    A. Only a holder that was seen for longer than a session ends it: the group may give the lease to a member that was
       killed while it joined, which holds it until its own session ends.

    Attributes:
        began: When it requested the lease, in seconds of the clock that later calls use.
        holder: The member that held the lease at the last check; None without one.
    """

    began: float
    holder: FlowMember | None = None
    _lasting: str = ""
    _since: float = 0.0

    def saw(self, holder: FlowMember | None, now: float) -> None:
        """Note the lease's current holder; None, as during a rebalance, does not restart the last holder's time."""
        self.holder = holder
        if holder is not None and holder.client_id != self._lasting:
            self._lasting, self._since = holder.client_id, now

    def ends(self, holder: FlowMember | None, now: float) -> bool:
        """Whether to stop waiting: a live process has the lease, or the group has elected no holder for too long."""
        self.saw(holder, now)
        waited = now - self.began
        if holder is None:
            return waited >= NOBODY_WAITS_SECONDS
        return waited >= NEWCOMER_WAITS_SECONDS and now - self._since >= _OUTLIVED_SECONDS


def waits(holder: FlowMember | None) -> str:
    """The longest wait for the lease, in words."""
    if holder is None:
        return f"{NOBODY_WAITS_SECONDS:g} s at the most, until the sessions of processes that died have ended"
    return f"{NEWCOMER_WAITS_SECONDS:g} s at the most"


def not_let_in(alias: str, group: str) -> UnreachableError:
    """The error for a process that got no lease in time although no other process has it."""
    waited = f"within {NOBODY_WAITS_SECONDS:g} s"
    return UnreachableError(
        f"mmtool joined consumer group {group} on {alias} and was assigned no partition {waited}, though no other"
        " member has one",
        remedy="run the same command again; if it fails again, read the log of the broker that coordinates the group",
    )


def members_now(
    cluster: ClusterSettings, group: str, seconds: float = _DESCRIBE_SECONDS
) -> tuple[FlowMember, ...]:
    """The members of a lease's group, over a connection of its own: without an event loop.

    Raises:
        UnreachableError, NotAuthorisedError: as `described`, within ``seconds``.
    """
    from mmtool.kafka.clients import blocking_wire

    wire = blocking_wire(cluster, "members", "admin", seconds)
    return _members(wire.ask(lambda target: described(target, group), f"describing group {group}"))


def holder_now(cluster: ClusterSettings, group: str) -> FlowMember | None:
    """The member that holds the lease, as `lease_holder`, over a connection of its own: without an event loop.

    Raises:
        UnreachableError, NotAuthorisedError: as `members_now`.
    """
    return _holder(members_now(cluster, group))


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
