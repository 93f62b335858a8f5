"""One seat in a consumer group: whoever holds the topic's only partition has it.

Classic protocol with the cooperative-sticky assignor: a live holder keeps the partition whoever else joins; a
dead one loses it when its session ends, and the next member gets it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mmtool.kafka.errors import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings
    from mmtool.errors import MmtoolError
    from mmtool.plan.status import FlowMember

SESSION_TIMEOUT_MS = 10_000
_HEARTBEAT_MS = 2_000
_POLL_SECONDS = 0.1
_DESCRIBE_SECONDS = 10.0
_SPARE_SECONDS = 5.0


class Seat:
    """A member of ``group``, kept alive by a thread of its own.

    Args:
        cluster: Where the group is.
        group: Its name.
        topic: One partition; its records are not read.
        client_id: Who we are, for whoever asks who holds the seat.
        changed: Called from the thread with True when the seat is ours, False when it no longer is.
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
        self._thread = threading.Thread(target=self._run, name=f"member of {group}", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Leaves the group at once, so that a waiting member need not wait for the session to end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        try:
            consumer = Consumer(self._config())
            consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            while not self._stop.is_set():
                message = consumer.poll(_POLL_SECONDS)
                if message is not None and message.error() is not None:
                    self._check(message.error())
            consumer.close()
        except KafkaException as error:
            self.failure = failure_of(self._cluster, error.args[0], f"joining group {self._group}")
        except Exception as error:  # noqa: BLE001  whoever waits must hear of it
            self.failure = error

    def _config(self) -> dict[str, Any]:
        from mmtool.kafka.clients import librdkafka_config

        return {
            **librdkafka_config(self._cluster, role="admin"),
            "client.id": self._client_id,
            "group.id": self._group,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }

    def _check(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}:
            self.failure = failure_of(self._cluster, error, f"READ on group {self._group}")

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # membership is all that is wanted
            self._changed(True)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_unassign(partitions)
            self._changed(False)


def seat_holder(cluster: ClusterSettings, group: str) -> str | None:
    """Client id and host of the member that holds the seat, for people; None when nobody does."""
    holders = (member for member in seat_members(cluster, group) if member.holds)
    return next((f"{member.client_id} on {member.host}" for member in holders), None)


def seat_members(
    cluster: ClusterSettings, group: str, timeout_seconds: float = _DESCRIBE_SECONDS
) -> tuple[FlowMember, ...]:
    """Who is in the group. While members come and go the coordinator says of none that it holds the seat.

    Raises:
        UnreachableError, NotAuthorisedError: the group cannot be described.
    """
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    from mmtool.kafka.clients import librdkafka_config
    from mmtool.kafka.patience import ask, result
    from mmtool.plan.status import FlowMember

    admin = AdminClient(librdkafka_config(cluster, role="admin"))

    def failure(error: Any) -> MmtoolError | None:
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return None  # brokers from 4.0 on; older ones describe it as dead (KIP-1043)
        return failure_of(cluster, error, f"DESCRIBE on group {group}")

    def send(groups: list[str]) -> Any:
        return admin.describe_consumer_groups(groups, request_timeout=timeout_seconds)

    def take(_: str, future: Any) -> Any:
        return result(future, timeout_seconds + _SPARE_SECONDS, failure)

    described = ask([group], send, take, timeout_seconds)[group]
    return tuple(
        FlowMember(m.client_id, m.host, bool(m.assignment and m.assignment.topic_partitions))
        for m in (described.members if described is not None else ())
    )
