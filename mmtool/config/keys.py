"""The table of keys of a flow: name, type, default, meaning.

Messages, `config show` and docs/reference/config.md come from it. A key has an effect only when `flows.py` reads it
into a field of `settings.py`; `changes.py` says what a running flow does when it changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["boolean", "integer", "interval", "replicas", "list", "text", "choice", "start", "class"]

LARGEST_LONG = 2**63 - 1
LARGEST_INT = 2**31 - 1
MEBIBYTE = 1024 * 1024
_LONGEST_INTERVAL = LARGEST_LONG // 1000
"""The longest interval in seconds; MM2 counts it in milliseconds."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a flow.

    Attributes:
        name: As in the file, without scope.
        kind: How its text is read.
        default: The text that stands for an absent key; None for "not set".
        meaning: One line for the reference page.
        mm2: MM2's default where it differs; None when it is the same, or the key is mmtool's own.
        choices: For ``choice``, in lower case; the first one is the default.
        minimum: For ``integer``.
        maximum: For ``integer``.
        least_taken: For ``integer``: what MM2 accepts below the minimum, and mmtool raises to it; None: nothing.
        largest_taken: For ``integer`` and ``interval``: what MM2 accepts above the maximum, likewise.
        flow_only: MM2 silently ignores it in the global scope.
    """

    name: str
    kind: Kind
    default: str | None
    meaning: str
    mm2: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = LARGEST_LONG
    least_taken: int | None = None
    largest_taken: int | None = None
    flow_only: bool = False

    @property
    def taken(self) -> tuple[int, int]:
        """The smallest and the largest number that is accepted, if only with a warning."""
        least = self.minimum if self.least_taken is None else self.least_taken
        return least, self.maximum if self.largest_taken is None else self.largest_taken

    @property
    def is_own(self) -> bool:
        """Whether the key is mmtool's, and so may also be set under ``ALIAS.``."""
        return self.name.startswith("mmtool.")


def _seconds(name: str, default: str, meaning: str, mm2: str | None = None) -> Key:
    return Key(
        name,
        "interval",
        default,
        meaning,
        mm2,
        minimum=1,
        maximum=LARGEST_INT,
        largest_taken=_LONGEST_INTERVAL,
    )


def _switch(name: str, default: str, meaning: str) -> Key:
    return Key(name, "boolean", default, meaning)


def _replicas(name: str, default: str, meaning: str) -> Key:
    return Key(name, "replicas", default, meaning)


_NAMING = (
    Key(
        "replication.policy.class",
        "class",
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "How topics are named on the target: DefaultReplicationPolicy (`source.topic`) or "
        "IdentityReplicationPolicy (names stay).",
    ),
    Key("replication.policy.separator", "text", ".", "Separator between alias and topic name."),
    _switch(
        "replication.policy.internal.topic.separator.enabled",
        "true",
        "Whether MM2's internal topics use `replication.policy.separator` too; `false` keeps the dot.",
    ),
)

_SELECTION = (
    Key("topics", "list", ".*", "Topics to mirror: Java regular expressions over whole names."),
    Key(
        "topics.exclude",
        "list",
        r"mm2.*\.internal, .*\.replica, __.*",
        "Topics that are not mirrored; wins over `topics`. `mmtool-*`"
        " (except `mmtool-canary`) and `*.mmtool-dlq` are never mirrored.",
    ),
    Key(
        "groups",
        "list",
        ".*",
        "Consumer groups whose offsets are translated: Java regular expressions over whole names.",
    ),
    Key(
        "groups.exclude",
        "list",
        "console-consumer-.*, connect-.*, __.*",
        "Consumer groups whose offsets are not translated; wins over `groups`.",
    ),
    Key(
        "config.properties.exclude",
        "list",
        "follower.replication.throttled.replicas, leader.replication.throttled.replicas, "
        "message.timestamp.difference.max.ms, log.message.timestamp.before.max.ms, "
        "log.message.timestamp.after.max.ms, message.timestamp.type, unclean.leader.election.enable, "
        "min.insync.replicas",
        "Topic configs that are never copied.",
    ),
    Key(
        "use.defaults.from",
        "choice",
        "target",
        "Which cluster's defaults apply to a topic config without an override. As in MM2, it is read only with the"
        " prefix of a flow (`S->T.`).",
        choices=("target", "source"),
        flow_only=True,
    ),
    _switch(
        "heartbeats.replication.enabled", "true", "Mirror `heartbeats` whatever `topics` says (KIP-1089)."
    ),
)

_REPLICAS = (
    _replicas(
        "replication.factor",
        "2",
        "Replication factor of topics created on the target; -1: the broker's default.",
    ),
    _replicas(
        "offset-syncs.topic.replication.factor",
        "3",
        "Replication factor of MM2's offset-syncs topic and mmtool's internal topics.",
    ),
    _replicas("checkpoints.topic.replication.factor", "3", "Replication factor of MM2's checkpoints topic."),
    _replicas("heartbeats.topic.replication.factor", "3", "Replication factor of MM2's heartbeats topic."),
)

_OFFSETS = (
    _switch("emit.offset-syncs.enabled", "true", "Write MM2's offset-syncs topic (KIP-1031)."),
    Key(
        "offset-syncs.topic.location",
        "choice",
        "source",
        "Cluster that holds the offset-syncs topic (KIP-716): `source` or `target`.",
        choices=("source", "target"),
    ),
    Key(
        "offset.lag.max",
        "integer",
        "100",
        "Most records of a partition between two offset syncs.",
        least_taken=-LARGEST_LONG - 1,
    ),
    _switch("emit.checkpoints.enabled", "true", "Write MM2's checkpoints topic."),
    _seconds(
        "emit.checkpoints.interval.seconds",
        "5",
        "Time between two reads of the groups' commits on the source; after each, checkpoints are written.",
        "60",
    ),
    _switch(
        "sync.group.offsets.enabled",
        "false",
        "Commit the translated offsets of groups that have no members on the target (KIP-545).",
    ),
    _seconds(
        "sync.group.offsets.interval.seconds", "5", "Time between two commits of translated offsets.", "60"
    ),
    _switch("emit.heartbeats.enabled", "true", "Write heartbeats."),
    _seconds("emit.heartbeats.interval.seconds", "1", "Time between two heartbeats."),
)

_UPKEEP = (
    _switch("refresh.topics.enabled", "true", "Look for new topics and partitions."),
    _seconds(
        "refresh.topics.interval.seconds",
        "10",
        "Time between two checks for new topics and partitions.",
        "600",
    ),
    _switch("refresh.groups.enabled", "true", "Look for new groups."),
    _seconds("refresh.groups.interval.seconds", "10", "Time between two checks for new groups.", "600"),
    _switch("sync.topic.configs.enabled", "true", "Copy topic configs to the target."),
    _seconds("sync.topic.configs.interval.seconds", "600", "Time between two copies of topic configs."),
    _switch("sync.topic.acls.enabled", "true", "Copy topic ACLs to the target."),
    _seconds("sync.topic.acls.interval.seconds", "600", "Time between two copies of topic ACLs."),
    Key(
        "admin.timeout.ms",
        "integer",
        "60000",
        "Time limit of one administrative request.",
        minimum=1,
        maximum=LARGEST_INT,
        largest_taken=LARGEST_LONG,
    ),
)

_OWN = (
    Key(
        "mmtool.spark.master",
        "text",
        None,
        "Spark master; not set: local, with one slot per two usable cores.",
    ),
    Key(
        "mmtool.round.seconds",
        "integer",
        "300",
        "Longest duration of one round (one Spark job), in seconds; a round ends early when partitions, Spark slots or"
        " settings change.",
        minimum=1,
        maximum=86_400,
    ),
    Key(
        "mmtool.shards",
        "integer",
        "32",
        "Number of shards of the flow. A shard is a set of partitions that share one transactional id; one task"
        " at a time copies it. Fixed at the flow's first start: a later change has no effect.",
        minimum=1,
        maximum=1024,
    ),
    Key(
        "mmtool.buffer.bytes",
        "integer",
        str(128 * MEBIBYTE),
        "Bytes of record batches that one worker may hold: requested from the source, or not yet acknowledged by the"
        " target.",
        minimum=MEBIBYTE,
        maximum=64 * 1024 * MEBIBYTE,
    ),
    Key(
        "mmtool.throttle.bytes.per.second",
        "integer",
        None,
        "Highest rate of the flow, over all its tasks, in bytes of record batches per second; not set: no limit.",
        minimum=1024,
    ),
    Key(
        "mmtool.failover.min.interval.seconds",
        "integer",
        None,
        "After a group was moved, mmtool refuses a planned or emergency failover in the opposite direction for this"
        " many seconds; it never refuses a failback. Not set: it refuses none, and warns in the first 5 minutes.",
        minimum=1,
    ),
    Key(
        "mmtool.topic.rename.format",
        "text",
        None,
        "Format of topic names on the target, used instead of `replication.policy.class`: `${topic}`, with text"
        " or `${source}` before or after it, as `dr-${topic}`.",
    ),
    Key(
        "mmtool.origins",
        "choice",
        "all",
        "`all`: mirror every record of the source's topics; `local`: only records that were produced on the source.",
        choices=("all", "local"),
    ),
    Key(
        "mmtool.offsets",
        "choice",
        "translated",
        "Offsets of mirrored records: the target's own ones, translated by stored offset runs; or the same as on the"
        " source, with markers where the source has no record.",
        choices=("translated", "same"),
    ),
    Key(
        "mmtool.prefill.max.offsets",
        "integer",
        "100000000",
        "With `mmtool.offsets = same`, empty logs of the target are filled with empty records, which are deleted at"
        " once, up to the offsets at which their mirrors begin. `replicate` refuses to fill more offsets than this in"
        " total.",
        minimum=0,
    ),
    Key(
        "mmtool.start",
        "start",
        "earliest",
        "Where mirroring of a topic starts when mmtool has stored no position for it (its first start, or after"
        " `mmtool flow forget`): `earliest`, `latest` or a time with its zone (`2026-01-31T12:00:00Z`). Partitions that"
        " are added later are mirrored from their first record.",
    ),
    Key(
        "mmtool.on.data.loss",
        "choice",
        "halt",
        "The source deleted records before they were mirrored: halt the partition, or continue after the gap.",
        choices=("halt", "continue"),
    ),
    Key(
        "mmtool.on.oversize",
        "choice",
        "halt",
        "A record is larger than its target topic accepts: halt the partition, or write the record to"
        " `TOPIC.mmtool-dlq` on the target.",
        choices=("halt", "dead-letter"),
    ),
    Key(
        "mmtool.on.timestamp.refused",
        "choice",
        "halt",
        "A record's timestamp is outside the limits of its target topic: halt the partition, or raise the limits of the"
        " target topic.",
        choices=("halt", "raise-limit"),
    ),
    Key(
        "mmtool.on.topic.recreated",
        "choice",
        "halt",
        "The source topic was deleted and recreated, or its mirror was deleted: halt its partitions, or mirror the"
        " topic from `mmtool.start` (after a deleted mirror, this starts at the next start of `mmtool replicate`).",
        choices=("halt", "restart"),
    ),
)

FLOW_KEYS = {key.name: key for key in (*_NAMING, *_SELECTION, *_REPLICAS, *_OFFSETS, *_UPKEEP, *_OWN)}

BLACKLISTS = {f"{name}.blacklist": f"{name}.exclude" for name in ("topics", "groups", "config.properties")}
"""Names of the excludes up to Kafka 3.9, with today's names; their patterns are excluded as well."""

OWN_PREFIXES = {
    "mmtool.spark.conf.": "Any Spark property, for example `mmtool.spark.conf.spark.executor.memory`.",
    "mmtool.hook.": "Executable that runs at the end of a failover step: `mmtool.hook.hand_over` for `hand_over`.",
}
"""mmtool's keys with a free last part, in all three scopes, with their meanings."""

UNIT_PREFIX = "mmtool.unit."
"""``mmtool.unit.NAME.topics`` and ``.groups``: what ``--unit NAME`` selects. Global, or under ``S->T.``."""

CLUSTER_ID = "mmtool.cluster.id"
"""Under ``ALIAS.`` only: the cluster id that this alias must answer with."""
