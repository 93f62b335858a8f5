"""The names of a flow on its clusters, and the types of documents on its control topic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from zlib import crc32

from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.records.documents import (
    CommitRatesRecord,
    ControlRecord,
    Document,
    FlowRecord,
    OffsetWritersRecord,
    OwnerRecord,
    PauseRecord,
    PositionRecord,
    PrefillRecord,
    RefusedRecord,
    ShardRecord,
    SharesRecord,
    UseRecord,
)
from mmtool.plan.records.marks import (
    FailedOverRecord,
    GroupNameRecord,
    LookRecord,
    MovedGroupRecord,
    RemovedRecord,
    VerifiedRecord,
)
from mmtool.plan.words import flow_options
from mmtool.translation.names import topic_part
from mmtool.translation.types import ClusterId, TopicId

CONTROL_DOCUMENTS: tuple[type[Document], ...] = (
    FlowRecord,
    OwnerRecord,
    OffsetWritersRecord,
    ShardRecord,
    ControlRecord,
    SharesRecord,
    UseRecord,
    SlotsRecord,
    PositionRecord,
    PrefillRecord,
    RefusedRecord,
    PauseRecord,
    FailedOverRecord,
    MovedGroupRecord,
    GroupNameRecord,
    LookRecord,
    CommitRatesRecord,
    RemovedRecord,
    VerifiedRecord,
)


def decode_control(key: bytes, value: bytes) -> Document | None:
    """Decode a control record; None for a key of another program or of a later mmtool.

    Raises:
        UnreadableDocumentError: The value is damaged, or of another version.
    """
    name = key.decode(errors="replace")
    for kind in CONTROL_DOCUMENTS:
        if name == kind.PREFIX or (kind.PREFIX.endswith("/") and name.startswith(kind.PREFIX)):
            return kind.decode(value)
    return None


RUNS_PARTITIONS = 8
_RUNS = ("mmtool-offset-runs.", ".internal")
_CONTROL_TOPIC = re.compile(r"mmtool-control\.(.+)\.internal")
PRODUCERS_TOPIC = "mmtool-producers.internal"
JOURNAL_TOPIC = "mmtool-journal.internal"
CANARY_TOPIC = "mmtool-canary"
"""The one topic of mmtool's own that flows mirror: `mmtool smoke` writes it on the source."""


@dataclass(frozen=True, slots=True)
class FlowIdentity:
    """One directed pair of clusters.

    The two cluster ids are the identity; the aliases are what the operator calls them. Names of topics carry
    the source's alias, as MirrorMaker 2's do, so that an operator recognises them.
    """

    source_id: ClusterId
    target_id: ClusterId
    source_alias: str
    target_alias: str

    @property
    def flow(self) -> str:
        """The flow's id in transactional ids and group names: both cluster ids, source first."""
        return f"{self.source_id}-{self.target_id}"

    @property
    def name(self) -> str:
        """The flow as an operator writes it: ``west->east``."""
        return f"{self.source_alias}->{self.target_alias}"

    @property
    def options(self) -> str:
        """The options that select the flow in a command of a remedy; FILE is the operator's properties file."""
        return flow_options(self.source_alias, self.target_alias)

    @property
    def way_back(self) -> FlowIdentity:
        """The flow between the same clusters in the other direction."""
        return FlowIdentity(self.target_id, self.source_id, self.target_alias, self.source_alias)

    @property
    def runs_topic(self) -> str:
        return topic_part(self.source_alias).join(_RUNS)

    @property
    def control_topic(self) -> str:
        return f"mmtool-control.{topic_part(self.source_alias)}.internal"

    def others(self, topics: Iterable[str]) -> dict[str, FlowIdentity]:
        """Other flows to the target by the source's alias, if their control topics are among ``topics``.

        Only the alias of each is right: its source's id is this flow's.
        """
        found = (_CONTROL_TOPIC.fullmatch(name) for name in sorted(topics) if name != self.control_topic)
        return {match[1]: replace(self, source_alias=match[1]) for match in found if match}

    @property
    def ownership_group(self) -> str:
        return f"mmtool.{self.flow}"

    def transactional_id(self, shard: int) -> str:
        return f"mmtool.{self.flow}.{shard}"

    def letters_id(self, shard: int) -> str:
        """The transactional id under which a shard's dead letters are written."""
        return f"{self.transactional_id(shard)}.dead-letters"


def owner_client(host: str, pid: int) -> str:
    """The end of an ownership-group member's client id, which names its host and process."""
    return f"-owner-{host}-pid-{pid}"


def is_runs_topic(name: str) -> bool:
    """Whether a topic holds some flow's offset runs."""
    return name.startswith(_RUNS[0]) and name.endswith(_RUNS[1])


def shard_of(topic_id: TopicId, partition: int, shards: int) -> int:
    """The shard of a source partition: fixed for as long as the topic lives.

    A partition that changed its shard would change its producer id, and a later write of the old id at an
    already used sequence would be answered with success and not appended.
    """
    return crc32(f"{topic_id}:{partition}".encode()) % shards


def runs_partition_of(shard: int) -> int:
    """The partition of the offset-run topic that a shard writes, under its own producer id."""
    return shard % RUNS_PARTITIONS
