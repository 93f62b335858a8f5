"""One cluster on the batch wire: its brokers, its leaders, and a connection per broker and purpose."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaError

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.kafka.errors import (
    CLOSED,
    NO_LEADER,
    OTHER_CLUSTER,
    OTHER_LEADER_AND_AGAIN,
    REFUSED,
    UNPROVEN,
    cause_of_refusal,
    readable_refusal,
    remedy_of,
)
from mmtool.kafka.patience import NEXT_SECONDS, RetriableError, again, first_answer
from mmtool.kafka.wire.codes import DENIED, RETRIABLE, Code, name_of
from mmtool.kafka.wire.connection import open_connection
from mmtool.kafka.wire.groups import Coordinated, Coordinator, FindCoordinatorRequest, FindCoordinatorsRequest
from mmtool.kafka.wire.metadata import BrokerAddress, MetadataRequest, TopicMetadata
from mmtool.kafka.wire.request import NoCommonVersionError, UnsupportedByBrokerError, WireRequest
from mmtool.kafka.wire.sasl import UnprovenBrokerError
from mmtool.translation.types import ClusterId, TopicId

A = TypeVar("A")
P = TypeVar("P", bound="PartitionKey")

COMMITS = "__consumer_offsets"
"""The topic whose partition leaders are the coordinators of groups."""
PATIENCE_SECONDS = 60.0
_CONNECT_SECONDS = 8.0
_LONGEST_PAUSE_SECONDS = 1.0
_COORDINATED = {
    Coordinated.GROUP: ("group", COMMITS, "DESCRIBE"),
    Coordinated.TRANSACTION: ("transactional id", "__transaction_state", "WRITE"),
}
"""The kind of key, the topic whose partition leaders are its coordinators, and the right that mmtool needs on it.

To find a coordinator takes DESCRIBE; mmtool writes under each transactional id that it looks up, and WRITE implies it.
"""
_REFUSALS: dict[type[Exception], str] = {
    socket.gaierror: "_RESOLVE",
    ssl.SSLError: "_SSL",
    ConnectionResetError: CLOSED,
}
"""The cause of each kind of failed connection; any other kind means that no broker answered."""


class ConnectionLostError(Exception):
    """The result of a request is unknown: the connection broke, or the broker did not answer in time.

    Attributes:
        cause: The name of the cause, as in `REMEDIES`; empty where no broker answered.
        remedy: Where the cluster is known that raised it; it precedes that of the cause.
    """

    def __init__(self, message: str, cause: str = "", *, remedy: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.remedy = remedy


class UnreadableLogError(ConnectionLostError):
    """A permanent error of the broker: that part of the log cannot be read."""


class OutOfRangeError(UnreadableLogError):
    """The log does not hold that offset: it is below the log's start, or above its end."""


def remedy_after(error: Exception, otherwise: str) -> str:
    """The remedy after an error of either cluster of a flow; ``otherwise`` where its cause has none."""
    if isinstance(error, (MmtoolError, ConnectionLostError)) and error.remedy:
        return error.remedy
    if isinstance(error, UnreadableLogError):
        otherwise = OTHER_LEADER_AND_AGAIN
    cause = error.cause if isinstance(error, ConnectionLostError) else ""
    return remedy_of(cause, "that cluster", otherwise=otherwise)


class PartitionKey(Protocol):
    """The key of a partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


def by_leader(cluster: WireCluster, places: Iterable[P]) -> dict[int, list[P]]:
    """Group partitions by their leader, as of the last ``refresh``; partitions without one are left out."""
    led: dict[int, list[P]] = defaultdict(list)
    for place in places:
        leader = cluster.leader(place.topic, place.partition)
        if leader is not None:
            led[leader].append(place)
    return led


class WireCluster:
    """Connections to one cluster.

    Not safe for threads: it lives in one event loop. Requests on one connection are answered in order, and a
    broker works on one request of a connection at a time, so long polls get a ``purpose`` of their own.

    Args:
        options: What ``mmtool.kafka.clients.wire_options`` made of a cluster's settings.
        alias: The cluster's name in the properties file, for messages.
        client_id: Shown in the broker's request log.
    """

    def __init__(
        self, options: Mapping[str, Any], *, alias: str, client_id: str, request_timeout_ms: int = 30_000
    ) -> None:
        settings = dict(options)
        self._bootstrap: list[str] = settings.pop("bootstrap_servers")
        self._options = {**settings, "client_id": client_id, "request_timeout_ms": request_timeout_ms}
        self._connections: dict[tuple[int, str], Any] = {}
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}
        self._brokers: dict[int, BrokerAddress] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._leaders: dict[tuple[str, int], int | None] = {}
        self._epochs: dict[tuple[TopicId, int], int] = {}
        self._slow: set[int] = set()
        self.alias = alias
        self.cluster_id = ""

    @property
    def bootstrap_servers(self) -> str:
        """The servers of the properties file, separated by commas."""
        return ",".join(self._bootstrap)

    async def start(self) -> None:
        """Connect to the first bootstrap server that answers, and read the cluster's id and brokers.

        Raises:
            UnreachableError: when none does.
            NotAuthorisedError: when the cluster refuses the credentials.
            UnsupportedByBrokerError: when the brokers are too old.
        """

        async def introduced(server: str) -> Any:
            host, _, port = server.strip().rpartition(":")
            connection = await self._connect(host.strip("[]"), int(port))
            try:
                return await connection.send(MetadataRequest(()))
            except NoCommonVersionError as error:
                raise error.of(self.alias) from error
            finally:
                connection.close()

        asks = [partial(introduced, server) for server in self._bootstrap]
        try:
            _, answer = await first_answer(asks, (OSError, ConnectionLostError))
            self._keep(answer)
        except (OSError, ConnectionLostError) as error:
            cause = _cause_of(error)
            away = f"cluster {self.alias} does not answer at {', '.join(self._bootstrap)}: {_why(error)}"
            raise UnreachableError(
                str(error) if cause == OTHER_CLUSTER else away, remedy=remedy_of(cause, self.alias)
            ) from error

    def renew_credentials(self, options: Mapping[str, Any]) -> None:
        """Use other credentials for connections from now on; an open connection is re-authenticated with them, too.

        A broker accepts no other user on an open connection. So such a connection keeps its old credentials until it
        is closed, which happens at the latest at its next re-authentication after they were revoked.

        Args:
            options: As at the start; servers and client id stay.
        """
        new = {
            name: value for name, value in options.items() if name not in {"bootstrap_servers", "client_id"}
        }
        if _user(new) == _user(self._options):
            self._options.update(new)  # the dictionary from which open connections take their credentials
        else:
            self._options = {**self._options, **new}

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the brokers in the last metadata."""
        return tuple(self._brokers)

    @property
    def brokers(self) -> tuple[BrokerAddress, ...]:
        """The brokers of the last metadata, with their advertised addresses."""
        return tuple(self._brokers.values())

    def identify(self) -> ClusterId:
        """The cluster's id, as the last metadata has it."""
        return self.cluster_id  # type: ignore[return-value]  # the one place where a cluster names itself

    async def refresh(
        self, topics: Iterable[str] | None, *, with_rights: bool = False
    ) -> dict[str, TopicMetadata]:
        """Read the metadata of ``topics`` (None: all) from any broker that answers, and remember the leaders.

        Raises:
            ConnectionLostError: when no broker answers.
        """
        request = MetadataRequest(None if topics is None else sorted(set(topics)), with_rights)
        return self._keep(await self.ask_any(request))

    async def known_by_all(self, topics: Iterable[str]) -> bool:
        """Whether every broker that answers within `NEXT_SECONDS` knows these topics; brokers hear late of new ones."""
        names = sorted(set(topics))

        async def knows(node: int) -> bool:
            with suppress(ConnectionLostError, TimeoutError):
                async with asyncio.timeout(NEXT_SECONDS):
                    answer = await self.send(node, MetadataRequest(names), purpose="metadata")
                return all(topic.error_code == Code.NONE and topic.partitions for topic in answer.topics)
            return True

        return all(await asyncio.gather(*map(knows, self._brokers)))

    def _keep(self, answer: Any) -> dict[str, TopicMetadata]:
        """Remember the brokers, topics and leaders of a metadata response, and return its topics.

        Brokers before 2.8 get topics by name: requests to another cluster would write to its topics, or read them.

        Raises:
            ConnectionLostError: another cluster answered, as where its host name now belongs to another region's.
        """
        if self.cluster_id and answer.cluster_id != self.cluster_id:
            raise ConnectionLostError(
                f"the brokers at {self.alias}.bootstrap.servers now report cluster id {answer.cluster_id} instead of"
                f" {self.cluster_id}",
                OTHER_CLUSTER,
                remedy=remedy_of(OTHER_CLUSTER, self.alias),
            )
        self.cluster_id = answer.cluster_id
        self._brokers = {broker.node: broker for broker in answer.brokers}
        fresh = {topic.name: topic for topic in answer.topics}
        self._topics.update(fresh)
        for topic in answer.topics:
            # where topics have no ids, a recreated topic begins with the first epoch as well, so none is stale
            has_id = topic.topic_id != topic.name
            for p in topic.partitions:
                known = self._epochs.get((topic.topic_id, p.partition), p.leader_epoch)
                self._epochs[topic.topic_id, p.partition] = max(known, p.leader_epoch)
                # a broker that was frozen reports leaders of the past
                if not (has_id and 0 <= p.leader_epoch < known):
                    self._leaders[topic.name, p.partition] = p.leader
        return fresh

    def leader(self, topic: str, partition: int) -> int | None:
        """The broker that leads a partition as of the last ``refresh``; None without a leader."""
        leader = self._leaders.get((topic, partition))
        return leader if leader in self._brokers else None

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics in the metadata read so far."""
        return tuple(self._topics)

    def topic_id(self, topic: str) -> TopicId | None:
        """A topic's id as of the last ``refresh``; None where the topic is unknown."""
        known = self._topics.get(topic)
        return known.topic_id if known and known.error_code == Code.NONE else None

    async def send(self, node: int, request: WireRequest[A], *, purpose: str = "") -> A:
        """Send a request to a broker and return its decoded answer.

        Raises:
            ConnectionLostError: when the answer did not come; whether the broker acted on it is unknown.
            UnsupportedByBrokerError: when the broker supports no version of the request that mmtool can use.
        """
        from aiokafka import errors

        connection = await self._connection(node, purpose)
        try:
            return await connection.send(request)  # type: ignore[no-any-return]
        except NoCommonVersionError as error:
            raise error.of(self.alias) from error
        except TimeoutError as error:
            connection.close()
            raise ConnectionLostError(f"broker {node} of {self.alias} did not answer in time") from error
        except (errors.KafkaError, OSError) as error:
            raise ConnectionLostError(
                f"the connection to broker {node} of {self.alias} failed: {error}"
            ) from error

    async def _connection(self, node: int, purpose: str) -> Any:
        key = (node, purpose)
        connection = self._connections.get(key)
        if connection is not None and connection.connected():
            return connection
        broker = self._brokers.get(node)
        if broker is None:
            raise ConnectionLostError(f"broker {node} of {self.alias} is not in the cluster's metadata")
        async with self._locks.setdefault(key, asyncio.Lock()):
            connection = self._connections.get(key)
            if connection is None or not connection.connected():
                try:
                    connection = await self._connect(broker.host, broker.port)
                except OSError as error:
                    cause = _cause_of(error)
                    raise ConnectionLostError(
                        f"connecting to broker {node} of {self.alias} failed: {_why(error)}",
                        cause,
                        remedy=remedy_of(cause, self.alias),
                    ) from error
                except UnreachableError as error:
                    # whom a broker asks about passwords, or who grants tokens, may be away for a moment
                    raise ConnectionLostError(
                        f"broker {node}: {error.message}", remedy=error.remedy
                    ) from error
                self._connections[key] = connection
            return connection

    async def _connect(self, host: str, port: int) -> Any:
        from aiokafka import errors

        provider = self._options.get("sasl_oauth_token_provider")
        if provider is not None:
            await provider.token()  # before the time limit: a token endpoint may take longer than a broker
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                seconds = self._options["request_timeout_ms"] / 1000
                return await open_connection(host, port, self._options, seconds)
        except (
            errors.SaslAuthenticationFailed,
            errors.UnsupportedSaslMechanismError,
            errors.IllegalSaslStateError,
        ) as error:
            name = KafkaError(error.errno).name()
            raise NotAuthorisedError(
                f"cluster {self.alias}{REFUSED[name]}: {readable_refusal(str(error))}",
                remedy=remedy_of(cause_of_refusal(name, str(error)), self.alias),
            ) from error
        except NoCommonVersionError as error:
            raise error.of(self.alias) from error
        except UnprovenBrokerError as error:
            remedy = remedy_of(UNPROVEN, self.alias)
            raise NotAuthorisedError(f"cluster {self.alias}: {error}", remedy=remedy) from error
        except (errors.KafkaError, UnicodeError) as error:  # the latter of a name that no host can have
            raise ConnectionLostError(
                f"connecting to {host}:{port} of {self.alias} failed: {error}"
            ) from error

    async def send_to_leader(
        self, topic: str, partition: int, request: WireRequest[A], *, purpose: str = ""
    ) -> A:
        """Send a request to a partition's leader, which is looked up where it is unknown or did not answer last time.

        Raises:
            ConnectionLostError: when there is no leader, or no answer.
        """
        if self.leader(topic, partition) is None:
            await self.refresh([topic])
        leader = self.leader(topic, partition)
        if leader is None:
            raise ConnectionLostError(f"{topic}-{partition} of {self.alias} has no leader", NO_LEADER)
        try:
            return await self.send(leader, request, purpose=purpose)
        except ConnectionLostError:
            self._leaders.pop((topic, partition), None)  # another may lead by now, which this one cannot say
            raise

    async def coordinator(
        self, key: str, kind: Coordinated = Coordinated.TRANSACTION, seconds: float = PATIENCE_SECONDS
    ) -> int:
        """Find the broker that coordinates a transactional id or a group; retry while the coordinator moves.

        Raises:
            NotAuthorisedError: without DESCRIBE on the transactional id or group.
            UnreachableError: when no coordinator appears in ``seconds``.
        """
        what, topic, operation = _COORDINATED[kind]
        coordinated = remedy_of(NO_LEADER, self.alias, topic=topic)

        def away(reason: str, remedy: str) -> RetriableError:
            said = f"cluster {self.alias} has no coordinator for {what} {key}: {reason}"
            return RetriableError(UnreachableError(said, remedy=remedy))

        async def attempt() -> int:
            try:
                found = await self.ask_any(FindCoordinatorRequest(key, kind))
            except ConnectionLostError as lost:
                raise away("no broker answers", remedy_of("", self.alias)) from lost
            self.check_denied(found.error_code, f"{operation} on {what} {key}")
            if found.error_code != Code.NONE:
                raise away(name_of(found.error_code), coordinated)
            return self._coordinates(found)

        return await again(attempt, seconds, _LONGEST_PAUSE_SECONDS)

    async def find_coordinators(self, keys: Collection[str], kind: Coordinated) -> dict[str, Coordinator]:
        """Find the coordinators of several keys with one try each; an answer may be an error code instead.

        Raises:
            ConnectionLostError: when no broker answers.
        """
        try:
            found = await self.ask_any(FindCoordinatorsRequest(list(keys), kind))
        except UnsupportedByBrokerError:  # before Kafka 3.0
            answers = await asyncio.gather(*(self.ask_any(FindCoordinatorRequest(key, kind)) for key in keys))
            found = dict(zip(keys, answers, strict=True))
        for answer in found.values():
            if answer.error_code == Code.NONE:
                self._coordinates(answer)
        return found

    def _coordinates(self, found: Coordinator) -> int:
        """Remember a coordinator's address, which may be newer than the last metadata, and return its id."""
        self._brokers[found.node] = BrokerAddress(found.node, found.host, found.port)
        return found.node

    async def ask_any(self, request: WireRequest[A]) -> A:
        """Send a request to the known brokers until one answers, then by way of the bootstrap servers.

        Raises:
            ConnectionLostError: when no broker answers.
        """
        with suppress(ConnectionLostError):
            return await self._ask_known(request)
        try:
            await self.start()
        except UnreachableError as error:
            raise ConnectionLostError(str(error), _cause_of(error.__cause__), remedy=error.remedy) from error
        return await self._ask_known(request)

    async def _ask_known(self, request: WireRequest[A]) -> A:
        """Send a request to the known brokers until one answers; silent ones are asked last from then on."""
        nodes = sorted(self._brokers, key=self._slow.__contains__)
        if not nodes:
            raise ConnectionLostError(f"cluster {self.alias} lists no broker")
        asks = [partial(self.send, node, request, purpose="metadata") for node in nodes]
        which, answer = await first_answer(asks, (ConnectionLostError,))
        self._slow = self._slow - {nodes[which]} | set(nodes[:which])
        return answer

    def check_denied(self, code: int, what: str) -> None:
        """Raise `NotAuthorisedError`, naming the denied operation, for an authorisation error code."""
        if code in DENIED:
            raise NotAuthorisedError(
                f"cluster {self.alias} denies {what}: {name_of(code)}",
                remedy=remedy_of(name_of(code), self.alias),
            )


def _user(options: Mapping[str, Any]) -> tuple[Any, ...]:
    provider = options.get("sasl_oauth_token_provider")
    return options.get("sasl_mechanism"), options.get("sasl_plain_username"), getattr(provider, "user", None)


def _why(error: BaseException) -> str:
    """Why no connection opened, with the notes of `open_connection`."""
    noted = error.__cause__ if isinstance(error, TimeoutError) and error.__cause__ else error
    return "; ".join((str(error) or "no answer in time", *getattr(noted, "__notes__", ())))


def _cause_of(error: BaseException | None) -> str:
    """Why no bootstrap server introduced the cluster, as in `REMEDIES`; empty where none answered."""
    if isinstance(error, ConnectionLostError):
        return error.cause or CLOSED
    return next((cause for kind, cause in _REFUSALS.items() if isinstance(error, kind)), "")


async def retrying(attempt: Any, *, what: str, alias: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Repeat ``attempt``, which returns an error code and an answer, while the code is retriable.

    Args:
        attempt: Sends the request.
        what: The request, for the error.
        alias: The cluster's alias, for the remedy.
        seconds: How long to repeat.

    Raises:
        UnreachableError: when the code stays retriable, or the connection lost, for ``seconds``.
    """

    async def tried() -> Any:
        try:
            code, answer = await attempt()
        except ConnectionLostError as lost:
            remedy = lost.remedy or remedy_of(lost.cause, alias)
            raise RetriableError(UnreachableError(f"{what} failed: {lost}", remedy=remedy)) from lost
        if code in RETRIABLE:
            name = name_of(code)
            raise RetriableError(UnreachableError(f"{what} failed: {name}", remedy=remedy_of(name, alias)))
        return code, answer

    return await again(tried, seconds, _LONGEST_PAUSE_SECONDS)
