"""The table of rights: what each purpose does to which kind of resource, on which side of a flow.

Kafka grants implied rights by itself: READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies
DESCRIBE_CONFIGS. So DESCRIBE is a line of its own only where no other right implies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.config import FlowSettings

Side = Literal["source", "target"]


class Purpose(StrEnum):
    """The values of ``mmtool acls --for``: commands that need the same rights."""

    REPLICATE = "replicate"
    READ = "read"
    FAILOVER = "failover"
    VERIFY = "verify"
    SMOKE = "smoke"


class ResourceType(StrEnum):
    """Kafka's kinds of resources."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional_id"


class Kind(Enum):
    """The resources of a flow on one side, by what they are to mmtool; `mmtool.rights.scope` names them."""

    MIRRORED = ("mirrored topics", ResourceType.TOPIC)
    MIRRORS = ("mirrors", ResourceType.TOPIC)
    DEAD_LETTERS = ("dead-letter topics", ResourceType.TOPIC)
    CANARY = ("the canary topic", ResourceType.TOPIC)
    CANARY_MIRROR = ("the mirror of the canary topic", ResourceType.TOPIC)
    INTERNAL = ("mmtool's internal topics", ResourceType.TOPIC)
    OFFSET_SYNCS = ("MirrorMaker 2's offset-syncs topic", ResourceType.TOPIC)
    CHECKPOINTS = ("MirrorMaker 2's checkpoints topic", ResourceType.TOPIC)
    HEARTBEATS = ("the heartbeats topic", ResourceType.TOPIC)
    GROUPS = ("the flow's groups", ResourceType.GROUP)
    OWN_GROUPS = ("mmtool's own groups", ResourceType.GROUP)
    SHARDS = ("mmtool's transactional ids", ResourceType.TRANSACTIONAL_ID)
    WHOLE = ("the cluster", ResourceType.CLUSTER)

    @property
    def words(self) -> str:
        """The resources in words."""
        return self.value[0]

    @property
    def resource_type(self) -> ResourceType:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Need:
    """A line of the table.

    Attributes:
        operation: As Kafka's ``AclOperation`` names it.
        lost: What does not work without the right, as a sentence.
        needed: The purposes whose commands end without it.
        optional: The purposes that do without it, and leave out what `lost` says.
        when: Whether the flow's settings ask for it.
    """

    side: Side
    kind: Kind
    operation: str
    lost: str
    needed: frozenset[Purpose] = frozenset()
    optional: frozenset[Purpose] = frozenset()
    when: Callable[[FlowSettings], bool] = lambda _: True


def _for(*purposes: Purpose) -> frozenset[Purpose]:
    return frozenset(purposes)


_REPLICATE, _READ, _FAILOVER, _VERIFY, _SMOKE = Purpose
_EVERY = frozenset(Purpose)
_LOOK = _for(_READ, _FAILOVER)


def _syncs_configs(flow: FlowSettings) -> bool:
    return flow.sync_topic_configs


def _syncs_acls(flow: FlowSettings) -> bool:
    return flow.sync_topic_acls


def _beats(flow: FlowSettings) -> bool:
    return flow.emit_heartbeats


def _syncs_groups(flow: FlowSettings) -> bool:
    return flow.emit_checkpoints and flow.sync_group_offsets


def _writes_letters(flow: FlowSettings) -> bool:
    return flow.on_oversize == "dead-letter"


def _marks_origins(flow: FlowSettings) -> bool:
    return flow.tells_origins


_SOURCE = (
    Need("source", Kind.MIRRORED, "READ", "the topic's records cannot be read", _EVERY),
    Need(
        "source",
        Kind.MIRRORED,
        "DESCRIBE_CONFIGS",
        "the topic's configuration is not copied to the mirror",
        optional=_for(_REPLICATE, _READ),
        when=_syncs_configs,
    ),
    Need("source", Kind.CANARY, "READ", "the canary topic is not mirrored", optional=_for(_REPLICATE)),
    Need("source", Kind.CANARY, "CREATE", "the canary topic cannot be created", _for(_SMOKE)),
    Need("source", Kind.CANARY, "WRITE", "canary records cannot be written", _for(_SMOKE)),
    Need("source", Kind.CANARY, "READ", "the canary group's offset cannot be committed", _for(_SMOKE)),
    Need("source", Kind.OWN_GROUPS, "READ", "the canary group's offset cannot be committed", _for(_SMOKE)),
    Need(
        "source",
        Kind.OFFSET_SYNCS,
        "CREATE",
        "MirrorMaker 2's offset syncs cannot be written",
        _for(_REPLICATE),
    ),
    Need(
        "source",
        Kind.OFFSET_SYNCS,
        "WRITE",
        "MirrorMaker 2's offset syncs cannot be written",
        _for(_REPLICATE),
    ),
    Need("source", Kind.OFFSET_SYNCS, "READ", "MirrorMaker 2's offset syncs cannot be read", _EVERY),
    Need("source", Kind.HEARTBEATS, "CREATE", "heartbeats are not written", optional=_for(_REPLICATE)),
    Need("source", Kind.HEARTBEATS, "WRITE", "heartbeats are not written", optional=_for(_REPLICATE)),
    Need(
        "source",
        Kind.INTERNAL,
        "READ",
        "mmtool cannot recognise records that other flows mirrored to the source",
        _for(_REPLICATE, _READ, _FAILOVER, _VERIFY),
        when=_marks_origins,
    ),
    Need(
        "source", Kind.GROUPS, "DESCRIBE", "the group's offsets cannot be translated", _for(_REPLICATE, _READ)
    ),
    Need("source", Kind.GROUPS, "READ", "a failback cannot commit the group's offsets", _for(_FAILOVER)),
    Need(
        "source",
        Kind.GROUPS,
        "DELETE",
        "a rollback or a drill cannot delete offsets of a group that had none before",
        optional=_for(_FAILOVER),
    ),
    Need(
        "source",
        Kind.WHOLE,
        "DESCRIBE",
        "only groups with DESCRIBE are listed, disks are not checked, and ACLs are not copied",
        optional=_for(_REPLICATE, _READ, _FAILOVER),
    ),
    Need(
        "source",
        Kind.WHOLE,
        "ALTER",
        "`--fence acl` cannot keep producers off the topics",
        optional=_for(_FAILOVER),
    ),
)

_TARGET = (
    Need("target", Kind.MIRRORS, "CREATE", "the mirror cannot be created", _for(_REPLICATE)),
    Need("target", Kind.MIRRORS, "WRITE", "records cannot be mirrored", _for(_REPLICATE)),
    Need(
        "target",
        Kind.MIRRORS,
        "READ",
        "mirrored records cannot be read back, and no group's offsets can be committed",
        _EVERY,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "ALTER",
        "partitions that the source topic gains are not added",
        optional=_for(_REPLICATE),
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "ALTER_CONFIGS",
        "changes of the source topic's configuration are not copied",
        optional=_for(_REPLICATE),
        when=_syncs_configs,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "DESCRIBE_CONFIGS",
        "its configuration is not compared with the source topic's",
        optional=_for(_REPLICATE, _READ),
    ),
    Need("target", Kind.CANARY_MIRROR, "READ", "canary records cannot be read", _for(_SMOKE)),
    Need(
        "target",
        Kind.DEAD_LETTERS,
        "CREATE",
        "dead letters cannot be written",
        _for(_REPLICATE),
        when=_writes_letters,
    ),
    Need(
        "target",
        Kind.DEAD_LETTERS,
        "WRITE",
        "dead letters cannot be written",
        _for(_REPLICATE),
        when=_writes_letters,
    ),
    Need(
        "target",
        Kind.DEAD_LETTERS,
        "READ",
        "dead letters cannot be read",
        _for(_REPLICATE),
        when=_writes_letters,
    ),
    Need(
        "target",
        Kind.INTERNAL,
        "CREATE",
        "mmtool's internal topics cannot be created",
        _for(_REPLICATE, _FAILOVER),
    ),
    Need(
        "target",
        Kind.INTERNAL,
        "WRITE",
        "mmtool cannot store the flow's state or offsets",
        _for(_REPLICATE, _FAILOVER),
    ),
    Need("target", Kind.INTERNAL, "READ", "mmtool cannot read the flow's state or offsets", _EVERY),
    Need(
        "target",
        Kind.OFFSET_SYNCS,
        "CREATE",
        "MirrorMaker 2's offset syncs cannot be written",
        _for(_REPLICATE),
    ),
    Need(
        "target",
        Kind.OFFSET_SYNCS,
        "WRITE",
        "MirrorMaker 2's offset syncs cannot be written",
        _for(_REPLICATE),
    ),
    Need("target", Kind.OFFSET_SYNCS, "READ", "MirrorMaker 2's offset syncs cannot be read", _EVERY),
    Need("target", Kind.CHECKPOINTS, "CREATE", "checkpoints cannot be written", _for(_REPLICATE)),
    Need("target", Kind.CHECKPOINTS, "WRITE", "checkpoints cannot be written", _for(_REPLICATE)),
    Need("target", Kind.CHECKPOINTS, "READ", "checkpoints cannot be read", _EVERY),
    Need(
        "target",
        Kind.HEARTBEATS,
        "CREATE",
        "heartbeats are not written",
        optional=_for(_REPLICATE),
        when=_beats,
    ),
    Need(
        "target",
        Kind.HEARTBEATS,
        "WRITE",
        "heartbeats are not written",
        optional=_for(_REPLICATE),
        when=_beats,
    ),
    Need("target", Kind.SHARDS, "WRITE", "`mmtool replicate` cannot claim its shards", _for(_REPLICATE)),
    Need("target", Kind.SHARDS, "WRITE", "diverged records cannot be replayed", optional=_for(_FAILOVER)),
    Need(
        "target",
        Kind.OWN_GROUPS,
        "READ",
        "mmtool cannot get the ownership lease of the flow, or the operation lock",
        _for(_REPLICATE, _FAILOVER),
    ),
    Need(
        "target", Kind.OWN_GROUPS, "DESCRIBE", "the flow's owner is not shown", _for(_READ, _VERIFY, _SMOKE)
    ),
    Need(
        "target",
        Kind.GROUPS,
        "READ",
        "the group's translated offsets cannot be committed",
        _for(_FAILOVER),
    ),
    Need(
        "target",
        Kind.GROUPS,
        "READ",
        "the group's translated offsets cannot be committed",
        _for(_REPLICATE),
        when=_syncs_groups,
    ),
    Need("target", Kind.GROUPS, "DESCRIBE", "the group's offsets on the target are not shown", _for(_READ)),
    Need(
        "target",
        Kind.GROUPS,
        "DELETE",
        "a rollback or a drill cannot delete offsets of a group that had none before",
        optional=_for(_FAILOVER),
    ),
    Need(
        "target",
        Kind.WHOLE,
        "DESCRIBE",
        "only groups with DESCRIBE are listed, disks are not checked, and ACLs are not copied",
        optional=_for(_REPLICATE, _READ, _FAILOVER),
    ),
    Need(
        "target",
        Kind.WHOLE,
        "ALTER",
        "topic ACLs of the source are not copied to it",
        optional=_for(_REPLICATE),
        when=_syncs_acls,
    ),
    Need(
        "target",
        Kind.WHOLE,
        "IDEMPOTENT_WRITE",
        "brokers before Kafka 2.8 refuse mirrored records",
        optional=_for(_REPLICATE),
    ),
)

NEEDS = _SOURCE + _TARGET


def needs_for(flow: FlowSettings, purpose: Purpose) -> Iterator[tuple[Need, bool]]:
    """The lines of the table for one purpose of a flow, each with whether it is optional."""
    for need in NEEDS:
        if need.when(flow) and purpose in need.needed | need.optional:
            yield need, purpose not in need.needed
