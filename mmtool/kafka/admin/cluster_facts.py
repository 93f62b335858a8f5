"""The `ClusterPort` of a real cluster: its id, its topics, and the bounds of its logs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import NoReturn, TypeVar

from confluent_kafka import KafkaException

from mmtool.config import ClusterSettings
from mmtool.errors import ConfigError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.clients import admin_client, blocking_wire
from mmtool.kafka.errors import TOO_OLD, ErrorSubject, failure_of, kind_of
from mmtool.kafka.groups.coordinators import partition_of, read_commit_times
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.logs.log_parts import read_parts
from mmtool.kafka.patience import seconds_for_each
from mmtool.kafka.ports import Answers, Bounds, LogPart, TransformsPort
from mmtool.kafka.wire.cluster import COMMITS, WireCluster
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import DescribeBrokerConfigRequest, TopicMetadata
from mmtool.kafka.wire.scan import Patience, read_bounds
from mmtool.plan.groups.names import GroupNames
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.topics.facts import TopicFacts, name_problem
from mmtool.translation.lockstep import Seen
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition, Unknown

T = TypeVar("T")

_LEADER_SECONDS = 3.0
"""Longest wait for a partition's leader, in seconds: a broker that just restarted leads nothing for a moment."""
_LARGE = 1_000_000
"""Records of ``__consumer_offsets`` above which it is not read: more would take over ten seconds."""
_RETENTION = "offsets.retention.minutes"
_DEFAULT_RETENTION_MINUTES = 7 * 24 * 60
_METADATA = "offset.metadata.max.bytes"
_DEFAULT_METADATA = 4096
_TRANSACTION = "transaction.max.timeout.ms"
_DEFAULT_TRANSACTION_MS = 900_000


def no_transforms() -> NoReturn:
    """Of a cluster that is no flow's source."""
    raise AssertionError("only records of a flow's source are read as they were mirrored")


class KafkaCluster:
    """A `ClusterPort`."""

    def __init__(
        self,
        settings: ClusterSettings,
        timeout_seconds: float,
        probe_seconds: float | None = None,
        names: GroupNames | None = None,
        transforms: Callable[[], TransformsPort] = no_transforms,
    ) -> None:
        """Take the cluster's settings and the longest time of one request, in seconds; of `probe`, where it differs.

        With ``names``, groups have their names on the flow's source; the cluster is its target. ``transforms`` makes
        those of the flow whose source the cluster is.
        """
        self._settings = settings
        self._names = names or GroupNames()
        self._transforms = transforms
        self._seconds = timeout_seconds
        self._probe_seconds = timeout_seconds if probe_seconds is None else probe_seconds
        self._wire = blocking_wire(settings, "facts", "admin", 3 * timeout_seconds, timeout_seconds)

    @property
    def alias(self) -> str:
        return self._settings.alias

    @cached_property
    def groups(self) -> KafkaGroups:
        return KafkaGroups(self._settings, self._seconds, self._names)

    def probe(self) -> ClusterId:
        client, heard = admin_client(self._settings)
        try:
            metadata = client.list_topics(timeout=self._probe_seconds)
        except KafkaException as error:
            # a refused login or certificate reaches this call as a time-out; the client itself has heard why
            client.poll(0)
            denied = [one for one in list(heard) if kind_of(one.code()) is ErrorSubject.DENIED]
            cause = denied[0] if denied else error.args[0]
            raise failure_of(self._settings, cause, "reading the cluster id") from error
        client.poll(0)
        heard.clear()  # it lets us in: what it said before explains no later silence
        if metadata.cluster_id is None:
            raise UnreachableError(
                f"cluster {self.alias} does not report its cluster id",
                remedy=f"check {self.alias}.bootstrap.servers; if it names the right cluster,"
                f" {TOO_OLD.format(alias=self.alias)}",
            )
        check_cluster_id(self._settings, metadata.cluster_id)
        return ClusterId(metadata.cluster_id)

    def topics(self) -> dict[str, TopicFacts]:
        return {
            name: TopicFacts(name, topic.topic_id, len(topic.partitions))
            for name, topic in self._described(None).items()
            if topic.error_code == Code.NONE
        }

    def lacks(self, topics: Collection[str]) -> frozenset[str]:
        """See `ClusterPort.lacks`; asked by name, since a list of all topics omits those without DESCRIBE."""
        found = self._described(topics) if topics else {}
        absent = Code.UNKNOWN_TOPIC_OR_PARTITION
        return frozenset(name for name, topic in found.items() if topic.error_code == absent)

    def _described(self, names: Collection[str] | None) -> dict[str, TopicMetadata]:
        """Describe the named topics, or (None) all that mmtool may see; each carries its own error code."""
        return self._wire.ask(lambda wire: wire.refresh(names), "listing topics")

    def bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, Bounds]:
        patience = Patience(answer=self._seconds, leader=self._seconds)
        return self._bounds(
            [p for p in partitions if not name_problem(p.topic)], patience, committed
        ).complete()

    def bounds_each(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> Answers[TopicPartition, Bounds]:
        leader = min(self._seconds / 2, _LEADER_SECONDS)
        patience = Patience(answer=seconds_for_each(self._seconds), leader=leader)
        return self._bounds(partitions, patience, committed)

    def _bounds(
        self, partitions: Collection[TopicPartition], patience: Patience, committed: bool
    ) -> Answers[TopicPartition, Bounds]:
        if not partitions:
            return Answers()
        return self._wire.ask(
            lambda wire: read_bounds(wire, partitions, patience, committed=committed), "reading offsets"
        )

    def records(self, parts: Collection[LogPart], *, committed: bool) -> dict[LogPart, list[Seen]]:
        return self.records_each(parts, committed=committed).complete()

    def records_each(self, parts: Collection[LogPart], *, committed: bool) -> Answers[LogPart, list[Seen]]:
        return read_parts(
            self._settings, parts, self._seconds, read_committed=committed, transforms=self._transforms
        )

    def offsets_retention_seconds(self) -> float:
        """See `ClusterPort.offsets_retention_seconds`; without DESCRIBE_CONFIGS on the cluster, Kafka's default."""
        return 60.0 * self._broker_number(_RETENTION, _DEFAULT_RETENTION_MINUTES)

    def known_offsets_retention(self) -> float | Unknown:
        """See `ClusterPort.known_offsets_retention`."""
        minutes = self._broker_number(_RETENTION, UNKNOWN)
        return UNKNOWN if minutes is UNKNOWN else 60.0 * minutes

    def commit_times(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, int]]:
        """See `ClusterPort.commit_times`."""
        named = {self._names.there(group): group for group in groups}
        known = self._described([COMMITS])[COMMITS].partitions if groups else []
        if not known:
            return {}
        partitions = {partition_of(group, len(known)) for group in named}
        bounds = self.bounds_each([TopicPartition(COMMITS, number) for number in partitions])
        if sum(log.log_end - log.log_start for log in bounds.values()) > _LARGE:
            return {}
        try:
            places = {place.partition for place in bounds}
            times = read_commit_times(self._settings, COMMITS, places, named.keys())
            return {named[name]: of for name, of in times.items()}
        except NotAuthorisedError:
            return {}

    def longest_metadata(self) -> int:
        """See `ClusterPort.longest_metadata`; without DESCRIBE_CONFIGS on the cluster, Kafka's default."""
        return int(self._broker_number(_METADATA, _DEFAULT_METADATA))

    def longest_transaction_seconds(self) -> float:
        """See `ClusterPort.longest_transaction_seconds`; without DESCRIBE_CONFIGS on the cluster, Kafka's default."""
        return self._broker_number(_TRANSACTION, _DEFAULT_TRANSACTION_MS) / 1000

    def _broker_number(self, name: str, unknown: T) -> float | T:
        async def asked(wire: WireCluster) -> str | None:
            await wire.refresh(())
            node = min(wire.nodes)
            return (await wire.send(node, DescribeBrokerConfigRequest(node, [name]))).values.get(name)

        value = self._wire.ask(asked, "reading a property of a broker")
        return unknown if value is None else float(value)


def check_cluster_id(settings: ClusterSettings, answered: str) -> None:
    """Check the cluster id that the brokers reported against ``ALIAS.mmtool.cluster.id``.

    Raises:
        RefusedError: the ids differ.
    """
    expected = settings.expected_cluster_id
    if expected is not None and expected != answered:
        raise RefusedError(
            f"the brokers of {settings.alias} report cluster id {answered}, but the properties file expects {expected}",
            remedy=f"check {settings.alias}.bootstrap.servers and {settings.alias}.mmtool.cluster.id",
            code="wrong_cluster",
        )


def check_distinct(flow: FlowIdentity) -> None:
    """Check that a flow's two aliases are two clusters.

    Raises:
        ConfigError: they are one.
    """
    source, target = flow.source_alias, flow.target_alias
    if flow.source_id == flow.target_id:
        raise ConfigError(
            f"{source} and {target} are the same cluster, {flow.source_id}",
            remedy=f"check {source}.bootstrap.servers and {target}.bootstrap.servers: each must name the brokers of its"
            " own cluster",
        )
