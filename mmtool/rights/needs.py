"""The table of rights: what each purpose does to which kind of resource, on which side of a flow.

Kafka grants implied rights by itself: READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies
DESCRIBE_CONFIGS. So DESCRIBE is a line of its own only where no other right implies it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

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


class Resource(Enum):
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
    kind: Resource
    operation: str
    lost: str
    needed: frozenset[Purpose] = frozenset()
    optional: frozenset[Purpose] = frozenset()
    when: Condition = ALWAYS

    def is_needed_by(self, flow: FlowSettings) -> bool:
        """Whether the settings of a flow ask for it; with ``mmtool.create.topics = false`` it creates no topics."""
        creates = self.operation == "CREATE" or (self.kind is Resource.MIRRORS and self.operation == "ALTER")
        return self.when.holds(flow) and (flow.create_topics or not creates)

    @property
    def is_optional(self) -> bool:
        """Whether no purpose needs it."""
        return not self.needed


_CONDITIONS = {
    "syncs_configs": Condition("`sync.topic.configs.enabled`", lambda flow: flow.sync_topic_configs),
    "syncs_acls": Condition("`sync.topic.acls.enabled`", lambda flow: flow.sync_topic_acls),
    "beats": Condition("`emit.heartbeats.enabled`", lambda flow: flow.emit_heartbeats),
    "translates": Condition("`emit.checkpoints.enabled`", lambda flow: flow.emit_checkpoints),
    "syncs_groups": Condition(
        "`sync.group.offsets.enabled`", lambda flow: flow.emit_checkpoints and flow.sync_group_offsets
    ),
    "keeps_offsets": Condition("`mmtool.offsets = same`", lambda flow: flow.writes_same_offsets),
    "copies": Condition("`mmtool.mirror = own`", lambda flow: not flow.is_external),
    "writes_letters": Condition(
        "`mmtool.on.oversize = dead-letter`", lambda flow: flow.on_oversize == "dead-letter"
    ),
    "must_tell_origins": Condition(
        "identical topic names in both directions, or `mmtool.origins = local`",
        lambda flow: flow.must_tell_origins,
    ),
    "may_tell_origins": Condition(
        "identical topic names in one direction",
        lambda flow: flow.tells_origins and not flow.must_tell_origins,
    ),
}

_SEARCHED = "mmtool cannot look for an offset or for the newest record in the topic"
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
_NO_BEATS = "heartbeats are not written"
_STORE = "mmtool cannot store the flow's state or offsets in the topic"
_ORIGINS = "records that other flows mirrored to the source cannot be recognised"

_TABLE = f"""
source MIRRORED
  READ               !.!!.  the topic's records cannot be read
  DESCRIBE           .!...  the topic is not shown
  READ               .?..?  the topic's lag in seconds is unknown, and {_SEARCHED}
  DESCRIBE_CONFIGS   ?....  the topic's mirror is not created, or does not get changes of the topic's configuration
  DESCRIBE_CONFIGS   .?.?.  the topic's configuration is not compared with its mirror's
source CANARY
  READ               ?....  the canary topic is not mirrored
  READ               ....!  `mmtool smoke` cannot commit offsets in the canary topic
  DESCRIBE_CONFIGS   ?....  the canary topic is not mirrored
  WRITE CREATE       ....!  `mmtool smoke` cannot write canary records
source OFFSET_SYNCS
  READ               !....  MirrorMaker 2's offset syncs cannot be read
  READ               .????  {_OF_MM2}
source REVERSE_CHECKPOINTS
  READ               ..!..  {_REVERSE}
source OFFSET_SYNCS
  WRITE CREATE       !....  {_SYNCS}
source HEARTBEATS
  WRITE CREATE       ?....  {_NO_BEATS}
source INTERNAL
  READ               ..!..  mmtool cannot see failovers of the reverse flow
  READ               !!.!!  {_ORIGINS}  if must_tell_origins
  READ               ??.??  {_ORIGINS}  if may_tell_origins
source COMMITS
  READ               .??..  {_TIMES}
  DESCRIBE           ?....  while a broker of the source starts, mmtool may treat groups of the source
      as deleted  if translates
source GROUPS
  DESCRIBE           .!!..  {_GROUP_OFFSETS}
  DESCRIBE           !....  {_GROUP_OFFSETS}  if translates
  READ               ..?..  a failback cannot commit the group's offsets
  DELETE             ..?..  {_UNDO}
source OWN_GROUPS
  READ               ....!  the canary group's offset cannot be committed
  DELETE             ....?  the canary group stays until it expires
source OWN_IDS
  WRITE              ..?..  a failback with `--diverged topic` cannot produce the records that never reached the
      target
source WHOLE
  DESCRIBE           ???..  {_LISTED}
  DESCRIBE_CONFIGS   .??..  {_BROKERS}
  ALTER              ..?..  `--fence acl` is refused
target MIRRORS
  READ               !....  a restarted `mmtool replicate` cannot read back what was mirrored last, and no group's
      offsets can be committed
  READ               ..!!.  the topic's records cannot be read, and no group's offsets can be committed
  DESCRIBE           .!...  the topic is not shown
  READ               .?..?  {_SEARCHED}
  WRITE              !....  `mmtool replicate` cannot mirror records to the topic  if copies
  CREATE             !....  mmtool cannot create the topic  if copies
  ALTER              ?....  when the source topic gains partitions, no partition is mirrored until the mirror has
      as many  if copies
  ALTER_CONFIGS      ?....  changes of the source topic's configuration are not copied  if syncs_configs
  DELETE             ?....  `mmtool replicate` cannot prefill the topic, and ends if its mirror begins far above offset
      0  if keeps_offsets
  ALTER_CONFIGS      ?....  `mmtool replicate` cannot prefill the topic if it is compacted, and ends if its mirror
      begins far above offset 0  if keeps_offsets
  DESCRIBE_CONFIGS   ??.?.  the topic's configuration is not compared with the source topic's
target CANARY_MIRROR
  READ               ....!  mirrored canary records cannot be read
target DEAD_LETTERS
  READ WRITE CREATE  !....  dead letters cannot be written  if writes_letters
target INTERNAL
  READ               !!!!!  mmtool cannot read the flow's state or offsets from the topic
  WRITE              !.!..  {_STORE}
  WRITE              ...?.  the points that `verify --since last` starts at are stored on this host only
  DESCRIBE_CONFIGS   ?....  mmtool does not check that the topic keeps its records
  CREATE             !.!..  {_STORE}
target OFFSET_SYNCS
  READ               !....  MirrorMaker 2's offset syncs cannot be read
  READ               .????  {_OF_MM2}
target REVERSE_SYNCS
  READ               ..!..  {_REVERSE}
target OFFSET_SYNCS
  WRITE CREATE       !....  {_SYNCS}
target POSITIONS
  READ               ?..?.  records that MirrorMaker 2 mirrored before mmtool are not recognised
target CHECKPOINTS
  READ               !!!..  checkpoints cannot be read
  READ               ...?.  {_OF_MM2}
  WRITE CREATE       !....  checkpoints cannot be written
target HEARTBEATS
  READ               ?....  mmtool cannot see whether MirrorMaker 2 runs the flow as well
  WRITE CREATE       ?....  {_NO_BEATS}  if beats
target COMMITS
  READ               .??..  {_TIMES}
target GROUPS
  READ               ..!..  {_COMMITS}
  READ               !....  {_COMMITS}  if syncs_groups
  DESCRIBE           .!...  the group's offsets on the target are unknown
  DELETE             ..?..  {_UNDO}
target OWN_GROUPS
  READ               !....  `mmtool replicate` cannot get the ownership lease of the flow
  READ               ..!..  `mmtool failover` cannot get the operation lock
  DESCRIBE           .!..!  mmtool cannot see which process runs the flow
  DELETE             ..?..  the groups of a drill stay until they expire
target WORKERS
  DESCRIBE           ?....  mmtool cannot see whether MirrorMaker 2 runs the flow as well
target OWN_IDS
  WRITE              !....  `mmtool replicate` cannot write with transactional ids, and mirrors nothing
target WHOLE
  DESCRIBE           ???..  {_LISTED}
  DESCRIBE_CONFIGS   ???..  {_BROKERS}
  ALTER              ..?..  `--promote-acls` is refused
  ALTER              ?....  topic ACLs of the source are not copied to the target  if syncs_acls
  ALTER              !.!..  mmtool cannot write the markers of mirrors with the source's offsets; brokers before Kafka
      3.8 want CLUSTER_ACTION instead. The holder of ALTER on the cluster can also create ACLs  if keeps_offsets
  IDEMPOTENT_WRITE   ?....  brokers before Kafka 2.8 refuse mirrored records
"""
"""What each purpose does to a kind of resource, and what is lost without the right.

A mark stands for each of `Purpose`: ! needs the right, ? does without it. A line that is indented further continues
the one before.
"""


def _needs(table: str) -> Iterator[Need]:
    for line in re.sub(r"\n {6,}", " ", table.strip()).splitlines():
        if not line.startswith(" "):
            side, kind = line.split()
            continue
        operations, marks, lost, *condition = re.split(r"  +(?:if )?", line.strip())
        needed, optional = (
            frozenset(purpose for purpose, mark in zip(Purpose, marks, strict=True) if mark == wanted)
            for wanted in "!?"
        )
        when = _CONDITIONS[condition[0]] if condition else ALWAYS
        for operation in operations.split():
            yield Need(cast("Side", side), Resource[kind], operation, lost, needed, optional, when)


NEEDS = tuple(_needs(_TABLE))


def needs_for(flow: FlowSettings, purpose: Purpose) -> Iterator[tuple[Need, bool]]:
    """The lines of the table for one purpose of a flow, each with whether it is optional."""
    for need in NEEDS:
        if need.is_needed_by(flow) and purpose in need.needed | need.optional:
            yield need, purpose not in need.needed


def needs_on(flow: FlowSettings, side: Side, kind: Resource) -> dict[str, Need]:
    """By operation on one kind of resource, the line that needs it most, whatever the purpose."""
    found: dict[str, Need] = {}
    for need in NEEDS:
        if (need.side, need.kind) == (side, kind) and need.is_needed_by(flow):
            known = found.get(need.operation)
            if known is None or (known.is_optional and not need.is_optional):
                found[need.operation] = need
    return found
