"""The table of keys of a flow: name, type, default, meaning, and what a running flow does when the value changes.

`flows.py` reads each key into its field of `settings.py`, `changes.py` compares a running flow with a changed file, and
messages, `config show`, the file of `mmtool init` and docs/reference/config.md take names and meanings from here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["boolean", "integer", "interval", "replicas", "list", "text", "choice", "start", "class"]
Applies = Literal["background", "workers", "driver", "next start", "first start", "commands"]
"""Who takes over a changed value, and when.

At once: the ``background`` tasks of a running flow, which start again with it; the ``workers``, with the next round; or
the ``driver``, which reads it each time. Otherwise the flow's ``next start``, or only its ``first start``, or the
``commands`` beside `mmtool replicate`, whenever they run.
"""

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
        applies: Who takes over a changed value.
        field_name: The field of ``FlowSettings`` where it has another name than the key; several keys may make one.
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
    applies: Applies = "background"
    field_name: str = ""

    @property
    def field(self) -> str:
        """The field of ``FlowSettings`` that the key sets: its name without ``mmtool.``, ``.enabled``, ``.exclude``."""
        plain = self.name.removeprefix("mmtool.").removesuffix(".enabled").removesuffix(".exclude")
        return self.field_name or re.sub("[.-]", "_", plain)

    @property
    def taken(self) -> tuple[int, int]:
        """The smallest and the largest number that is accepted, if only with a warning."""
        least = self.minimum if self.least_taken is None else self.least_taken
        return least, self.maximum if self.largest_taken is None else self.largest_taken

    @property
    def is_own(self) -> bool:
        """Whether the key is mmtool's, and so may also be set under ``ALIAS.``."""
        return self.name.startswith("mmtool.")


def _seconds(
    name: str, default: str, meaning: str, mm2: str | None = None, applies: Applies = "background"
) -> Key:
    return Key(
        name,
        "interval",
        default,
        meaning,
        mm2,
        minimum=1,
        maximum=LARGEST_INT,
        largest_taken=_LONGEST_INTERVAL,
        applies=applies,
    )


_NAMING = (
    Key(
        "replication.policy.class",
        "class",
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "How topics are named on the target: DefaultReplicationPolicy (`source.topic`) or "
        "IdentityReplicationPolicy (names stay).",
        applies="next start",
        field_name="policy",
    ),
    Key(
        "replication.policy.separator",
        "text",
        ".",
        "Separator between alias and topic name.",
        applies="next start",
        field_name="policy",
    ),
    Key(
        "replication.policy.internal.topic.separator.enabled",
        "boolean",
        "true",
        "Whether MM2's internal topics use `replication.policy.separator` too; `false` keeps the dot.",
        applies="next start",
        field_name="policy",
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
        field_name="config_properties_exclude",
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
    Key(
        "heartbeats.replication.enabled",
        "boolean",
        "true",
        "Mirror `heartbeats` whatever `topics` says (KIP-1089).",
    ),
)

_REPLICAS = (
    Key(
        "replication.factor",
        "replicas",
        "2",
        "Replication factor of topics created on the target; -1: the broker's default.",
    ),
    Key(
        "offset-syncs.topic.replication.factor",
        "replicas",
        "3",
        "Replication factor of MM2's offset-syncs topic and mmtool's internal topics.",
        field_name="offset_syncs_replication_factor",
    ),
    Key(
        "checkpoints.topic.replication.factor",
        "replicas",
        "3",
        "Replication factor of MM2's checkpoints topic.",
        field_name="checkpoints_replication_factor",
    ),
    Key(
        "heartbeats.topic.replication.factor",
        "replicas",
        "3",
        "Replication factor of MM2's heartbeats topic.",
        field_name="heartbeats_replication_factor",
    ),
)

_OFFSETS = (
    Key(
        "emit.offset-syncs.enabled",
        "boolean",
        "true",
        "Write MM2's offset-syncs topic (KIP-1031).",
        applies="workers",
    ),
    Key(
        "offset-syncs.topic.location",
        "choice",
        "source",
        "Cluster that holds the offset-syncs topic (KIP-716): `source` or `target`.",
        choices=("source", "target"),
        applies="next start",
        field_name="offset_syncs_location",
    ),
    Key(
        "offset.lag.max",
        "integer",
        "100",
        "Most records of a partition between two offset syncs.",
        least_taken=-LARGEST_LONG - 1,
        applies="workers",
    ),
    Key("emit.checkpoints.enabled", "boolean", "true", "Write MM2's checkpoints topic."),
    _seconds(
        "emit.checkpoints.interval.seconds",
        "5",
        "Time between two reads of the groups' commits on the source; after each, checkpoints are written.",
        "60",
    ),
    Key(
        "sync.group.offsets.enabled",
        "boolean",
        "false",
        "Commit the translated offsets of groups that have no members on the target (KIP-545).",
    ),
    _seconds(
        "sync.group.offsets.interval.seconds", "5", "Time between two commits of translated offsets.", "60"
    ),
    Key("emit.heartbeats.enabled", "boolean", "true", "Write heartbeats."),
    _seconds("emit.heartbeats.interval.seconds", "1", "Time between two heartbeats."),
)

_UPKEEP = (
    Key("refresh.topics.enabled", "boolean", "true", "Look for new topics and partitions.", applies="driver"),
    _seconds(
        "refresh.topics.interval.seconds",
        "10",
        "Time between two checks for new topics and partitions.",
        "600",
        applies="driver",
    ),
    Key("refresh.groups.enabled", "boolean", "true", "Look for new groups."),
    _seconds("refresh.groups.interval.seconds", "10", "Time between two checks for new groups.", "600"),
    Key("sync.topic.configs.enabled", "boolean", "true", "Copy topic configs to the target."),
    _seconds("sync.topic.configs.interval.seconds", "600", "Time between two copies of topic configs."),
    Key("sync.topic.acls.enabled", "boolean", "true", "Copy topic ACLs to the target."),
    _seconds("sync.topic.acls.interval.seconds", "600", "Time between two copies of topic ACLs."),
    Key(
        "admin.timeout.ms",
        "integer",
        "60000",
        "Time limit of one administrative request.",
        minimum=1,
        maximum=LARGEST_INT,
        largest_taken=LARGEST_LONG,
        applies="driver",
    ),
)

_OWN = (
    Key(
        "mmtool.spark.master",
        "text",
        None,
        "Spark master; not set: local, with one slot per two usable cores.",
        applies="next start",
    ),
    Key(
        "mmtool.round.seconds",
        "integer",
        "300",
        "Longest duration of one round (one Spark job), in seconds; a round ends early when partitions, Spark slots or"
        " settings change.",
        minimum=1,
        maximum=86_400,
        applies="workers",
    ),
    Key(
        "mmtool.shards",
        "integer",
        "32",
        "Number of shards of the flow. A shard is a set of partitions that share one transactional id; one task"
        " at a time copies it. Fixed at the flow's first start: a later change has no effect.",
        minimum=1,
        maximum=1024,
        applies="first start",
    ),
    Key(
        "mmtool.buffer.bytes",
        "integer",
        str(128 * MEBIBYTE),
        "Bytes of record batches that one worker may hold: requested from the source, or not yet acknowledged by the"
        " target.",
        minimum=MEBIBYTE,
        maximum=64 * 1024 * MEBIBYTE,
        applies="workers",
    ),
    Key(
        "mmtool.throttle.bytes.per.second",
        "integer",
        None,
        "Highest rate of the flow, over all its tasks, in bytes of record batches per second; not set: no limit.",
        minimum=1024,
        applies="driver",
    ),
    Key(
        "mmtool.failover.min.interval.seconds",
        "integer",
        None,
        "After a group was moved, mmtool refuses a planned or emergency failover in the opposite direction for this"
        " many seconds; it never refuses a failback. Not set: it refuses none, and warns in the first 5 minutes.",
        minimum=1,
        applies="commands",
    ),
    Key(
        "mmtool.topic.rename.format",
        "text",
        None,
        "Format of topic names on the target, used instead of `replication.policy.class`: `${topic}`, with text"
        " or `${source}` before or after it, as `dr-${topic}`.",
        applies="next start",
        field_name="policy",
    ),
    Key(
        "mmtool.origins",
        "choice",
        "all",
        "`all`: mirror every record of the source's topics; `local`: only records that were produced on the source.",
        choices=("all", "local"),
        applies="next start",
    ),
    Key(
        "mmtool.offsets",
        "choice",
        "translated",
        "Offsets of mirrored records: the target's own ones, translated by stored offset runs; or the same as on the"
        " source, with markers where the source has no record.",
        choices=("translated", "same"),
        applies="next start",
    ),
    Key(
        "mmtool.prefill.max.offsets",
        "integer",
        "100000000",
        "With `mmtool.offsets = same`, empty logs of the target are filled with empty records, which are deleted at"
        " once, up to the offsets at which their mirrors begin. `replicate` refuses to fill more offsets than this in"
        " total.",
        minimum=0,
        applies="driver",
    ),
    Key(
        "mmtool.start",
        "start",
        "earliest",
        "Where mirroring of a topic starts when mmtool has stored no position for it (its first start, or after"
        " `mmtool flow forget`): `earliest`, `latest` or a time with its zone (`2026-01-31T12:00:00Z`). Partitions that"
        " are added later are mirrored from their first record.",
        applies="driver",
    ),
    Key(
        "mmtool.on.data.loss",
        "choice",
        "halt",
        "The source deleted records before they were mirrored: halt the partition, or continue after the gap.",
        choices=("halt", "continue"),
        applies="workers",
    ),
    Key(
        "mmtool.on.oversize",
        "choice",
        "halt",
        "A record is larger than its target topic accepts: halt the partition, or write the record to"
        " `TOPIC.mmtool-dlq` on the target.",
        choices=("halt", "dead-letter"),
        applies="workers",
    ),
    Key(
        "mmtool.on.timestamp.refused",
        "choice",
        "halt",
        "A record's timestamp is outside the limits of its target topic: halt the partition, or raise the limits of the"
        " target topic.",
        choices=("halt", "raise-limit"),
        applies="driver",
    ),
    Key(
        "mmtool.on.topic.recreated",
        "choice",
        "halt",
        "The source topic was deleted and recreated, or its mirror was deleted: halt its partitions, or mirror the"
        " topic from `mmtool.start` (after a deleted mirror, this starts at the next start of `mmtool replicate`).",
        choices=("halt", "restart"),
        applies="driver",
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
