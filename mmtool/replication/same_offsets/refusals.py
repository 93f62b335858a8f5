"""Flows that cannot keep the source's offsets, refused before anything is created."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, UsageError
from mmtool.kafka.mm2.mirror_maker import read_positions, read_syncs
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import retrying
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.markers import check_markers
from mmtool.kafka.wire.placement import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plan.words import named_topics
from mmtool.runtime.threads import in_thread
from mmtool.translation.names import HEARTBEATS_TOPIC
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mmtool.config import FlowSettings
    from mmtool.replication.driver.context import FlowContext

_CODE = "same_offsets"
_WHY = "with mmtool.offsets = same, a topic has the offsets of one source topic"
TRANSLATE = "set mmtool.offsets = translated"


def refuse_two_sources(flows: Sequence[FlowSettings]) -> None:
    """Refuse flows into one topic of which one keeps the source's offsets, as far as the properties file shows.

    Raises:
        UsageError: Two flows, or a flow and the heartbeats of the target, would write to one topic.
    """
    for flow in flows:
        if flow.offsets == "same" and flow.mirrors_topic(HEARTBEATS_TOPIC):
            _refuse_heartbeats(flow)
    for one, other in combinations(flows, 2):
        keeps = one.target.alias == other.target.alias and "same" in {one.offsets, other.offsets}
        if keeps and (topic := _common(one, other)):
            raise UsageError(
                f"{one.name} and {other.name} would both mirror {topic} to one topic of {one.target.alias}: {_WHY}",
                remedy=f"exclude the topics of one flow with {other.name}.topics.exclude, or {TRANSLATE} in both flows",
                code="names_meet",
            )


def _refuse_heartbeats(flow: FlowSettings) -> None:
    if flow.remote_topic(HEARTBEATS_TOPIC) == HEARTBEATS_TOPIC:
        raise UsageError(
            f"{flow.name} would mirror topic {HEARTBEATS_TOPIC} to topic {HEARTBEATS_TOPIC} of {flow.target.alias},"
            f" where other heartbeats are written: {_WHY}",
            remedy=f"set {flow.name}.heartbeats.replication.enabled = false, and add {HEARTBEATS_TOPIC} to"
            f" {flow.name}.topics.exclude",
            code=_CODE,
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

    Raises:
        UsageError: The message names the topics.
        UnreachableError: A cluster does not answer.
    """
    if topics := await _mirrored_by_mm2(flow):
        here = flow.settings
        raise UsageError(
            f"{here.name}: MirrorMaker 2 mirrored {named_topics(topics, 3)}, with other offsets than on"
            f" {here.source.alias}; mmtool.offsets = same needs a target topic that is empty",
            remedy=f"delete {named_topics([here.remote_topic(topic) for topic in topics], 3)} on {here.target.alias},"
            f" or {TRANSLATE} for this flow; then run the same command again",
            code=_CODE,
        )


async def _mirrored_by_mm2(flow: FlowContext) -> list[str]:
    """Source topics that have records on the target and traces of MM2, and none of mmtool."""
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
    return sorted({downs[down].topic for down, end in ends.items() if end > 0})
