"""What a real cluster is: its id, its topics, the bounds of its logs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as LibraryPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.clients import librdkafka_config, new_client
from mmtool.kafka.commit_log import partition_of, read_commit_times
from mmtool.kafka.errors import Kind, failure_of, kind_of
from mmtool.kafka.groups import KafkaGroups
from mmtool.kafka.log_parts import read_parts
from mmtool.kafka.patience import ask, result
from mmtool.kafka.ports import Bounds
from mmtool.kafka.wire.cluster import COMMITS
from mmtool.kafka.wire.codec import known_as, topic_id_from_bytes
from mmtool.plan.topics import TopicFacts
from mmtool.translation.types import ClusterId, TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mmtool.config import ClusterSettings
    from mmtool.kafka.ports import LogPart
    from mmtool.translation.lockstep import Seen

A = TypeVar("A")

_SPARE_SECONDS = 5.0
_PER_REQUEST = 5_000
"""Topics or partitions in one call: the library sends one request to each broker for all of them."""
_WORD = 1 << 64
_LARGE = 1_000_000
"""Records of ``__consumer_offsets``, some ten seconds of reading."""
_RETENTION = "offsets.retention.minutes"
_DEFAULT_RETENTION_MINUTES = 7 * 24 * 60
_METADATA = "offset.metadata.max.bytes"
_DEFAULT_METADATA = 4096


class _FencedError(UnreachableError):
    """The client knows an older epoch of a leader than the leader itself."""


class KafkaCluster:
    """A `ClusterPort`. Its admin client lives as long as this object, or until what it remembers is too old."""

    def __init__(self, settings: ClusterSettings, timeout_seconds: float) -> None:
        """Say which cluster, and how long one request may take."""
        self._settings = settings
        self._seconds = timeout_seconds
        self._said: list[Any] = []
        self._client = self._new_client()

    def _new_client(self) -> AdminClient:
        config = librdkafka_config(self._settings, role="admin", client_id_suffix="facts")
        return new_client(AdminClient, config | {"error_cb": self._said.append}, self._settings)

    @property
    def alias(self) -> str:
        return self._settings.alias

    @cached_property
    def groups(self) -> KafkaGroups:
        return KafkaGroups(self._settings, self._seconds)

    def probe(self) -> ClusterId:
        metadata = self._metadata("asking for its id")
        if metadata.cluster_id is None:
            raise UnreachableError(
                f"cluster {self.alias} does not tell its id",
                remedy="mmtool needs brokers that answer Metadata v2 (Kafka 0.10.1) or later",
            )
        check_cluster_id(self._settings, metadata.cluster_id)
        return ClusterId(metadata.cluster_id)

    def topics(self) -> dict[str, TopicFacts]:
        names = [name for name, topic in self._metadata("listing topics").topics.items() if not topic.error]
        answers = self._described(names, self._take)
        return {
            name: TopicFacts(name, known_as(name, topic_id_of(answer.topic_id)), len(answer.partitions))
            for name, answer in answers.items()
            if answer is not None
        }

    def lacks(self, topics: Collection[str]) -> frozenset[str]:
        """See `ClusterPort.lacks`; a list of all topics leaves out what may not be described."""

        def is_there(name: str, future: Any) -> bool:
            try:
                return self._take(name, future) is not None
            except NotAuthorisedError:
                return True

        answers = self._described(topics, is_there)
        return frozenset(name for name, there in answers.items() if not there)

    def _described(self, names: Collection[str], take: Callable[[str, Any], A]) -> dict[str, A]:
        def send(some: list[str]) -> Any:
            return self._client.describe_topics(TopicCollection(some), request_timeout=self._seconds)

        return ask(names, send, take, self._seconds, at_once=_PER_REQUEST)

    def bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, Bounds]:
        """See `ClusterPort.bounds`.

        The library remembers for a while that a topic was not there, and for 15 minutes an epoch of a leader that has
        been away and has another one since; a client that has never asked knows better, so what is missing or fenced
        is asked again through a new one.
        """
        try:
            found = self._bounds(partitions, committed=committed)
        except _FencedError:
            self._client = self._new_client()
            found = self._bounds(partitions, committed=committed)
        missing = [place for place in partitions if place not in found]
        if missing:
            fresh = KafkaCluster(self._settings, self._seconds)
            found |= fresh._bounds(missing, committed=committed)
        return found

    def _bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, Bounds]:
        """Starts are asked before ends: retention can only make the gap larger."""
        starts = self._offsets(partitions, OffsetSpec.earliest(), committed=False)
        ends = self._offsets(list(starts), OffsetSpec.latest(), committed=committed)
        return {place: Bounds(min(starts[place], end), end) for place, end in ends.items()}

    def records(self, parts: Collection[LogPart], *, committed: bool) -> dict[LogPart, list[Seen]]:
        return read_parts(self._settings, parts, self._seconds, read_committed=committed)

    def offsets_retention_seconds(self) -> float:
        """See `ClusterPort.offsets_retention_seconds`; without DESCRIBE_CONFIGS on the cluster, Kafka's own default."""
        return 60.0 * self._broker_number(_RETENTION, _DEFAULT_RETENTION_MINUTES)

    def commit_times(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, int]]:
        """See `ClusterPort.commit_times`."""
        known = self._metadata("listing topics").topics.get(COMMITS)
        if known is None or known.error or not groups:
            return {}
        partitions = {partition_of(group, len(known.partitions)) for group in groups}
        bounds = self.bounds([TopicPartition(COMMITS, number) for number in partitions])
        if sum(log.log_end - log.log_start for log in bounds.values()) > _LARGE:
            return {}
        try:
            return read_commit_times(self._settings, COMMITS, partitions, groups)
        except NotAuthorisedError:
            return {}

    def longest_metadata(self) -> int:
        """See `ClusterPort.longest_metadata`; as above."""
        return int(self._broker_number(_METADATA, _DEFAULT_METADATA))

    def _broker_number(self, name: str, default: float) -> float:
        metadata = self._metadata("listing brokers")
        broker = ConfigResource(ConfigResource.Type.BROKER, str(min(metadata.brokers)))
        try:
            (future,) = self._client.describe_configs([broker], request_timeout=self._seconds).values()
            return float(future.result(self._seconds + _SPARE_SECONDS)[name].value)
        except (KafkaException, KeyError, TimeoutError):
            return default

    def _offsets(
        self, partitions: Collection[TopicPartition], spec: Any, *, committed: bool
    ) -> dict[TopicPartition, int]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def send(some: list[TopicPartition]) -> dict[TopicPartition, Any]:
            asked = self._client.list_offsets(
                {LibraryPartition(place.topic, place.partition): spec for place in some},
                isolation_level=level,
                request_timeout=self._seconds,
            )
            return {TopicPartition(p.topic, p.partition): future for p, future in asked.items()}

        answers = ask(partitions, send, self._take, self._seconds, at_once=_PER_REQUEST)
        return {place: answer.offset for place, answer in answers.items() if answer is not None}

    def _take(self, key: object, future: Any) -> Any:
        """A future's answer, or None when what was asked about is not there."""

        def failure(error: Any) -> MmtoolError | None:
            if kind_of(error.code()) is Kind.GONE:
                return None
            what = f"asking about {key}"
            if error.code() == KafkaError.FENCED_LEADER_EPOCH:
                # not handed on as an answer that passes: this client would get it for 15 minutes
                raise _FencedError(f"cluster {self.alias} failed at {what}: {error}")
            return failure_of(self._settings, error, what)

        return result(future, self._seconds + _SPARE_SECONDS, failure)

    def _metadata(self, what: str) -> Any:
        try:
            found = self._client.list_topics(timeout=self._seconds)
        except KafkaException as error:
            # a refused login or certificate reaches this call as a time-out; the client itself has heard why
            self._client.poll(0)
            said = [heard for heard in self._said if kind_of(heard.code()) is Kind.DENIED]
            raise failure_of(self._settings, said[0] if said else error.args[0], what) from error
        self._client.poll(0)
        self._said.clear()  # it lets us in: what it said before explains no later silence
        return found


def check_cluster_id(settings: ClusterSettings, answered: str) -> None:
    """Compare a cluster's answer with ``ALIAS.mmtool.cluster.id``.

    Raises:
        RefusedError: It is another cluster than the one that the configuration names.
    """
    expected = settings.expected_cluster_id
    if expected is not None and expected != answered:
        raise RefusedError(
            f"{settings.alias} answers as cluster {answered}, not {expected}",
            remedy=f"check {settings.alias}.bootstrap.servers and {settings.alias}.mmtool.cluster.id",
            code="wrong_cluster",
        )


def topic_id_of(uuid: Any) -> TopicId:
    """Kafka's own form of a topic id; the library's text is of another alphabet (``+/`` for ``-_``)."""
    halves = (uuid.get_most_significant_bits() % _WORD, uuid.get_least_significant_bits() % _WORD)
    octets = b"".join(half.to_bytes(8, "big") for half in halves)
    return topic_id_from_bytes(octets)
