"""Topics whose logs are empty and begin far above offset 0, as after years of retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.lab_admin import alter_topic
from kit.raw_producer import asked
from mmtool.kafka.wire.metadata import EARLIEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.kafka.wire.transactions import InitProducerIdRequest
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.records.documents import OffsetWritersRecord
from mmtool.replication.same_offsets.fills import LogFill
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster

_MAX_BYTES = 1 << 20


async def _fill_up_to(wire: WireCluster, topic: str, ends: dict[int, int]) -> None:
    """Move the ends of a topic's empty logs, and their starts with them."""
    writer = OffsetWritersRecord((await wire.ask_any(InitProducerIdRequest(None, 0))).producer_id, 0)
    topic_id = (await wire.refresh([topic]))[topic].topic_id
    for number, end in ends.items():
        place = TopicPartition(topic, number)
        await LogFill(wire, place, topic_id, end, writer, _at_once, _MAX_BYTES).run("fill")


async def _at_once(_: int) -> None:
    pass


def create_far(bootstrap: str, topic: str, ends: dict[int, int], policy: str = "delete") -> None:
    """A new topic with such logs; its policy is set last."""
    create_topic(bootstrap, topic, len(ends))
    asked(bootstrap, lambda wire: _fill_up_to(wire, topic, ends))
    alter_topic(bootstrap, topic, cleanup_policy=policy)


def bounds_of(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """The start and the end of each partition's log."""
    ends = end_offsets(bootstrap, topic)
    places = {TopicPartition(topic, number): EARLIEST for number in ends}
    starts = asked(bootstrap, lambda wire: list_offsets(wire, places, read_committed=False))
    return {place.partition: (start, ends[place.partition]) for place, start in starts.items()}
