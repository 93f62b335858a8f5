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

    MIRRORED = ("each mirrored topic", ResourceType.TOPIC)
    MIRRORS = ("each mirror", ResourceType.TOPIC)
    DEAD_LETTERS = ("dead-letter topics", ResourceType.TOPIC)
    CANARY = ("the canary topic", ResourceType.TOPIC)
    CANARY_MIRROR = ("the mirror of the canary topic", ResourceType.TOPIC)
    INTERNAL = ("mmtool's internal topics", ResourceType.TOPIC)
    OFFSET_SYNCS = ("MirrorMaker 2's offset syncs", ResourceType.TOPIC)
    CHECKPOINTS = ("MirrorMaker 2's checkpoints", ResourceType.TOPIC)
    HEARTBEATS = ("MirrorMaker 2's heartbeats", ResourceType.TOPIC)
    COMMITS = ("Kafka's topic of commits", ResourceType.TOPIC)
    GROUPS = ("each group of the flow", ResourceType.GROUP)
    OWN_GROUPS = ("mmtool's own groups", ResourceType.GROUP)
    WORKERS = ("the group of MirrorMaker 2's workers", ResourceType.GROUP)
    OWN_IDS = ("mmtool's transactional ids", ResourceType.TRANSACTIONAL_ID)
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
        needed: The purposes whose commands end without it, or leave out the resource.
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


_REPLICATE, _READ, _FAILOVER, _VERIFY, _SMOKE = (frozenset({purpose}) for purpose in Purpose)
_EVERY = frozenset(Purpose)


def _syncs_configs(flow: FlowSettings) -> bool:
    return flow.sync_topic_configs


def _syncs_acls(flow: FlowSettings) -> bool:
    return flow.sync_topic_acls


def _beats(flow: FlowSettings) -> bool:
    return flow.emit_heartbeats


def _translates(flow: FlowSettings) -> bool:
    return flow.emit_checkpoints


def _syncs_groups(flow: FlowSettings) -> bool:
    return flow.emit_checkpoints and flow.sync_group_offsets


def _writes_letters(flow: FlowSettings) -> bool:
    return flow.on_oversize == "dead-letter"


def _must_tell_origins(flow: FlowSettings) -> bool:
    return flow.must_tell_origins


def _may_tell_origins(flow: FlowSettings) -> bool:
    return flow.tells_origins and not flow.must_tell_origins


_CANARY_RECORDS = "`mmtool smoke` cannot write canary records"
_COMMITS = "translated offsets cannot be committed for it"
_GROUP_OFFSETS = "mmtool cannot translate its offsets"
_UNDO = "a rollback or a drill cannot delete offsets of a group that had none before"
_TIMES = "the time of a group's last commit is unknown"
_BROKERS = "settings of the brokers are not checked"
_LISTED = "only groups with DESCRIBE are listed, disks are not checked, and ACLs are not copied"
_SYNCS = "MirrorMaker 2's offset syncs cannot be written"
_CHECKPOINTS = "checkpoints cannot be written"
_BEATS = "heartbeats are not written"
_LETTERS = "dead letters cannot be written"
_STORE = "mmtool cannot store the flow's state or offsets in it"
_ORIGINS = "records that other flows mirrored to the source cannot be recognised"

_SOURCE = (
    Need("source", Kind.MIRRORED, "READ", "its records cannot be read", _EVERY - _SMOKE, _SMOKE),
    Need(
        "source",
        Kind.MIRRORED,
        "DESCRIBE_CONFIGS",
        "its configuration is not copied to the mirror",
        optional=_REPLICATE | _READ | _VERIFY,
        when=_syncs_configs,
    ),
    Need("source", Kind.CANARY, "READ", "the canary topic is not mirrored", _SMOKE, _REPLICATE),
    Need("source", Kind.CANARY, "WRITE", _CANARY_RECORDS, _SMOKE),
    Need("source", Kind.CANARY, "CREATE", _CANARY_RECORDS, _SMOKE),
    Need(
        "source", Kind.OFFSET_SYNCS, "READ", "MirrorMaker 2's offset syncs cannot be read", _REPLICATE, _EVERY
    ),
    Need("source", Kind.OFFSET_SYNCS, "WRITE", _SYNCS, _REPLICATE),
    Need("source", Kind.OFFSET_SYNCS, "CREATE", _SYNCS, _REPLICATE),
    Need("source", Kind.HEARTBEATS, "WRITE", _BEATS, optional=_REPLICATE),
    Need("source", Kind.HEARTBEATS, "CREATE", _BEATS, optional=_REPLICATE),
    Need("source", Kind.INTERNAL, "READ", _ORIGINS, _EVERY, when=_must_tell_origins),
    Need("source", Kind.INTERNAL, "READ", _ORIGINS, optional=_EVERY, when=_may_tell_origins),
    Need("source", Kind.COMMITS, "READ", _TIMES, optional=_READ | _FAILOVER),
    Need("source", Kind.GROUPS, "DESCRIBE", _GROUP_OFFSETS, _READ),
    Need("source", Kind.GROUPS, "DESCRIBE", _GROUP_OFFSETS, _REPLICATE, when=_translates),
    Need("source", Kind.GROUPS, "READ", "a failback cannot commit its offsets", _FAILOVER),
    Need("source", Kind.GROUPS, "DELETE", _UNDO, optional=_FAILOVER),
    Need("source", Kind.OWN_GROUPS, "READ", "the canary group's offset cannot be committed", _SMOKE),
    Need("source", Kind.OWN_GROUPS, "DELETE", "the canary group stays until it expires", optional=_SMOKE),
    Need(
        "source", Kind.OWN_IDS, "WRITE", "diverged records cannot be written into a topic", optional=_FAILOVER
    ),
    Need("source", Kind.WHOLE, "DESCRIBE", _LISTED, optional=_REPLICATE | _READ | _FAILOVER),
    Need("source", Kind.WHOLE, "DESCRIBE_CONFIGS", _BROKERS, optional=_READ | _FAILOVER),
    Need("source", Kind.WHOLE, "ALTER", "`--fence acl` is refused", optional=_FAILOVER),
)

_TARGET = (
    Need(
        "target",
        Kind.MIRRORS,
        "READ",
        "a new owner cannot read back mirrored records, and no group's offsets can be committed",
        _REPLICATE,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "READ",
        "its records cannot be read, and no group's offsets can be committed",
        _READ | _FAILOVER | _VERIFY,
        _SMOKE,
    ),
    Need("target", Kind.MIRRORS, "WRITE", "`mmtool replicate` cannot mirror records to it", _REPLICATE),
    Need("target", Kind.MIRRORS, "WRITE", "diverged records cannot be replayed", optional=_FAILOVER),
    Need(
        "target",
        Kind.MIRRORS,
        "CREATE",
        "the topic does not exist yet, and mmtool cannot create it",
        _REPLICATE,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "ALTER",
        "partitions that the source topic gains are not added",
        optional=_REPLICATE,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "ALTER_CONFIGS",
        "changes of the source topic's configuration are not copied",
        optional=_REPLICATE,
        when=_syncs_configs,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "DESCRIBE_CONFIGS",
        "its configuration is not compared with the source topic's",
        optional=_REPLICATE | _READ | _VERIFY,
    ),
    Need("target", Kind.CANARY_MIRROR, "READ", "mirrored canary records cannot be read", _SMOKE),
    Need("target", Kind.DEAD_LETTERS, "READ", _LETTERS, _REPLICATE, when=_writes_letters),
    Need("target", Kind.DEAD_LETTERS, "WRITE", _LETTERS, _REPLICATE, when=_writes_letters),
    Need("target", Kind.DEAD_LETTERS, "CREATE", _LETTERS, _REPLICATE, when=_writes_letters),
    Need("target", Kind.INTERNAL, "READ", "mmtool cannot read the flow's state or offsets from it", _EVERY),
    Need("target", Kind.INTERNAL, "WRITE", _STORE, _REPLICATE | _FAILOVER),
    Need(
        "target",
        Kind.INTERNAL,
        "WRITE",
        "the points that `verify --since last` starts at are stored on this host only",
        optional=_VERIFY,
    ),
    Need("target", Kind.INTERNAL, "CREATE", _STORE, _REPLICATE | _FAILOVER),
    Need(
        "target", Kind.OFFSET_SYNCS, "READ", "MirrorMaker 2's offset syncs cannot be read", _REPLICATE, _EVERY
    ),
    Need("target", Kind.OFFSET_SYNCS, "WRITE", _SYNCS, _REPLICATE),
    Need("target", Kind.OFFSET_SYNCS, "CREATE", _SYNCS, _REPLICATE),
    Need("target", Kind.CHECKPOINTS, "READ", "checkpoints cannot be read", _REPLICATE | _READ | _FAILOVER),
    Need("target", Kind.CHECKPOINTS, "WRITE", _CHECKPOINTS, _REPLICATE),
    Need("target", Kind.CHECKPOINTS, "CREATE", _CHECKPOINTS, _REPLICATE),
    Need(
        "target",
        Kind.HEARTBEATS,
        "READ",
        "mmtool cannot see whether MirrorMaker 2 runs the flow as well",
        optional=_REPLICATE,
    ),
    Need("target", Kind.HEARTBEATS, "WRITE", _BEATS, optional=_REPLICATE, when=_beats),
    Need("target", Kind.HEARTBEATS, "CREATE", _BEATS, optional=_REPLICATE, when=_beats),
    Need("target", Kind.COMMITS, "READ", _TIMES, optional=_READ | _FAILOVER),
    Need("target", Kind.GROUPS, "READ", _COMMITS, _FAILOVER),
    Need("target", Kind.GROUPS, "READ", _COMMITS, _REPLICATE, when=_syncs_groups),
    Need("target", Kind.GROUPS, "DESCRIBE", "its offsets on the target are unknown", _READ),
    Need("target", Kind.GROUPS, "DELETE", _UNDO, optional=_FAILOVER),
    Need(
        "target",
        Kind.OWN_GROUPS,
        "READ",
        "`mmtool replicate` cannot get the ownership lease of the flow",
        _REPLICATE,
    ),
    Need("target", Kind.OWN_GROUPS, "READ", "`mmtool failover` cannot get the operation lock", _FAILOVER),
    Need("target", Kind.OWN_GROUPS, "DESCRIBE", "the flow's owner is unknown", _READ | _SMOKE),
    Need(
        "target",
        Kind.OWN_GROUPS,
        "DELETE",
        "the groups of a drill stay until they expire",
        optional=_FAILOVER,
    ),
    Need(
        "target",
        Kind.WORKERS,
        "DESCRIBE",
        "mmtool cannot see whether MirrorMaker 2 runs the flow as well",
        optional=_REPLICATE,
    ),
    Need("target", Kind.OWN_IDS, "WRITE", "`mmtool replicate` cannot claim its shards", _REPLICATE),
    Need("target", Kind.OWN_IDS, "WRITE", "diverged records cannot be replayed", optional=_FAILOVER),
    Need("target", Kind.WHOLE, "DESCRIBE", _LISTED, optional=_REPLICATE | _READ | _FAILOVER),
    Need("target", Kind.WHOLE, "DESCRIBE_CONFIGS", _BROKERS, optional=_REPLICATE | _READ),
    Need(
        "target",
        Kind.WHOLE,
        "ALTER",
        "topic ACLs of the source are not copied to it",
        optional=_REPLICATE,
        when=_syncs_acls,
    ),
    Need(
        "target",
        Kind.WHOLE,
        "IDEMPOTENT_WRITE",
        "brokers before Kafka 2.8 refuse mirrored records",
        optional=_REPLICATE,
    ),
)

NEEDS = _SOURCE + _TARGET


def needs_for(flow: FlowSettings, purpose: Purpose) -> Iterator[tuple[Need, bool]]:
    """The lines of the table for one purpose of a flow, each with whether it is optional."""
    for need in NEEDS:
        if need.when(flow) and purpose in need.needed | need.optional:
            yield need, purpose not in need.needed
