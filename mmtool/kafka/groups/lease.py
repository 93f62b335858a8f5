"""A lease by group membership: the member that is assigned a topic's only partition holds the lease.

Classic protocol with the cooperative-sticky assignor: a live holder keeps the partition when other members join; a
dead one loses it when its session ends, and the next member gets it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mmtool.errors import UnreachableError
from mmtool.kafka.errors import failure_of
from mmtool.plan.failover.lease_wait import NOBODY_WAITS_SECONDS, SESSION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings
    from mmtool.config.scopes import Role
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.groups import DescribedGroup
    from mmtool.plan.flow.status import FlowMember

SESSION_TIMEOUT_MS = int(SESSION_SECONDS * 1000)
_HEARTBEAT_MS = 2_000
_POLL_SECONDS = 0.1
_ROLE: Role = "admin"
_DESCRIBE_SECONDS = 10.0


class GroupLease:
    """A member of ``group``, kept alive by a thread of its own.

    Args:
        cluster: Where the group is.
        group: Its name.
        topic: One partition; its records are not read.
        client_id: Names this process to others that read the lease's holder.
        changed: Called from the thread with True when this process gets the lease, False when it loses it.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        group: str,
        topic: str,
        client_id: str,
        changed: Callable[[bool], None],
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._client_id = client_id
        self._changed = changed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._broke = False
        self._held = False
        self._renewed = threading.Event()
        self.failure: BaseException | None = None

    def renew_credentials(self, cluster: ClusterSettings) -> None:
        """Use other credentials from the next connection on; the lease stays.

        A member cannot change its certificate. So a new one joins when the lease is not held, as after the old
        certificate was refused; until then the open connection serves.
        """
        self._cluster = cluster
        self._renewed.set()

    def start(self) -> None:
        """Join the group, or join again after the membership has failed; does nothing while a member."""
        if self._thread is None or self._broke:
            self.failure, self._broke = None, False
            self._thread = threading.Thread(target=self._run, name=f"member of {self._group}", daemon=True)
            self._thread.start()

    def leave(self) -> None:
        """Leave the group at once, so that a waiting member need not wait for the session to end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def other(self, holder: FlowMember | None) -> FlowMember | None:
        """The given holder of the lease, or None where it is this process, by its client id."""
        return None if holder is None or holder.client_id == self._client_id else holder

    def _run(self) -> None:
        """Poll as a member until `leave`; a failure reports the lease as lost, whatever was reported before."""
        from confluent_kafka import KafkaException

        try:
            while not self._stop.is_set():
                self._be_member()
        except KafkaException as error:
            self.failure = failure_of(
                self._cluster,
                error.args[0],
                f"joining group {self._group}",
                right=f"READ on group {self._group}",
            )
        except Exception as error:  # noqa: BLE001  whoever waits must hear of it
            self.failure = error
        if self.failure is not None and not self._stop.is_set():
            self._broke = True
            self._changed(False)

    def _be_member(self) -> None:
        """Poll as one member of the group, until `leave` or until another member is needed."""
        from confluent_kafka import Consumer

        from mmtool.kafka.clients import librdkafka_config, new_client, renew_login

        self._renewed.clear()
        joined_with, self._held = self._cluster, False
        config = {
            **librdkafka_config(self._cluster, role=_ROLE, is_lasting=True),
            "client.id": self._client_id,
            "group.id": self._group,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
        consumer = new_client(Consumer, config, joined_with)
        consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not (
            self._stop.is_set() or (not self._held and _certificates_differ(joined_with, self._cluster))
        ):
            if self._renewed.is_set():
                self._renewed.clear()
                renew_login(consumer, config, self._cluster.security_for(_ROLE), self._cluster.alias)
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and message.error() is not None:
                self._check(message.error())
        consumer.close()

    def _check(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}:
            of_topic = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            denied = f"topic {self._topic}" if of_topic else f"group {self._group}"
            self.failure = failure_of(self._cluster, error, f"READ on {denied}")

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # membership is all that is wanted
            self.failure = None  # a right that was missing is there again
            self._held = True
            self._changed(True)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_unassign(partitions)
            self._held = False
            self._changed(False)


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


async def lease_members(cluster: WireCluster, group: str) -> tuple[FlowMember, ...]:
    """The members of a lease's group, and which of them holds it; during a rebalance none does.

    Raises:
        UnreachableError, NotAuthorisedError: as `described`.
    """
    from mmtool.plan.flow.status import FlowMember

    members = (await described(cluster, group)).members
    return tuple(FlowMember(m.client_id, m.host, m.holds_partitions) for m in members)


async def lease_holder(cluster: WireCluster, group: str) -> FlowMember | None:
    """The member that holds the lease; None while no member does.

    Raises:
        UnreachableError, NotAuthorisedError: as `described`.
    """
    return next((member for member in await lease_members(cluster, group) if member.holds), None)


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
    """The members of a lease's group, as `lease_members`, over a connection of its own: without an event loop.

    Raises:
        UnreachableError, NotAuthorisedError: as `described`, within ``seconds``.
    """
    from mmtool.kafka.clients import blocking_wire

    wire = blocking_wire(cluster, "members", "admin", seconds)
    return wire.ask(lambda target: lease_members(target, group), f"describing group {group}")


def holder_now(cluster: ClusterSettings, group: str) -> FlowMember | None:
    """The member that holds the lease, as `lease_holder`, over a connection of its own: without an event loop.

    Raises:
        UnreachableError, NotAuthorisedError: as `members_now`.
    """
    return next((member for member in members_now(cluster, group) if member.holds), None)
