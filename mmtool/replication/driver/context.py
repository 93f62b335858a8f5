"""One flow in the process that runs it: its settings, its connections, and what its owner keeps in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from mmtool.config import FlowSettings
from mmtool.kafka.admin.cluster_facts import check_cluster_id, check_distinct
from mmtool.kafka.clients import wire_cluster, wire_options
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.plan.flow.transforms import TransformSpec
from mmtool.plan.records.documents import OffsetWritersRecord, PositionRecord
from mmtool.plan.records.identity import FlowIdentity, shard_of
from mmtool.plan.topics.facts import HaltReason
from mmtool.replication.spark.assignment import OffsetWriters, ShardAssignment
from mmtool.transforms.shipment import Shipment
from mmtool.transforms.source import SourceTransforms
from mmtool.translation.blocks import Block, MirroredPartition
from mmtool.translation.types import TopicId

Place = tuple["TopicId", int]


@dataclass(slots=True, eq=False)
class FlowContext:
    """A flow whose clusters have both answered with the cluster ids that were expected.

    Attributes:
        settings: The settings in force; replaced when the properties file has changed.
        shows_register: Whether the source has listed its producer register before: if it is not listed now, access was
            denied.
        shipped: By source topic, the transforms that a task was given; None where they are read from the settings.
    """

    settings: FlowSettings
    identity: FlowIdentity
    source: WireCluster
    target: WireCluster
    shows_register: bool = False
    shipped: Mapping[str, TransformSpec | None] | None = None

    @property
    def transforms(self) -> SourceTransforms:
        """The transforms of the flow's topics; the caller closes them."""
        return SourceTransforms(Shipment(self.settings).of if self.shipped is None else self.shipped.get)

    @property
    def mm2_transforms(self) -> SourceTransforms:
        """Those of them that MirrorMaker 2 runs; likewise."""
        return SourceTransforms.of(self.settings.as_mm2_copies)

    async def answers(self) -> bool:
        """Whether both clusters answer a metadata request now."""
        try:
            await asyncio.gather(self.source.refresh(()), self.target.refresh(()))
        except ConnectionLostError:
            return False
        return True

    def renew_credentials(self) -> None:
        """Connect with the credentials of `settings` from now on; open connections stay.

        Raises:
            ConfigError: as `wire_options`.
        """
        self.source.renew_credentials(wire_options(self.settings.source, role="consumer"))
        self.target.renew_credentials(wire_options(self.settings.target, role="producer"))

    async def close(self) -> None:
        await asyncio.gather(self.source.close(), self.target.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def connect(settings: FlowSettings) -> FlowContext:
    """Connect to both clusters of a flow, and check that they are the expected ones.

    Raises:
        UnreachableError, NotAuthorisedError: a cluster does not answer, or denies access.
        RefusedError: ``mmtool.cluster.id`` names another cluster than the one that answered.
        ConfigError: both aliases are one cluster.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # lost connections are our own affair
    source = wire_cluster(settings.source, "driver", role="consumer")
    target = wire_cluster(settings.target, "driver", role="producer")
    try:
        await asyncio.gather(source.start(), target.start())
        check_cluster_id(settings.source, source.cluster_id)
        check_cluster_id(settings.target, target.cluster_id)
        identity = FlowIdentity(
            source.identify(), target.identify(), settings.source.alias, settings.target.alias
        )
        check_distinct(identity)
    except BaseException:
        await asyncio.gather(source.close(), target.close())
        raise
    return FlowContext(settings, identity, source, target)


@dataclass(slots=True)
class OwnedState:
    """An owner's claims, and the open block of each partition that the flow ever mirrored.

    Attributes:
        halted: Partitions that are halted, and why.
        unclear: Those of them whose logs the next owner has to read, even if this one ends cleanly.
        later: Those of them that continue as soon as their source partition can be read: recovery is then repeated.
        others: Positions that report foreign records found behind the last owner's stored offset runs.
        offset_writers: By what mirrors with the source's own offsets are written; None where no topic has one.
    """

    shards: dict[int, ShardAssignment]
    blocks: dict[Place, Block] = field(default_factory=dict)
    halted: dict[Place, HaltReason] = field(default_factory=dict)
    unclear: set[Place] = field(default_factory=set)
    later: set[Place] = field(default_factory=set)
    others: dict[Place, PositionRecord] = field(default_factory=dict)
    offset_writers: OffsetWritersRecord | None = None

    def writers_of(self, settings: FlowSettings, topic: str, generation: int) -> OffsetWriters | None:
        """By what a topic's mirror is written where it keeps the source's offsets; ``generation`` as of that type."""
        if self.offset_writers is None or not settings.keeps_offsets(topic):
            return None
        of = self.offset_writers
        return OffsetWriters(
            of.data_producer, of.fill_producer, generation, of.epoch, shared=settings.keeps_names
        )

    def halt(self, place: Place, reason: HaltReason) -> None:
        """Halt a partition for this owner's lifetime: the target's log does not match the recorded offset runs."""
        if place not in self.halted:
            self.unclear.add(place)
        self.halted[place] = reason

    def forget(self, place: Place) -> None:
        """Drop a partition whose stored state was deleted."""
        self.blocks.pop(place, None)
        self.halted.pop(place, None)

    def put_off(self, place: Place, reason: HaltReason) -> None:
        """Halt a partition until its source can be read; then its unrecorded records are compared."""
        self.halt(place, reason)
        self.later.add(place)

    @property
    def awaited(self) -> list[MirroredPartition]:
        """Partitions whose recovery was deferred by `put_off`, and that are still halted and not forgotten."""
        return [self.blocks[place].about for place in self.later & self.halted.keys() & self.blocks.keys()]

    def way_on(self, place: Place, identity: FlowIdentity) -> str:
        """The remedy for a halted partition, as a phrase for the operator: its halt's own one, if there is one."""
        if place in self.later:
            return "run the same command again when the source partition can be read"
        if cure := self.halted[place].cure:
            return cure
        block = self.blocks.get(place)
        topic = block.about.source_topic if block is not None else "TOPIC"
        of = f"{identity.options} --topic {topic} --execute"
        return (
            f"run `mmtool flow rebuild {of}`, then the same command again; if the rebuild is refused, `mmtool flow"
            f" forget {of}` lets the next start of `mmtool replicate` mirror topic {topic} again from `mmtool.start`"
        )

    def clear(self, count: int) -> list[ShardAssignment]:
        """The shards, of ``count``, that can be closed: those without a partition that the next owner has to read."""
        open_shards = {shard_of(*place, count) for place in self.unclear & self.halted.keys()}
        return [claim for shard, claim in self.shards.items() if shard not in open_shards]
