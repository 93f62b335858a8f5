"""What prefills cost, and the refusal of a flow that does not allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import RefusedError
from mmtool.kafka.state.state_log import newest_blocks, read_blocks
from mmtool.kafka.wire.placement import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.output import human
from mmtool.plain_text import duration
from mmtool.plan.topics.facts import HaltReason
from mmtool.plan.words import counted
from mmtool.replication.topics.start_offsets import starts_at
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mmtool.config import FlowSettings
    from mmtool.replication.driver.context import FlowContext

FEW = 10_000
"""Offsets up to which markers are written: at 3,000 to 8,000 a second, some seconds."""
SHARE = 0.5
"""Of the flow's throttle for its prefills; its workers have the rest meanwhile."""
_PER_SECOND = 2_000_000
_BYTES = 0.77
"""Of a compressed empty record [measured]."""


class Cost(NamedTuple):
    """What prefills take.

    Attributes:
        seconds: On an idle broker with two cores, or by the flow's throttle.
    """

    partitions: int
    offsets: int
    replicas: int
    seconds: float

    @classmethod
    def of(cls, offsets: Sequence[int], replicas: int, settings: FlowSettings) -> Cost:
        """The cost of moving ends by so many offsets."""
        total, rate = sum(offsets), settings.throttle_bytes_per_second
        slowest = total * _BYTES / (rate * SHARE) if rate is not None else 0.0
        return cls(len(offsets), total, replicas, max(total / _PER_SECOND, slowest, 1.0))

    def __str__(self) -> str:
        """What is done, and what it takes."""
        times = f", times {self.replicas} replicas" if self.replicas > 1 else ""
        return (
            f"{self.offsets:,} offsets of {counted(self.partitions, 'partition')} are filled with empty records, which"
            f" are deleted at once: about {human.size(self.offsets * _BYTES)}{times}, and"
            f" {duration(self.seconds)} or more"
        )

    def why_refused(self, flow: FlowSettings) -> HaltReason | None:
        """Why a flow does not allow it, with the remedy; None if it does."""
        if self.offsets <= flow.prefill_max_offsets:
            return None
        return HaltReason(
            f"before mirrors with mmtool.offsets = same begin, {self}; that is more than mmtool.prefill.max.offsets ="
            f" {flow.prefill_max_offsets:,}",
            f"set {flow.name}.mmtool.prefill.max.offsets = {self.offsets} or more, or mmtool.offsets = translated",
        )


async def check_prefill(flow: FlowContext, topics: Collection[str]) -> None:
    """Refuse a flow whose prefills cost more than it allows, before anything is created.

    Raises:
        RefusedError: They do; the message has the cost.
    """
    settings, found = flow.settings, await flow.source.refresh(topics)
    ups = [
        TopicPartition(name, p.partition)
        for name in topics
        if settings.keeps_offsets(name) and name in found
        for p in found[name].partitions
        if flow.source.leader(name, p.partition) is not None
    ]
    starts = {tp: at for tp, at in (await starts_at(flow, ups, settings.start)).items() if at > FEW}
    downs = {tp: TopicPartition(settings.remote_topic(tp.topic), tp.partition) for tp in starts}
    if not downs:
        return
    await flow.target.refresh({down.topic for down in downs.values()})
    led = [down for down in downs.values() if flow.target.leader(*down) is not None]
    ends = await list_offsets(flow.target, dict.fromkeys(led, LATEST), read_committed=False)
    left = {tp: at - ends.get(downs[tp], 0) for tp, at in starts.items()}
    if sum(n for n in left.values() if n > FEW) <= settings.prefill_max_offsets:
        return
    stored = await in_thread(read_blocks, settings.target, flow.identity, None)
    known = newest_blocks(stored.values())
    new = [n for tp, n in left.items() if n > FEW and (found[tp.topic].topic_id, tp.partition) not in known]
    if why := Cost.of(new, settings.replication_factor, settings).why_refused(settings):
        raise RefusedError(f"{settings.name}: {why.cause}", remedy=why.cure, code="prefill_too_long")
