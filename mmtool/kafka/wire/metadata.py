"""Metadata (API 3): brokers and leaders, with topic ids; log starts and ends, configs and disks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mmtool.kafka.errors import problem_of
from mmtool.kafka.wire.acls import RIGHTS, Rights
from mmtool.kafka.wire.codec import NO_TOPIC_ID, known_as
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import KINDS, FieldType, array_of, by_key, by_topic, only, row, single
from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition, Unknown


class BrokerAddress(NamedTuple):
    """One broker, as its cluster advertises it."""

    node: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, with an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartitionLeader(NamedTuple):
    """The leader and replicas of a partition; ``error_code`` 5 and ``leader`` None while there is none."""

    partition: int
    error_code: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """One topic; where it has no id its name takes the id's place (see `known_as`).

    Attributes:
        rights: The client's operations on it, where they were requested and the broker returns them.
    """

    name: str
    topic_id: TopicId
    error_code: int
    partitions: list[PartitionLeader]
    rights: Rights | Unknown = UNKNOWN


class MetadataAnswer(NamedTuple):
    """A cluster as one broker sees it."""

    cluster_id: str
    brokers: list[BrokerAddress]
    topics: list[TopicMetadata]


def _topic(name: str, topic_id: TopicId = NO_TOPIC_ID, **others: Any) -> TopicMetadata:
    return TopicMetadata(name, known_as(name, topic_id), **others)


class MetadataRequest(WireRequest[MetadataAnswer], api=3, versions=(7, 11, 12), flexible=9):
    """Metadata of ``topics``, or of every topic that the client may see when it is None; never creates one.

    ``with_rights``: and what we may do with them (KIP-430).
    """

    topics: Sequence[str] | None
    with_rights: bool = False
    BODY = row(
        "topics:topics _create:bool=0 with_rights:bool@8",
        topics=array_of(row("_id:uuid=zero@10 name:string")).converted(
            out=lambda names: names and [{"name": name} for name in names]
        ),
    )
    _PARTITION = row(
        "error_code:int16 partition:int32 leader:leader leader_epoch:int32"
        " replicas:[int32] in_sync:[int32] _offline:[int32]",
        PartitionLeader,
        leader=KINDS["int32"].converted(lambda node: None if node < 0 else node),
    )
    _TOPIC = row(
        "error_code:int16 name:string topic_id:uuid@10 _internal:bool partitions:[partition] rights:rights@8",
        _topic,
        partition=_PARTITION,
        rights=RIGHTS,
    )
    ANSWER = row(
        "_throttle:int32 brokers:[broker] cluster_id:string _controller:int32 topics:[topic]",
        MetadataAnswer,
        broker=row("node:int32 host:string port:int32 _rack:string", BrokerAddress),
        topic=_TOPIC,
    )


LATEST = -1
EARLIEST = -2

CLIENT = -1
NO_REPLICA = 2**31 - 1
"""A replica id that no broker has: `LATEST` is then the end of the leader's log, not its high watermark."""


class ListedOffset(NamedTuple):
    """One answer; ``offset`` is -1 on the wire when no record is at or after the requested time."""

    error_code: int
    offset: int


class ListOffsetsRequest(WireRequest[dict[TopicPartition, ListedOffset]], api=2, versions=(4, 5)):
    """Offsets at ``timestamps`` (ms since 1970, or EARLIEST, LATEST), sorted by partition.

    With ``read_committed`` the end is the last stable offset.
    """

    timestamps: Mapping[TopicPartition, int]
    read_committed: bool
    replica: int = CLIENT
    BODY = row(
        "replica:int32 read_committed:bool timestamps:times",
        times=by_topic("_leader_epoch:int32=-1 timestamp:int64").converted(
            out=lambda timestamps: {place: {"timestamp": when} for place, when in timestamps.items()}
        ),
    )
    ANSWER = row(
        "_throttle:int32 offsets:listed",
        only,
        listed=by_topic("error_code:int16 _timestamp:int64 offset:int64 _leader_epoch:int32", ListedOffset),
    )


class DeleteRecordsRequest(WireRequest[dict[TopicPartition, int]], api=21, versions=(0, 1, 2), flexible=2):
    """Moves log starts up to ``before``; sent to the leader of the partitions. The answer has their error codes.

    Answered once the logs of all live replicas begin there; an offset below a log's start changes nothing.
    """

    before: Mapping[TopicPartition, int]
    timeout_ms: int
    BODY = row(
        "before:offsets timeout_ms:int32",
        offsets=by_topic("offset:int64").converted(
            out=lambda before: {place: {"offset": offset} for place, offset in before.items()}
        ),
    )
    ANSWER = row("_throttle:int32 codes:codes", only, codes=by_topic("_low_watermark:int64 error_code:int16"))


_TOPIC = 2
_BROKER = 4
_GROUP = 32
_NOT_TOLD = -1
_OWN, _DEFAULTS = frozenset({1, 8}), frozenset({4, 5})
"""Kafka's numbers of a config's source (KIP-226): set on the topic or group itself; set in ``server.properties`` or
Kafka's default."""


class DescribedConfig(NamedTuple):
    """The answer about one topic or broker."""

    error_code: int
    entries: dict[str, ConfigEntry]

    @property
    def values(self) -> dict[str, str | None]:
        """The values alone; None for one that the broker hides (KIP-226: it may be a secret)."""
        return {name: entry.value for name, entry in self.entries.items()}


def _configs_of(kind: int, resources: Callable[[dict[str, Any]], Iterable[object]]) -> FieldType:
    """The schema of a request for some ``names`` of properties of some resources, which it has in its fields."""
    resource = row("kind:int8 name:string names:[string]")
    return row("resources:[resource] _with_synonyms:bool=0", resource=resource).converted(
        out=lambda fields: {
            "resources": [
                {"kind": kind, "name": str(one), "names": fields["names"]} for one in resources(fields)
            ]
        }
    )


def _entry(value: str | None, source: int, is_read_only: bool, is_sensitive: bool) -> ConfigEntry:
    return ConfigEntry(
        value,
        ConfigOrigin.DEFAULT if source in _DEFAULTS else ConfigOrigin.OVERRIDE,
        on_topic=source in _OWN,
        carried=not is_read_only and not is_sensitive,
    )


_CONFIGS = by_key(
    "error_code:int16 _message:string _kind:int8 key:string entries:entries",
    DescribedConfig,
    entries=by_key(
        "key:string value:nullable is_read_only:bool source:int8 is_sensitive:bool _synonyms:[synonym]",
        _entry,
        synonym=row("_name:string _value:nullable _source:int8"),
    ),
)


class DescribeTopicConfigsRequest(
    WireRequest[dict[str, DescribedConfig]], api=32, versions=(1,), name="DescribeConfigs"
):
    """Some properties of some topics, by topic; those that a broker does not know are not among them."""

    topics: Collection[str]
    names: Collection[str]
    BODY = _configs_of(_TOPIC, lambda fields: fields["topics"])
    ANSWER = row("_throttle:int32 configs:configs", only, configs=_CONFIGS)


class DescribeBrokerConfigRequest(
    WireRequest[DescribedConfig], api=32, versions=(1,), name="DescribeConfigs"
):
    """Some properties of one broker; sent to that broker. Those that are not set are not among them."""

    node: int
    names: Collection[str]
    BODY = _configs_of(_BROKER, lambda fields: [fields["node"]])
    ANSWER = row(
        "_throttle:int32 configs:configs", lambda configs: single(configs.values()), configs=_CONFIGS
    )


class DescribeGroupConfigsRequest(
    WireRequest[dict[str, DescribedConfig]], api=32, versions=(1,), name="DescribeConfigs"
):
    """All properties of some groups, by group (KIP-848)."""

    groups: Collection[str]
    names: Collection[str] | None = None
    BODY = _configs_of(_GROUP, lambda fields: fields["groups"])
    ANSWER = row("_throttle:int32 configs:configs", only, configs=_CONFIGS)


class AlterGroupConfigsRequest(WireRequest[int], api=44, versions=(0,), name="IncrementalAlterConfigs"):
    """Sets some properties of one group; the answer is an error code."""

    group: str
    values: Mapping[str, str]
    BODY = row(
        "resources:[resource] _validate_only:bool=0",
        resource=row(
            "kind:int8 name:string values:[value]", value=row("name:string _operation:int8=0 value:string")
        ),
    ).converted(
        out=lambda fields: {
            "resources": [
                {
                    "kind": _GROUP,
                    "name": fields["group"],
                    "values": [{"name": name, "value": value} for name, value in fields["values"].items()],
                }
            ]
        }
    )
    ANSWER = row(
        "_throttle:int32 codes:codes",
        lambda codes: single(codes.values()),
        codes=by_key("error_code:int16 _message:string _kind:int8 key:string", only),
    )


class LogDir(NamedTuple):
    """One log directory of the broker that answered.

    Attributes:
        failure: Why it is offline; empty where it works.
        path: On the broker.
        sizes: Bytes of the requested partitions, future replicas left out.
        total, usable: Bytes of its volume; UNKNOWN from brokers before 3.3 (KIP-827).
    """

    failure: str
    path: str
    sizes: dict[TopicPartition, int]
    total: int | Unknown = UNKNOWN
    usable: int | Unknown = UNKNOWN


class DescribedLogDirs(NamedTuple):
    """A broker's answer. Before version 3 a missing right gives an empty list of directories."""

    error_code: int
    directories: tuple[LogDir, ...]


def _kept(sizes: dict[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {place: size for place, size in sizes.items() if size is not None}


class DescribeLogDirsRequest(WireRequest[DescribedLogDirs], api=35, versions=(1, 3, 4), flexible=2):
    """The broker's log directories, with the sizes of its replicas of some topics."""

    topics: Mapping[str, int]
    BODY = row(
        "topics:topics",
        topics=array_of(row("name:string partitions:[int32]")).converted(
            out=lambda topics: [{"name": name, "partitions": range(n)} for name, n in topics.items()]
        ),
    )
    _DIRECTORY = row(
        "failure:failure path:string sizes:sizes total:volume@4 usable:volume@4",
        LogDir,
        failure=KINDS["int16"].converted(lambda code: str(problem_of(code)) if code else ""),
        sizes=by_topic(
            "size:int64 _lag:int64 is_future:bool", lambda size, is_future: None if is_future else size
        ).converted(_kept),
        volume=KINDS["int64"].converted(lambda octets: UNKNOWN if octets == _NOT_TOLD else octets),
    )
    ANSWER = row(
        "_throttle:int32 error_code:int16@3 directories:directories",
        partial(DescribedLogDirs, error_code=0),
        directories=array_of(_DIRECTORY).converted(tuple),
    )
