"""The data types of what `mmtool doctor` asks a cluster; `cluster_details` asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.config.credentials import Security
    from mmtool.kafka.wire.acls import Rights
    from mmtool.kafka.wire.api_versions import SpokenApis
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


class CertificateFault(StrEnum):
    """Why a broker's certificate is not accepted, as far as the remedies differ."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    OTHER_HOST = "other host"


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
        fault: Of a certificate that is not accepted; None for any other reason.
    """

    entrance: Entrance
    address: str
    broker: int | None
    failed: Stage | None = None
    reason: str = ""
    certificate: bytes | None = field(default=None, repr=False)
    apis: SpokenApis | None = None
    fault: CertificateFault | None = None


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
