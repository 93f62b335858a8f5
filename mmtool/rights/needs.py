"""The table of rights: what each purpose does to which kind of resource, on which side of a flow.

Kafka grants implied rights by itself: READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies
DESCRIBE_CONFIGS. So DESCRIBE is a line of its own only where no other right implies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

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
    CANARY = ("the canary topic of `mmtool smoke`", ResourceType.TOPIC)
    CANARY_MIRROR = ("the mirror of the canary topic", ResourceType.TOPIC)
    INTERNAL = ("mmtool's internal topics", ResourceType.TOPIC)
    OFFSET_SYNCS = ("MirrorMaker 2's offset syncs", ResourceType.TOPIC)
    REVERSE_SYNCS = ("MirrorMaker 2's offset syncs of the reverse flow", ResourceType.TOPIC)
    REVERSE_CHECKPOINTS = ("MirrorMaker 2's checkpoints of the reverse flow", ResourceType.TOPIC)
    CHECKPOINTS = ("MirrorMaker 2's checkpoints", ResourceType.TOPIC)
    HEARTBEATS = ("MirrorMaker 2's heartbeats", ResourceType.TOPIC)
    POSITIONS = ("Connect's offsets topic of MirrorMaker 2", ResourceType.TOPIC)
    COMMITS = ("Kafka's topic __consumer_offsets", ResourceType.TOPIC)
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


class Condition(NamedTuple):
    """The settings that make a flow need a right.

    Attributes:
        words: The settings; empty for any.
        holds: Whether a flow has them.
    """

    words: str
    holds: Callable[[FlowSettings], bool]


ALWAYS = Condition("", lambda _: True)


@dataclass(frozen=True, slots=True)
class Need:
    """A line of the table.

    Attributes:
        operation: As Kafka's ``AclOperation`` names it.
        lost: What does not work without the right, as a sentence.
        needed: The purposes whose commands end without it, or leave out the resource.
        optional: The purposes that do without it, and leave out what `lost` says.
        when: The settings that ask for it.
    """

    side: Side
    kind: Kind
    operation: str
    lost: str
    needed: frozenset[Purpose] = frozenset()
    optional: frozenset[Purpose] = frozenset()
    when: Condition = ALWAYS

    @property
    def is_optional(self) -> bool:
        """Whether no purpose needs it."""
        return not self.needed


_REPLICATE, _READ, _FAILOVER, _VERIFY, _SMOKE = (frozenset({purpose}) for purpose in Purpose)
_EVERY = frozenset(Purpose)


_SYNCS_CONFIGS = Condition("`sync.topic.configs.enabled`", lambda flow: flow.sync_topic_configs)
_SYNCS_ACLS = Condition("`sync.topic.acls.enabled`", lambda flow: flow.sync_topic_acls)
_BEATS = Condition("`emit.heartbeats.enabled`", lambda flow: flow.emit_heartbeats)
_TRANSLATES = Condition("`emit.checkpoints.enabled`", lambda flow: flow.emit_checkpoints)
_SYNCS_GROUPS = Condition(
    "`sync.group.offsets.enabled`", lambda flow: flow.emit_checkpoints and flow.sync_group_offsets
)
_WRITES_LETTERS = Condition(
    "`mmtool.on.oversize = dead-letter`", lambda flow: flow.on_oversize == "dead-letter"
)
_MUST_TELL_ORIGINS = Condition(
    "identical topic names in both directions, or `mmtool.origins = local`",
    lambda flow: flow.must_tell_origins,
)
_MAY_TELL_ORIGINS = Condition(
    "identical topic names in one direction", lambda flow: flow.tells_origins and not flow.must_tell_origins
)

_SEARCHED = "mmtool cannot look for an offset or for the newest record in the topic"
_CANARY_RECORDS = "`mmtool smoke` cannot write canary records"
_COMMITS = "translated offsets of the group cannot be committed"
_GROUP_OFFSETS = "mmtool cannot translate the group's offsets"
_UNDO = "a rollback cannot delete the offsets that the operation committed for a group that had none before"
_TIMES = "the time of a group's last commit is unknown"
_BROKERS = "settings of the brokers are not checked"
_LISTED = (
    "only groups on which mmtool has DESCRIBE are listed, disks are not checked, and `mmtool replicate` does not copy"
    " ACLs"
)
_OF_MM2 = "mmtool cannot read the state of a flow that MirrorMaker 2 runs"
_REVERSE = "a failback cannot see what the reverse flow mirrored"
_SYNCS = "MirrorMaker 2's offset syncs cannot be written"
_CHECKPOINTS = "checkpoints cannot be written"
_NO_BEATS = "heartbeats are not written"
_LETTERS = "dead letters cannot be written"
_STORE = "mmtool cannot store the flow's state or offsets in the topic"
_COORDINATORS = "while a broker of the source starts, mmtool may treat groups of the source as deleted"
_ORIGINS = "records that other flows mirrored to the source cannot be recognised"

_SOURCE = (
    Need(
        "source",
        Kind.MIRRORED,
        "READ",
        "the topic's records cannot be read",
        _REPLICATE | _FAILOVER | _VERIFY,
    ),
    Need("source", Kind.MIRRORED, "DESCRIBE", "the topic is not shown", _READ),
    Need(
        "source",
        Kind.MIRRORED,
        "READ",
        f"the topic's lag in seconds is unknown, and {_SEARCHED}",
        optional=_READ | _SMOKE,
    ),
    Need(
        "source",
        Kind.MIRRORED,
        "DESCRIBE_CONFIGS",
        "the topic's mirror is not created, or does not get changes of the topic's configuration",
        optional=_REPLICATE,
    ),
    Need(
        "source",
        Kind.MIRRORED,
        "DESCRIBE_CONFIGS",
        "the topic's configuration is not compared with its mirror's",
        optional=_READ | _VERIFY,
    ),
    Need("source", Kind.CANARY, "READ", "the canary topic is not mirrored", optional=_REPLICATE),
    Need("source", Kind.CANARY, "READ", "`mmtool smoke` cannot commit offsets in the canary topic", _SMOKE),
    Need(
        "source",
        Kind.CANARY,
        "DESCRIBE_CONFIGS",
        "the canary topic is not mirrored",
        optional=_REPLICATE,
    ),
    Need("source", Kind.CANARY, "WRITE", _CANARY_RECORDS, _SMOKE),
    Need("source", Kind.CANARY, "CREATE", _CANARY_RECORDS, _SMOKE),
    Need("source", Kind.OFFSET_SYNCS, "READ", "MirrorMaker 2's offset syncs cannot be read", _REPLICATE),
    Need("source", Kind.OFFSET_SYNCS, "READ", _OF_MM2, optional=_EVERY - _REPLICATE),
    Need("source", Kind.REVERSE_CHECKPOINTS, "READ", _REVERSE, _FAILOVER),
    Need("source", Kind.OFFSET_SYNCS, "WRITE", _SYNCS, _REPLICATE),
    Need("source", Kind.OFFSET_SYNCS, "CREATE", _SYNCS, _REPLICATE),
    Need("source", Kind.HEARTBEATS, "WRITE", _NO_BEATS, optional=_REPLICATE),
    Need("source", Kind.HEARTBEATS, "CREATE", _NO_BEATS, optional=_REPLICATE),
    Need("source", Kind.INTERNAL, "READ", "mmtool cannot see failovers of the reverse flow", _FAILOVER),
    Need("source", Kind.INTERNAL, "READ", _ORIGINS, _EVERY - _FAILOVER, when=_MUST_TELL_ORIGINS),
    Need("source", Kind.INTERNAL, "READ", _ORIGINS, optional=_EVERY - _FAILOVER, when=_MAY_TELL_ORIGINS),
    Need("source", Kind.COMMITS, "READ", _TIMES, optional=_READ | _FAILOVER),
    Need("source", Kind.COMMITS, "DESCRIBE", _COORDINATORS, optional=_REPLICATE, when=_TRANSLATES),
    Need("source", Kind.GROUPS, "DESCRIBE", _GROUP_OFFSETS, _READ | _FAILOVER),
    Need("source", Kind.GROUPS, "DESCRIBE", _GROUP_OFFSETS, _REPLICATE, when=_TRANSLATES),
    Need("source", Kind.GROUPS, "READ", "a failback cannot commit the group's offsets", optional=_FAILOVER),
    Need("source", Kind.GROUPS, "DELETE", _UNDO, optional=_FAILOVER),
    Need("source", Kind.OWN_GROUPS, "READ", "the canary group's offset cannot be committed", _SMOKE),
    Need("source", Kind.OWN_GROUPS, "DELETE", "the canary group stays until it expires", optional=_SMOKE),
    Need(
        "source",
        Kind.OWN_IDS,
        "WRITE",
        "a failback with `--diverged topic` cannot produce the records that never reached the target",
        optional=_FAILOVER,
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
        "a restarted `mmtool replicate` cannot read back what was mirrored last, and no group's offsets can be"
        " committed",
        _REPLICATE,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "READ",
        "the topic's records cannot be read, and no group's offsets can be committed",
        _FAILOVER | _VERIFY,
    ),
    Need("target", Kind.MIRRORS, "DESCRIBE", "the topic is not shown", _READ),
    Need("target", Kind.MIRRORS, "READ", _SEARCHED, optional=_READ | _SMOKE),
    Need(
        "target", Kind.MIRRORS, "WRITE", "`mmtool replicate` cannot mirror records to the topic", _REPLICATE
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "WRITE",
        "a failback with `--diverged replay` cannot produce the records that never reached the target",
        optional=_FAILOVER,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "CREATE",
        "mmtool cannot create the topic",
        _REPLICATE,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "ALTER",
        "when the source topic gains partitions, no partition is mirrored until the mirror has as many",
        optional=_REPLICATE,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "ALTER_CONFIGS",
        "changes of the source topic's configuration are not copied",
        optional=_REPLICATE,
        when=_SYNCS_CONFIGS,
    ),
    Need(
        "target",
        Kind.MIRRORS,
        "DESCRIBE_CONFIGS",
        "the topic's configuration is not compared with the source topic's",
        optional=_REPLICATE | _READ | _VERIFY,
    ),
    Need("target", Kind.CANARY_MIRROR, "READ", "mirrored canary records cannot be read", _SMOKE),
    Need("target", Kind.DEAD_LETTERS, "READ", _LETTERS, _REPLICATE, when=_WRITES_LETTERS),
    Need("target", Kind.DEAD_LETTERS, "WRITE", _LETTERS, _REPLICATE, when=_WRITES_LETTERS),
    Need("target", Kind.DEAD_LETTERS, "CREATE", _LETTERS, _REPLICATE, when=_WRITES_LETTERS),
    Need(
        "target",
        Kind.INTERNAL,
        "READ",
        "mmtool cannot read the flow's state or offsets from the topic",
        _EVERY,
    ),
    Need("target", Kind.INTERNAL, "WRITE", _STORE, _REPLICATE | _FAILOVER),
    Need(
        "target",
        Kind.INTERNAL,
        "WRITE",
        "the points that `verify --since last` starts at are stored on this host only",
        optional=_VERIFY,
    ),
    Need(
        "target",
        Kind.INTERNAL,
        "DESCRIBE_CONFIGS",
        "mmtool does not check that the topic keeps its records",
        optional=_REPLICATE,
    ),
    Need("target", Kind.INTERNAL, "CREATE", _STORE, _REPLICATE | _FAILOVER),
    Need("target", Kind.OFFSET_SYNCS, "READ", "MirrorMaker 2's offset syncs cannot be read", _REPLICATE),
    Need("target", Kind.OFFSET_SYNCS, "READ", _OF_MM2, optional=_EVERY - _REPLICATE),
    Need(
        "target",
        Kind.REVERSE_SYNCS,
        "READ",
        _REVERSE,
        _FAILOVER,
    ),
    Need("target", Kind.OFFSET_SYNCS, "WRITE", _SYNCS, _REPLICATE),
    Need("target", Kind.OFFSET_SYNCS, "CREATE", _SYNCS, _REPLICATE),
    Need(
        "target",
        Kind.POSITIONS,
        "READ",
        "records that MirrorMaker 2 mirrored before mmtool are not recognised",
        optional=_REPLICATE | _VERIFY,
    ),
    Need("target", Kind.CHECKPOINTS, "READ", "checkpoints cannot be read", _REPLICATE | _READ | _FAILOVER),
    Need("target", Kind.CHECKPOINTS, "READ", _OF_MM2, optional=_VERIFY),
    Need("target", Kind.CHECKPOINTS, "WRITE", _CHECKPOINTS, _REPLICATE),
    Need("target", Kind.CHECKPOINTS, "CREATE", _CHECKPOINTS, _REPLICATE),
    Need(
        "target",
        Kind.HEARTBEATS,
        "READ",
        "mmtool cannot see whether MirrorMaker 2 runs the flow as well",
        optional=_REPLICATE,
    ),
    Need("target", Kind.HEARTBEATS, "WRITE", _NO_BEATS, optional=_REPLICATE, when=_BEATS),
    Need("target", Kind.HEARTBEATS, "CREATE", _NO_BEATS, optional=_REPLICATE, when=_BEATS),
    Need("target", Kind.COMMITS, "READ", _TIMES, optional=_READ | _FAILOVER),
    Need("target", Kind.GROUPS, "READ", _COMMITS, _FAILOVER),
    Need("target", Kind.GROUPS, "READ", _COMMITS, _REPLICATE, when=_SYNCS_GROUPS),
    Need("target", Kind.GROUPS, "DESCRIBE", "the group's offsets on the target are unknown", _READ),
    Need("target", Kind.GROUPS, "DELETE", _UNDO, optional=_FAILOVER),
    Need(
        "target",
        Kind.OWN_GROUPS,
        "READ",
        "`mmtool replicate` cannot get the ownership lease of the flow",
        _REPLICATE,
    ),
    Need("target", Kind.OWN_GROUPS, "READ", "`mmtool failover` cannot get the operation lock", _FAILOVER),
    Need(
        "target", Kind.OWN_GROUPS, "DESCRIBE", "mmtool cannot see which process runs the flow", _READ | _SMOKE
    ),
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
    Need(
        "target",
        Kind.OWN_IDS,
        "WRITE",
        "`mmtool replicate` cannot write with transactional ids, and mirrors nothing",
        _REPLICATE,
    ),
    Need(
        "target",
        Kind.OWN_IDS,
        "WRITE",
        "a failback with `--diverged replay` cannot produce the records that never reached the target",
        optional=_FAILOVER,
    ),
    Need("target", Kind.WHOLE, "DESCRIBE", _LISTED, optional=_REPLICATE | _READ | _FAILOVER),
    Need("target", Kind.WHOLE, "DESCRIBE_CONFIGS", _BROKERS, optional=_REPLICATE | _READ | _FAILOVER),
    Need("target", Kind.WHOLE, "ALTER", "`--promote-acls` is refused", optional=_FAILOVER),
    Need(
        "target",
        Kind.WHOLE,
        "ALTER",
        "topic ACLs of the source are not copied to the target",
        optional=_REPLICATE,
        when=_SYNCS_ACLS,
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
        if need.when.holds(flow) and purpose in need.needed | need.optional:
            yield need, purpose not in need.needed


def needs_on(flow: FlowSettings, side: Side, kind: Kind) -> dict[str, Need]:
    """By operation on one kind of resource, the line that needs it most, whatever the purpose."""
    found: dict[str, Need] = {}
    for need in NEEDS:
        if (need.side, need.kind) == (side, kind) and need.when.holds(flow):
            known = found.get(need.operation)
            if known is None or (known.is_optional and not need.is_optional):
                found[need.operation] = need
    return found
