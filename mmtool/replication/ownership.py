"""Who runs a flow: the one member of its ownership group that holds the control topic's partition.

Kafka's own group membership is the lock. The assignor is sticky, so a live owner keeps the partition whoever
else joins; a dead one loses it when its session ends (10 s), and the next member gets it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from os import getpid
from typing import TYPE_CHECKING, Any

from mmtool.errors import OwnedElsewhereError
from mmtool.kafka.errors import failure_of

if TYPE_CHECKING:
    from mmtool.config import ClusterSettings
    from mmtool.plan.identity import FlowIdentity

SESSION_TIMEOUT_MS = 10_000
_HEARTBEAT_MS = 2_000
_POLL_SECONDS = 0.1
_NEWCOMER_WAITS_SECONDS = 15.0


class Ownership:
    """Membership in one flow's ownership group, kept alive by a thread of its own.

    Attributes:
        held: Set while this process owns the flow.
        lost: Set when it stopped owning it, until it owns it again.
    """

    def __init__(self, cluster: ClusterSettings, identity: FlowIdentity) -> None:
        self._cluster = cluster
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.held = asyncio.Event()
        self.lost = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"owner of {identity.name}", daemon=True)

    async def acquire(self, *, standby: bool) -> None:
        """Joins, and waits until this process owns the flow: 15 s, or for ever as a standby.

        Raises:
            OwnedElsewhereError: a live member holds it; the message names it.
            UnreachableError, NotAuthorisedError: the group cannot be joined.
        """
        self._thread.start()
        try:
            await self._wait(None if standby else _NEWCOMER_WAITS_SECONDS)
        except TimeoutError:
            owner = await asyncio.to_thread(self._describe_owner)
            await self.release()
            raise OwnedElsewhereError(
                f"flow {self._identity.name} is run by {owner}",
                remedy="stop that one, or start this one with --standby to take over when it ends",
            ) from None

    async def again(self) -> None:
        """Waits, as a newcomer does, until the flow is ours again."""
        try:
            await self._wait(_NEWCOMER_WAITS_SECONDS)
        except TimeoutError:
            owner = await asyncio.to_thread(self._describe_owner)
            raise OwnedElsewhereError(
                f"flow {self._identity.name} was lost to {owner}",
                remedy="this process was stopped or cut off for longer than the session timeout of 10 s",
            ) from None

    async def _wait(self, seconds: float | None) -> None:
        waiting = asyncio.create_task(self.held.wait())
        try:
            async with asyncio.timeout(seconds):
                while not waiting.done():
                    await asyncio.wait({waiting}, timeout=0.2)
                    if self._failure is not None:
                        raise self._failure
        finally:
            waiting.cancel()

    async def release(self) -> None:
        """Leaves the group, so that a waiting member need not wait for the session to end."""
        self._stop.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        try:
            consumer = Consumer(self._config())
            consumer.subscribe(
                [self._identity.control_topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._revoked,
            )
            while not self._stop.is_set():
                message = consumer.poll(_POLL_SECONDS)
                if message is not None and message.error() is not None:
                    self._check(message.error())
            consumer.close()
        except KafkaException as error:
            self._failure = failure_of(
                self._cluster, error.args[0], f"joining group {self._identity.ownership_group}"
            )
        except Exception as error:  # noqa: BLE001  whoever waits must hear of it
            self._failure = error

    def _config(self) -> dict[str, Any]:
        from mmtool.kafka.clients import librdkafka_config

        return {
            **librdkafka_config(self._cluster, role="admin"),
            "client.id": f"{_client_id()}",
            "group.id": self._identity.ownership_group,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "topic.metadata.refresh.interval.ms": 5_000,
        }

    def _check(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            self._failure = failure_of(
                self._cluster, error, f"READ on group {self._identity.ownership_group}"
            )

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # membership is all that is wanted; the records are read elsewhere
            self._loop.call_soon_threadsafe(self._now, True)  # noqa: FBT003  call_soon takes no keywords

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            consumer.incremental_unassign(partitions)
            self._loop.call_soon_threadsafe(self._now, False)  # noqa: FBT003  likewise

    def _now(self, held: bool) -> None:
        (self.held.set if held else self.held.clear)()
        (self.lost.clear if held else self.lost.set)()

    def _describe_owner(self) -> str:
        """Client and host of the member that holds the flow, for people."""
        from confluent_kafka.admin import AdminClient

        from mmtool.kafka.clients import librdkafka_config

        admin = AdminClient(librdkafka_config(self._cluster, role="admin"))
        group = self._identity.ownership_group
        described = admin.describe_consumer_groups([group], request_timeout=10)[group].result(15)
        for member in described.members:
            if member.assignment and member.assignment.topic_partitions:
                return f"{member.client_id} on {member.host}"
        return "another mmtool"


def _client_id() -> str:
    """Says on which host and in which process the owner runs: this is what a second one is told."""
    from mmtool import __version__

    return f"mmtool/{__version__}-owner-{socket.gethostname()}-pid-{getpid()}"
