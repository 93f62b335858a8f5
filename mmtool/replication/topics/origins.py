"""Find where a source's records were first written, from the producer id in each batch's header.

Producer ids are unique in a cluster, and survive compaction and recompression. Every mmtool registers its own on the
target before the first batch under it is appended (``mmtool-producers.internal``), so a reader of that topic knows at
once which batches were mirrored into the cluster, and by which flow. No header is added to any record.

Limits: MirrorMaker 2 and other non-idempotent producers write without a producer id, so records that they copied count
as written on this cluster; and a producer id shows one hop only, the cluster that the record came from last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from collections.abc import Set as AbstractSet

from mmtool.config import FlowSettings
from mmtool.errors import UnreachableError
from mmtool.kafka.batches import NO_PRODUCER_ID, BatchView, decode
from mmtool.kafka.errors import NO_LEADER
from mmtool.kafka.state.state_log import registration
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets, read_range
from mmtool.plan.records.identity import CANARY_TOPIC, PRODUCERS_TOPIC, FlowIdentity
from mmtool.translation.types import TopicPartition

_REGISTER = TopicPartition(PRODUCERS_TOPIC, 0)


class _Numbered:
    """Every producer id: `mmtool smoke` writes without one, so whatever has one was mirrored in."""

    def __contains__(self, producer_id: object) -> bool:
        return producer_id != NO_PRODUCER_ID


class Origins:
    """Says which of a source's batches a flow skips.

    A. A producer id is judged only by a register that was read after its batch was fetched: it was registered before
       that batch was appended, or is not mmtool's.
    B. A verdict is final: an id that was handed out to another producer never becomes one of mmtool's.
    C. Canary records are mirrored from the cluster where they were written, and no further: every flow mirrors them,
       also in cycles of flows in which no other topic passes every flow.

    Args:
        source: Whose batches; its register is read.
        settings: Of the flow. With ``mmtool.origins = local`` every record that mmtool mirrored to the source is
            skipped. Where no flow is known to mirror to the source, one that denies its register counts as one that
            no flow mirrors to.
        identity: The flow: records that were mirrored from its target are not mirrored back.
        was_seen: The register existed before: it is required, and a deleted one proves nothing.

    Attributes:
        left_out: Producer ids whose batches are skipped; grows.
        is_blind: The source does not let this flow read its producer register.
    """

    def __init__(
        self,
        source: WireCluster,
        settings: FlowSettings,
        identity: FlowIdentity,
        *,
        was_seen: bool = False,
    ) -> None:
        self._source = source
        self._identity = identity
        self._local_only = settings.origins == "local"
        self._required = settings.must_tell_origins or was_seen
        self._was_seen = was_seen
        self.is_blind = False
        self._known = {NO_PRODUCER_ID}
        self._next = 0
        self._reading = asyncio.Lock()
        self.left_out: set[int] = set()

    @classmethod
    def of(
        cls, settings: FlowSettings, identity: FlowIdentity, source: WireCluster, *, was_seen: bool = False
    ) -> Origins | None:
        """The origins of a flow that needs them; None where topic names show which records to mirror.

        ``was_seen``: the source has shown its register before, so it still counts as required when it is not listed
        now.
        """
        return cls(source, settings, identity, was_seen=was_seen) if settings.tells_origins else None

    def knows(self, producer_ids: AbstractSet[int]) -> bool:
        """Whether the verdict on each of these producer ids is known, so that `learn` reads nothing."""
        return self._known.issuperset(producer_ids)

    async def learn(self, producer_ids: AbstractSet[int]) -> None:
        """Read new entries of the register, unless the verdict on each of these producer ids is known.

        Raises:
            NotAuthorisedError: READ or DESCRIBE on the register is denied.
            RefusedError: a registration cannot be decoded.
            ConnectionLostError, UnreachableError: the source does not answer.
        """
        if self.knows(producer_ids):
            return
        async with self._reading:  # several connections ask
            await self.read_on()
        self._known.update(producer_ids)

    def left_out_of(self, topic: str) -> Container[int]:
        """Producer ids whose batches are skipped in this topic; grows like `left_out`."""
        return _Numbered() if topic == CANARY_TOPIC else self.left_out

    async def leaves_out(self, topic: str, producer_id: int) -> bool:
        """Whether a batch of this topic with this producer id is skipped; reads the register if needed.

        Raises:
            As `learn`.
        """
        await self.learn({producer_id})
        return producer_id in self.left_out_of(topic)

    async def read_on(self) -> None:
        """Read the register's new entries; if that is denied, set `is_blind` or, where it is required, raise.

        Raises:
            As `learn`.
        """
        there = (await self._source.refresh([PRODUCERS_TOPIC]))[PRODUCERS_TOPIC]
        self.is_blind = there.error_code in DENIED and not self._required
        if self.is_blind:
            return
        self._source.check_denied(there.error_code, f"DESCRIBE on topic {PRODUCERS_TOPIC}")
        if there.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION and self._was_seen:
            raise UnreachableError(
                f"topic {PRODUCERS_TOPIC} no longer exists on {self._source.alias}",
                remedy=f"restart the `mmtool replicate` that mirrors to {self._source.alias}: it registers its"
                " producers again",
            )
        if there.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return  # nobody ever mirrored anything to the source
        ends = await list_offsets(self._source, {_REGISTER: LATEST}, read_committed=False)
        if _REGISTER not in ends:
            raise ConnectionLostError(f"{_REGISTER} of {self._source.alias} has no leader", NO_LEADER)
        end = ends[_REGISTER]
        if end < self._next:  # made anew: read from its beginning; what is known stays known
            self._next = 0
        views = read_range(
            self._source, PRODUCERS_TOPIC, there.topic_id, 0, self._next, end, read_committed=False
        )
        async for view in views:
            self._take(view)
            self._next = view.header.next_offset

    def _take(self, view: BatchView) -> None:
        if view.header.is_control:
            return
        for record in decode(view):
            producer = registration(record.value, record.offset)
            if producer is None:
                continue
            if producer.is_left_out(self._identity.target_id, local_only=self._local_only):
                self.left_out.add(producer.producer_id)
            self._known.add(producer.producer_id)
