"""Flows that cannot keep the source's offsets, and prefills that are not allowed: refused before all else."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import NotAuthorisedError, RefusedError, UsageError
from mmtool.kafka.mirror_maker import read_positions, read_syncs
from mmtool.kafka.state.state_log import read_control, read_newest_blocks
from mmtool.kafka.wire.cluster import retrying
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.kafka.wire.transactions import check_markers
from mmtool.output import human
from mmtool.plain_text import duration
from mmtool.plan.topics.facts import HaltReason
from mmtool.plan.words import counted, named_topics
from mmtool.replication.topics.start_offsets import starts_at
from mmtool.runtime.threads import in_thread
from mmtool.translation.names import HEARTBEATS_TOPIC
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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
    known = await in_thread(read_newest_blocks, settings.target, flow.identity)
    new = [n for tp, n in left.items() if n > FEW and (found[tp.topic].topic_id, tp.partition) not in known]
    if why := Cost.of(new, settings.replication_factor, settings).why_refused(settings):
        raise RefusedError(f"{settings.name}: {why.cause}", remedy=why.cure, code="prefill_too_long")


_CODE = "same_offsets"
_WHY = "with mmtool.offsets = same, a topic has the offsets of one source topic"
TRANSLATE = "set mmtool.offsets = translated"


def refuse_two_sources(flows: Sequence[FlowSettings]) -> None:
    """Refuse flows into one topic of which one keeps the source's offsets, as far as the properties file shows.

    Raises:
        UsageError: Two flows, or a flow and the heartbeats of the target, would write to one topic.
    """
    for flow in flows:
        is_heard = flow.offsets == "same" and flow.mirrors_topic(HEARTBEATS_TOPIC)
        if is_heard and flow.remote_topic(HEARTBEATS_TOPIC) == HEARTBEATS_TOPIC:
            raise UsageError(
                f"{flow.name} would mirror topic {HEARTBEATS_TOPIC} to topic {HEARTBEATS_TOPIC} of"
                f" {flow.target.alias}, where other heartbeats are written: {_WHY}",
                remedy=f"set {flow.name}.heartbeats.replication.enabled = false, and add {HEARTBEATS_TOPIC} to"
                f" {flow.name}.topics.exclude",
                code=_CODE,
            )
    for one, other in combinations(flows, 2):
        keeps = one.target.alias == other.target.alias and "same" in {one.offsets, other.offsets}
        if keeps and (topic := _common(one, other)):
            raise UsageError(
                f"{one.name} and {other.name} would both mirror {topic} to one topic of {one.target.alias}: {_WHY}",
                remedy=f"exclude the topics of one flow with {other.name}.topics.exclude, or {TRANSLATE} in both flows",
                code="names_meet",
            )


def _common(one: FlowSettings, other: FlowSettings) -> str:
    """A topic that both flows mirror under one name, in words; empty if the file does not show one."""
    for topic in sorted(one.literal_topics & other.literal_topics):
        if one.remote_topic(topic) == other.remote_topic(topic):
            return f"topic {topic}"
    alike = one.keeps_names and other.keeps_names and one.topics == other.topics
    return "each topic" if alike and one.topics.literals() is None else ""


def refuse_take_over(flows: Iterable[FlowSettings]) -> None:
    """Refuse a take-over of flows that keep the source's offsets.

    Raises:
        UsageError: A flow does.
    """
    for flow in flows:
        if flow.offsets == "same":
            raise UsageError(
                f"--take-over: {flow.name} has mmtool.offsets = same, and MirrorMaker 2 gave its records other offsets",
                remedy=f"{TRANSLATE} for this flow; or, to mirror its topics from their start, stop MirrorMaker 2,"
                f" delete their mirrors on {flow.target.alias}, and run the same command without --take-over",
                code=_CODE,
            )


async def check_right(flow: FlowContext) -> None:
    """Check that the target takes markers, as `check_markers` does.

    Raises:
        NotAuthorisedError, UnsupportedByBrokerError: It does not.
        UnreachableError: It does not answer.
    """

    async def attempt() -> tuple[int, None]:
        await check_markers(flow.target)
        return Code.NONE, None

    await retrying(attempt, what="asking for the right to write markers", alias=flow.target.alias)


async def refuse_topics_of_mm2(flow: FlowContext) -> None:
    """Refuse a flow of which MirrorMaker 2 mirrored a topic, and mmtool did not; changes nothing.

    Such a topic has records on the target, and traces of MM2 alone.

    Raises:
        UsageError: The message names the topics.
        UnreachableError: A cluster does not answer.
    """
    here, traces = flow.settings, set[TopicPartition]()
    with suppress(NotAuthorisedError):
        for positions in (await in_thread(read_positions, here)).values():
            traces |= positions.keys()
    with suppress(NotAuthorisedError):
        traces |= (await in_thread(read_syncs, here)).keys()
    traces = {up for up in traces if here.mirrors_topic(up.topic) and here.keeps_offsets(up.topic)}
    control = await in_thread(read_control, here.target, flow.identity)
    own = {TopicPartition(position.topic, position.partition) for position in control.positions.values()}
    downs = {TopicPartition(here.remote_topic(up.topic), up.partition): up for up in traces - own}
    ends = await list_offsets(flow.target, dict.fromkeys(downs, LATEST), read_committed=False)
    topics = sorted({downs[down].topic for down, end in ends.items() if end > 0})
    if topics:
        raise UsageError(
            f"{here.name}: MirrorMaker 2 mirrored {named_topics(topics, 3)}, with other offsets than on"
            f" {here.source.alias}; mmtool.offsets = same needs a target topic that is empty",
            remedy=f"delete {named_topics([here.remote_topic(topic) for topic in topics], 3)} on {here.target.alias},"
            f" or {TRANSLATE} for this flow; then run the same command again",
            code=_CODE,
        )
