"""The records of ``mmtool-control.<source>.internal`` and ``mmtool-producers.internal``: bytes <-> values.

Every value is one JSON object with ``v`` (the format's version) and ``crc`` (CRC-32 over the rest in canonical
form). A value whose checksum or version is wrong is refused, never guessed.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Self, TypedDict
from zlib import crc32

from mmtool.plan.records.shapes import misfit
from mmtool.plan.words import are, counted, joined
from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.names import DEAD_LETTER_SUFFIX

VERSION = 1


class UnreadableDocumentError(ValueError):
    """A stored value is of another version, or damaged."""


class OffsetKind(StrEnum):
    """The offsets that mirrored records have on the target (``mmtool.offsets``). The value is what users see."""

    TRANSLATED = "translated"
    SAME = "same"

    @classmethod
    def of(cls, same: object) -> OffsetKind:
        """The kind of a mirror, by whether it keeps its source's offsets."""
        return cls.SAME if same else cls.TRANSLATED


class State(StrEnum):
    """The state of a partition's mirror (the contract's words); ``idle`` is derived and never stored."""

    STARTING = "starting"
    RUNNING = "running"
    CAUGHT_UP = "caught_up"
    PAUSED = "paused"
    HALTED = "halted"
    FAILED_OVER = "failed_over"
    WAITING = "waiting"
    IDLE = "idle"
    NEVER_RAN = "never_ran"


class Command(StrEnum):
    """The commands of a flow's owner to its workers."""

    RUN = "run"
    STOP = "stop"
    REPLAN = "replan"


class Checked(TypedDict):
    """What `encode` adds to a document.

    Attributes:
        v: The version of the format.
        crc: The CRC-32 of the document without this field, in its canonical form.
    """

    v: int
    crc: int


def encode(document: dict[str, Any]) -> bytes:
    """Encode a document as canonical JSON with its version and checksum."""
    body = {**document, "v": VERSION}
    before = _canonical({name: body[name] for name in body if name < "crc"})[:-1]
    behind = _canonical({name: body[name] for name in body if name > "crc"})[1:]  # at least the version
    joint = b"," if before != b"{" else b""
    return b'%s%s"crc":%d,%s' % (before, joint, crc32(before + joint + behind), behind)


def decode(value: bytes) -> dict[str, Any]:
    """Decode a stored value, and check its version and checksum.

    Raises:
        UnreadableDocumentError: The value is damaged, or of another version.
    """
    try:
        body = parse_json(value)
        stated = body.pop("crc")
        is_whole = stated == _crc_as_it_lies(value) or stated == crc32(_canonical(body))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise UnreadableDocumentError(f"not in mmtool's format: {value[:60]!r}") from error
    if body.get("v") != VERSION:
        raise UnreadableDocumentError(
            f"format version {body.get('v')} instead of {VERSION}: another version of mmtool wrote it"
        )
    if not is_whole:
        raise UnreadableDocumentError(
            "the checksum is wrong: the content was changed or damaged after mmtool wrote it"
        )
    del body["v"]
    return dict(body)


def _crc_as_it_lies(value: bytes) -> int:
    """CRC-32 of the stored bytes without the checksum field: a large document need not be encoded again.

    No string contains the searched bytes, as quotes in it are escaped. Where an object after the checksum has a ``crc``
    field of its own, the result matches nothing, and `decode` encodes the document to check it.
    """
    before, _, behind = value.rpartition(b'"crc":')
    return crc32(before + behind.partition(b",")[2])


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=asdict
    ).encode()


class Document:
    """A frozen dataclass that is stored as one record.

    Attributes:
        PREFIX: How its key begins.
        BY: The fields that follow in the key, where a topic holds several documents of the type.
    """

    __slots__ = ()
    PREFIX: ClassVar[str]
    BY: ClassVar[tuple[str, ...]] = ()

    @property
    def key(self) -> bytes:
        return (self.PREFIX + "/".join(str(getattr(self, name)) for name in self.BY)).encode()

    def encode(self) -> bytes:
        known = fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return encode({field.name: getattr(self, field.name) for field in known})

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Decode a document; missing fields take their defaults, and unknown fields are ignored.

        Raises:
            UnreadableDocumentError: The value is damaged, a field without a default is missing, or one is of another
                type.
        """
        body = decode(value)
        known = fields(cls)  # type: ignore[arg-type]  # a dataclass
        for field in known:
            if field.name not in body and field.default is MISSING is field.default_factory:
                raise UnreadableDocumentError(f"the field {field.name!r} of {cls.__name__} is missing")
        given = {field.name: body[field.name] for field in known if field.name in body}
        if wrong := misfit(cls, given):
            raise UnreadableDocumentError(f"the field {wrong!r} of {cls.__name__} is of another type")
        return cls(**given)


@dataclass(frozen=True, slots=True)
class FlowRecord(Document):
    """Written at a flow's first start and compared at every later one."""

    PREFIX = "flow"

    source_cluster_id: str
    target_cluster_id: str
    source_alias: str
    target_alias: str
    shards: int


@dataclass(frozen=True, slots=True)
class ShardRecord(Document):
    """The producer id and epoch of a shard's claim. ``open`` until its owner closed it cleanly; open means in doubt."""

    PREFIX = "shard/"
    BY = ("shard",)

    shard: int
    producer_id: int
    epoch: int
    open: bool
    owner: str


@dataclass(frozen=True, slots=True)
class OwnerRecord(Document):
    """The owner of a flow, since when, and its host and process; written before its first claim."""

    PREFIX = "owner"

    owner: str
    host: str
    pid: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ControlRecord(Document):
    """An owner's command to its workers about a round.

    Each owner has a key of its own: a late command of a replaced owner reaches no other owner's workers.
    """

    PREFIX = "control/"
    BY = ("owner",)

    owner: str
    command: Command
    round: int


@dataclass(frozen=True, slots=True)
class OffsetWritersRecord(Document):
    """The producer ids by which a flow writes mirrors with the source's own offsets, the same for each owner.

    Attributes:
        data_producer: Of the records: its sequence numbers go on, from owner to owner.
        fill_producer: Of the markers at offsets where the source has no record.
        epoch: Of the data producer, from 0; each failover to the target raises it, which shuts out all writers before.
    """

    PREFIX = "offset_writers"

    data_producer: int
    fill_producer: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class PrefillRecord(Document):
    """A target topic whose ``cleanup.policy`` is ``delete`` while a prefill moves the ends of its logs.

    Attributes:
        policy: The topic's own policy before, which it gets again; None where it had the brokers' default.
    """

    PREFIX = "prefill/"
    BY = ("target_topic",)

    target_topic: str
    target_topic_id: str
    policy: str | None


def position_key(topic_id: str, partition: int) -> bytes:
    """The key of a partition's position."""
    return f"position/{topic_id}/{partition}".encode()


@dataclass(frozen=True, slots=True)
class SharesRecord(Document):
    """How an owner divides a flow's throttle over the tasks of a round.

    Attributes:
        shares: Bytes per second by the task's number, in digits; None is without limit.
    """

    PREFIX = "shares/"
    BY = ("owner",)

    owner: str
    round: int
    shares: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class UseRecord(Document):
    """How much of its throttle share a task used in the last second.

    Attributes:
        bytes_per_second: The used rate.
        is_all: It was used up.
    """

    PREFIX = "use/"
    BY = ("owner", "task")

    owner: str
    round: int
    task: int
    bytes_per_second: int
    is_all: bool


@dataclass(frozen=True, slots=True)
class PositionRecord(Document):
    """The position of one partition's mirror, for status and progress. Recovery reads the offset runs instead.

    Attributes:
        upstream_position: Next offset to fetch; everything below is on the target or known to be absent.
        downstream_position: The lowest target offset that the next mirrored record can get.
        source_end: The end that can be mirrored (last stable offset under read_committed), as last seen.
        source_seen_ms: When that was the end, by the worker's clock; 0 where its round has not seen it.
        records, mirrored_bytes: Mirrored since ``owner`` acquired the flow.
        observed_ms: When this was true, by the worker's clock, for display only.
        behind_since_ms: Since when workers have seen ``upstream_position`` below the end; 0 when it is not.
        at_end_ms: The last time whose source end ``upstream_position`` has reached, under any owner; 0 when unknown.
        dead_letters: Records in the dead-letter topic instead of the target topic, over all owners.
        foreign, foreign_end: Offsets of the mirror that another producer wrote, and the offset behind the last one.
        gaps, gaps_end: Offsets that the source deleted unmirrored and that were skipped, and the offset behind the last
            one.
        latency, latency_ms: As `mmtool.runtime.latency.Latency`, since ``owner`` acquired the flow.
        unreadable: Values that were no JSON for a ready-made function, and were copied or left out, over all owners.
        slowed_by: The clusters whose quotas throttle its worker while it is behind.
        waits_for: The broker that leads it on either side, where that has not answered for long.
        executor: The worker that wrote this; empty where no worker did.
        round: The round in which this was written, counted from the start of the owner's process.
    """

    PREFIX = "position/"
    BY = ("topic_id", "partition")

    owner: str
    topic: str
    topic_id: str
    partition: int
    target_topic: str
    upstream_position: int
    downstream_position: int
    source_end: int
    source_log_start: int
    records: int
    mirrored_bytes: int
    state: State
    reason: str
    observed_ms: int
    behind_since_ms: int
    at_end_ms: int = 0
    dead_letters: int = 0
    foreign: int = 0
    foreign_end: int = 0
    slowed_by: str = ""
    waits_for: str = ""
    gaps: int = 0
    gaps_end: int = 0
    executor: str = ""
    round: int = 0
    source_seen_ms: int = 0
    latency: tuple[int, ...] = ()
    latency_ms: int = 0
    unreadable: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "latency", tuple(self.latency))  # JSON gives a list

    @property
    def notes(self) -> str:
        """Notes to show in every state: gaps, dead letters, foreign records; empty without any."""
        return joined(self.gaps_said, self.letters_said, self.foreign_said, self.unreadable_said)

    @property
    def quota_said(self) -> str:
        """The clusters whose quotas throttle the partition's worker, as a sentence; empty without throttling."""
        return f"throttled by a quota of {self.slowed_by}" if self.slowed_by else ""

    @property
    def silence_said(self) -> str:
        """The broker whose answer the partition waits for, as a sentence; empty without one."""
        return f"waits for {self.waits_for}, which does not answer" if self.waits_for else ""

    @property
    def gaps_said(self) -> str:
        """The number of offsets that the source deleted unmirrored, as a sentence; empty without any."""
        if not self.gaps:
            return ""
        lost = f"{counted(self.gaps, 'unmirrored offset')} up to {self.gaps_end - 1}"
        return f"the source deleted {lost}; mirroring continues after the gap (mmtool.on.data.loss)"

    @property
    def foreign_said(self) -> str:
        """The number of foreign records in the mirror, as a sentence; empty without any."""
        if not self.foreign:
            return ""
        offsets = f"{counted(self.foreign, 'offset')}, the last one {self.foreign_end - 1}"
        return (
            f"another producer wrote into {self.target_topic}-{self.partition} on the target: {offsets}; stop it,"
            " unless the topic's producers have moved to the target"
        )

    @property
    def letters_said(self) -> str:
        """The number of dead letters and their topic, as a sentence; empty without any."""
        if not self.dead_letters:
            return ""
        where = f"{self.target_topic}{DEAD_LETTER_SUFFIX}"
        return f"{counted(self.dead_letters, 'record')} too large for the target {are(self.dead_letters)} in {where}"

    @property
    def unreadable_said(self) -> str:
        """The number of values that a ready-made function could not change, as a sentence; empty without any."""
        if not self.unreadable:
            return ""
        return (
            f"{counted(self.unreadable, 'value')} {are(self.unreadable)} no JSON (mmtool.transform.on.error)"
        )

    @property
    def lag_records(self) -> int:
        """Offsets from the next one to fetch to the source's end: an upper bound of the lag in records."""
        return max(self.source_end - self.upstream_position, 0)


@dataclass(frozen=True, slots=True)
class RefusedRecord(Document):
    """A topic that an owner refuses to mirror, and why: no worker writes a position of it.

    Each owner has keys of its own: a late word of one that was replaced hides nothing of its successor's.

    Attributes:
        topic: Its name on the source.
        gone: The source had no such topic when this was written; one that exists now is another one.
    """

    PREFIX = "refused/"
    BY = ("owner", "topic")

    owner: str
    topic: str
    reason: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class CommitRatesRecord(Document):
    """How fast a group commits on the source; written again when a rate has clearly changed.

    Attributes:
        rates: Offsets per 1,000 seconds, by topic and the partition's number in digits; 0 where nothing is committed.
    """

    PREFIX = "rate/"
    BY = ("group",)

    group: str
    rates: dict[str, dict[str, int]]

    def rate(self, topic: str, partition: int) -> float | None:
        """The group's commit rate in a partition, in offsets per second; None where none was measured."""
        rate = self.rates.get(topic, {}).get(str(partition))
        return None if rate is None else rate / 1000


WHOLE_FLOW = "*"
"""Stands in a `PauseRecord` for every topic of the flow, those of the future included."""


@dataclass(frozen=True, slots=True)
class PauseRecord(Document):
    """An operator's pause of a topic or of the whole flow, or its end.

    It outlives processes and hosts: every owner of the flow obeys it.

    Attributes:
        topic_id: Of the source topic, or `WHOLE_FLOW`.
        paused: False once it was resumed.
        by: The operator, as ``user@host``.
        since_ms: When, by that host's clock.
        reason: Why, in the operator's words; perhaps empty.
    """

    PREFIX = "pause/"
    BY = ("topic_id",)

    topic_id: str
    topic: str
    paused: bool
    by: str
    since_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class ProducerRecord(Document):
    """One registered producer id: its batches on the target were mirrored by ``flow``."""

    PREFIX = "producer/"
    BY = ("producer_id",)

    producer_id: int
    flow: str
    source_cluster_id: str
    target_cluster_id: str
    shard: int

    def is_left_out(self, target_id: str, *, local_only: bool) -> bool:
        """Whether a flow to cluster ``target_id`` skips this producer's records.

        It does where they came from that cluster, and always with ``local_only``: they are mirrored records.
        """
        return local_only or self.source_cluster_id == target_id
