"""The driver's writes on the target: internal topics, recorded claims and refusals, registered producer ids."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, NotAuthorisedError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.mirror_maker import syncs_place
from mmtool.kafka.state.own_log import (
    append_records,
    check_counts,
    check_kept,
    internal_topics,
    known_everywhere,
)
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.records.documents import Document, FlowRecord, OwnerRecord, RefusedRecord, ShardRecord
from mmtool.plan.topics.configs import MIN_ISR, ConfigEntry
from mmtool.plan.topics.facts import CreateTopic, too_few_replicas
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.replication.driver.context import FlowContext
    from mmtool.replication.spark.assignment import ShardAssignment


_MM2_CONFIGS = {"cleanup.policy": "compact"}


async def make_internal_topics(flow: FlowContext) -> list[str]:
    """Create the missing internal topics and MM2's offset-syncs topic, and wait until every broker knows them.

    A broker of the target that does not know the producer register yet would let the reverse flow, which reads it
    there, take this flow's records for the target's own.

    Returns warnings about created topics that have too few replicas.

    Raises:
        NotAuthorisedError, UnreachableError, MmtoolError: a topic cannot be created.
        RefusedError: an existing topic is not as mmtool creates it.
    """
    made = await in_thread(_make_internal_topics, flow)
    own = internal_topics(flow.identity, flow.settings.offset_syncs_replication_factor)
    found = await known_everywhere(flow.target, [topic.name for topic in own])
    check_counts(flow.target.alias, own, found)
    return await in_thread(_replicas_of, flow.settings, made) if made else []


def _replicas_of(settings: FlowSettings, made: set[str]) -> list[str]:
    admin = TopicAdmin(settings.target)
    try:
        configs = admin.configs(made)
    except NotAuthorisedError:
        return []
    return short_of_replicas(
        admin, made, configs, settings.target.alias, "offset-syncs.topic.replication.factor"
    )


def _make_internal_topics(flow: FlowContext) -> set[str]:
    """Create the missing topics; returns the names of mmtool's own among them."""
    settings, admin = flow.settings, TopicAdmin(flow.settings.target)
    own = internal_topics(flow.identity, settings.offset_syncs_replication_factor)
    names = {topic.name for topic in own}
    missing = names - admin.replicas(names).keys()
    admin.create_internal(own)
    with suppress(NotAuthorisedError):  # DESCRIBE_CONFIGS is no right that is asked for
        check_kept(settings.target.alias, admin.configs([topic.name for topic in own]))
    if settings.emit_offset_syncs:
        where, _ = syncs_place(settings)
        TopicAdmin(where).create_internal([syncs_topic(settings)])
    return missing


def syncs_topic(flow: FlowSettings) -> CreateTopic:
    """The definition of MM2's offset-syncs topic."""
    return mm2_topic(flow.offset_syncs_topic, flow.offset_syncs_replication_factor)


def checkpoints_topic(flow: FlowSettings) -> CreateTopic:
    """The definition of MM2's checkpoints topic, on the target."""
    return mm2_topic(flow.checkpoints_topic, flow.checkpoints_replication_factor)


def heartbeats_topic(pair: FlowSettings) -> CreateTopic:
    """The definition of MM2's heartbeats topic, on the target of the pair."""
    return mm2_topic(pair.policy.heartbeats_topic(), pair.heartbeats_replication_factor)


def mm2_topic(name: str, replication_factor: int) -> CreateTopic:
    """The definition of an internal topic as MM2 creates it: one partition, compacted, nothing else set."""
    return CreateTopic("", name, 1, replication_factor, _MM2_CONFIGS)


async def write_documents(
    flow: FlowContext, topic: str, documents: Iterable[Document], *, tombstones: Iterable[bytes] = ()
) -> None:
    """Append documents, and tombstones for keys that are no longer needed, to a topic with one partition.

    The topic is one of the flow's on the target. All in-sync replicas acknowledge the records.

    Raises:
        UnreachableError, NotAuthorisedError, MmtoolError: the target does not take them.
    """
    records: list[tuple[bytes, bytes | None]] = [(document.key, document.encode()) for document in documents]
    records += [(key, None) for key in tombstones]
    await append_records(flow.target, topic, records)


def flow_record(flow: FlowContext) -> FlowRecord:
    """The record that a flow's first start stores: its clusters, aliases and shard count."""
    identity = flow.identity
    return FlowRecord(
        source_cluster_id=identity.source_id,
        target_cluster_id=identity.target_id,
        source_alias=identity.source_alias,
        target_alias=identity.target_alias,
        shards=flow.settings.shards,
    )


def owner_record(owner: str) -> OwnerRecord:
    """The record that names this process as the owner of a flow, from now on."""
    return OwnerRecord(owner, socket.gethostname(), os.getpid(), int(time.time() * 1000))


def closed_records(shards: Iterable[ShardAssignment], owner: str) -> list[ShardRecord]:
    """The records that close the shards, which their owner leaves with nothing in flight."""
    return [ShardRecord(s.shard, s.producer_id, s.epoch, open=False, owner=owner) for s in shards]


@dataclass(slots=True)
class Refusals:
    """The recorded refusals of a flow, kept up to date.

    Attributes:
        flow: Whose topics.
        owner: The owner that records them.
    """

    flow: FlowContext
    owner: str
    _told: dict[bytes, RefusedRecord] = field(default_factory=dict)

    def start(self, control: ControlView) -> None:
        """Take over the refusals that earlier owners recorded; the next `tell` removes those that have ended."""
        self._told = dict(control.refusals)

    async def tell(self, reasons: Mapping[str, str], gone: Container[str] = ()) -> None:
        """Record the topics that are refused now, and remove the others; writes nothing if nothing has changed.

        Mirroring does not wait for it: what the target does not take now is written at the next refresh.

        Args:
            reasons: The reason for each refused topic.
            gone: Topics that the source no longer has.
        """
        words = {
            word.key: word
            for word in (
                RefusedRecord(self.owner, topic, why, topic in gone) for topic, why in reasons.items()
            )
        }
        news = [word for key, word in words.items() if self._told.get(key) != word]
        over = self._told.keys() - words.keys()
        if news or over:
            with suppress(MmtoolError, ConnectionLostError):
                topic = self.flow.identity.control_topic
                await write_documents(self.flow, topic, news, tombstones=sorted(over))
                self._told = words


def short_of_replicas(
    target: TopicAdmin,
    made: Collection[str],
    configs: Mapping[str, Mapping[str, ConfigEntry]],
    alias: str,
    key: str = "replication.factor",
) -> list[str]:
    """Warnings about new topics with fewer replicas than ``min.insync.replicas``: one per pair of numbers.

    Args:
        target: The admin client of their cluster.
        made: The new topics.
        configs: The configs of topics, as far as they can be read.
        alias: The alias of their cluster.
        key: The property that sets how many replicas a new topic has.
    """
    in_sync = {
        name: configs[name][MIN_ISR].value for name in sorted(made) if MIN_ISR in configs.get(name, {})
    }
    short: dict[tuple[int, int], list[str]] = {}
    for name, replicas in target.replicas(in_sync).items():
        wanted = int(in_sync[name] or 1)
        if replicas < wanted:
            short.setdefault((replicas, wanted), []).append(name)
    return [too_few_replicas(names, *numbers, alias, key) for numbers, names in short.items()]
