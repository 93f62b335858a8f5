"""The port and data types of what `mmtool doctor` asks a cluster; `cluster_details` implements the port."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mmtool.config.settings import Security
    from mmtool.kafka.logs.hole_sample import HoleQuestion, HoleSample
    from mmtool.kafka.ports import Answers
    from mmtool.kafka.wire.acls import Rights
    from mmtool.kafka.wire.api_versions import SpokenApis
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.translation.types import TopicPartition


class Stage(StrEnum):
    """The stage at which connecting to a listener failed."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    CLIENT_CERTIFICATE = "client certificate"
    ANSWER = "answer"
    PROTOCOL = "protocol"
    MECHANISM = "mechanism"
    NO_LOGIN = "no login"
    LOGIN = "login"
    PROOF = "proof"


class Entrance(NamedTuple):
    """A list of bootstrap servers in the properties file: some clients of mmtool have one of their own.

    Attributes:
        name: ``A``, or ``A.producer`` where that client's settings differ.
        servers: Its ``host:port`` addresses.
    """

    name: str
    servers: tuple[str, ...]
    security: Security


@dataclass(frozen=True, slots=True)
class ListenerAnswer:
    """The result of connecting to one listener.

    Attributes:
        address: ``host:port``.
        broker: The id of the broker that advertises it; None for a bootstrap server.
        failed: The stage that failed; None where the login succeeded.
        reason: Why, in words.
        certificate: The broker's own, DER; None without TLS, or where none was shown.
        apis: The APIs that it supports, where it answered.
    """

    entrance: Entrance
    address: str
    broker: int | None
    failed: Stage | None = None
    reason: str = ""
    certificate: bytes | None = field(default=None, repr=False)
    apis: SpokenApis | None = None


class Replicas(NamedTuple):
    """The leader and replicas of a partition.

    Attributes:
        leader: None while the partition has no leader.
    """

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic as its metadata describes it.

    Attributes:
        partitions: In the order of their numbers.
        rights: The operations that mmtool may do on it; UNKNOWN from brokers before 2.8.
    """

    name: str
    partitions: tuple[Replicas, ...]
    rights: Rights | Unknown = UNKNOWN


@dataclass(frozen=True, slots=True)
class LogDir:
    """A broker's log directory.

    Attributes:
        path: On the broker.
        failure: Why it is offline; empty where it works.
        total, usable: Bytes of its volume; UNKNOWN from brokers before 3.3 (KIP-827).
        sizes: Bytes of the requested partitions.
    """

    path: str
    failure: str
    total: int | Unknown
    usable: int | Unknown
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)


class SizeQuestion(NamedTuple):
    """The records of a partition whose size is to be checked.

    Attributes:
        start, end: Their offsets.
        limit: Bytes that a batch may have.
    """

    start: int
    end: int
    limit: int


class SizeSample(NamedTuple):
    """The result of a sample of a partition.

    Attributes:
        looked_bytes: The size of the batches that were read.
        read_to: The offset behind the last of them.
        is_whole: They cover the whole requested range.
        offset: Of the first record that fits no batch; None where none was found.
        size: Bytes that it needs.
    """

    looked_bytes: int
    read_to: int
    is_whole: bool
    offset: int | None = None
    size: int = 0


class ClusterDetailsPort(Protocol):
    """Read-only requests to one cluster: no call writes, creates or joins anything.

    Every call but `listeners` raises `UnreachableError` or `NotAuthorisedError` when the cluster does not answer, or
    not us.
    """

    @property
    def alias(self) -> str: ...

    @property
    def principal(self) -> str:
        """mmtool's own principal on the cluster, as ``User:mm``, as far as the settings show it."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers: ``host:port``, separated by commas."""

    def listeners(self) -> Sequence[ListenerAnswer]:
        """Try each bootstrap server and each advertised listener, all at the same time."""

    def brokers(self) -> Mapping[int, str]:
        """``host:port`` of each live broker, by broker id."""

    def topics(self) -> Mapping[str, TopicDetails]:
        """Every topic that mmtool may DESCRIBE, by name."""

    def hidden(self, topics: Collection[str]) -> frozenset[str]:
        """The given topics that mmtool may not DESCRIBE."""

    def configs(
        self, topics: Collection[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, ConfigEntry]]:
        """Read the named configs of topics; topics without DESCRIBE_CONFIGS are left out."""

    def broker_configs(self, names: Collection[str]) -> Mapping[int, Mapping[str, str | None]]:
        """Read the named configs of each broker; brokers that do not show them are left out."""

    def log_dirs(self, topics: Collection[str]) -> Answers[int, tuple[LogDir, ...]]:
        """Each broker's log directories, with the sizes of the given topics.

        Brokers without an answer are in ``failed``.
        """

    def rights(self) -> Rights | Unknown:
        """mmtool's rights on the cluster resource; UNKNOWN from brokers before 2.8."""

    def has_authorizer(self) -> bool:
        """Whether the cluster has an authorizer."""

    def uncreatable(self, topics: Collection[str]) -> Mapping[str, str]:
        """The given topics that do not exist and that mmtool may not create, each with the broker's reason.

        Validated only: no topic is created.
        """

    def unclaimable(self, transactional_ids: Collection[str]) -> frozenset[str]:
        """The given transactional ids that mmtool may not WRITE; no epoch is taken."""

    def unreadable_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not READ; none is joined, and none has to exist."""

    def undeletable_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not DELETE; nothing is deleted."""

    def hidden_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not DESCRIBE."""

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Answers[TopicPartition, int | None]:
        """The first offset at or after a timestamp (ms since 1970), by partition; None without such a record."""

    def size_samples(
        self, questions: Mapping[TopicPartition, SizeQuestion]
    ) -> Answers[TopicPartition, SizeSample]:
        """Whether records fit the target's limit, from a sample of each partition; needs READ on the topics."""

    def hole_samples(
        self, questions: Mapping[TopicPartition, HoleQuestion]
    ) -> Answers[TopicPartition, HoleSample]:
        """The offsets without a record, from a sample of each partition; needs READ on the topics."""

    def marker_trip_seconds(self) -> float:
        """The time of a request for transaction markers, as `check_markers` sends it; raises its errors, too."""
