"""Read the dead letters of a mirror, which are no missing records, and fingerprints that every process shares."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.batches.records import body_of, fields_of, read_columns
from mmtool.kafka.logs.dead_letters import SOURCE_HEADERS
from mmtool.kafka.wire.scan import log_bounds, read_range
from mmtool.translation.names import DEAD_LETTER_SUFFIX
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.insight.verify.ranges import Range
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.types import TopicId


def record_print(body: bytes | memoryview, timestamp: int) -> int:
    """Of all that a consumer sees of a record; ``timestamp`` in ms."""
    return body_print(body) ^ timestamp


def body_print(body: bytes | memoryview) -> int:
    """Of key, value and headers."""
    return int.from_bytes(blake2b(body, digest_size=7).digest(), "big")


async def read_letters(target: WireCluster, part: Range) -> dict[int, int]:
    """Fingerprints of a partition's dead letters, by the source offset that each one tells.

    A letter topic that is not there, or may not be read, has none.

    Raises:
        ConnectionLostError: The letters cannot be read.
    """
    place = TopicPartition(part.target.topic + DEAD_LETTER_SUFFIX, part.target.partition)
    try:
        await target.refresh([place.topic])
        topic_id = target.topic_id(place.topic)
        if topic_id is None:
            return {}
        start, end = (await log_bounds(target, [place])).get(place, (0, 0))
        views = read_range(target, place.topic, topic_id, place.partition, start, end, read_committed=False)
        return {
            offset: print_
            async for view in views
            if not view.header.is_control
            for offset, print_ in _letters(view, part.source_id)
        }
    except NotAuthorisedError:
        return {}


def _letters(view: BatchView, source_id: TopicId) -> Iterator[tuple[int, int]]:
    columns = read_columns(view)
    for body in columns.bodies:
        key, value, headers = fields_of(bytes(body))
        told = {name: content for name, content in headers if name.startswith(SOURCE_HEADERS)}
        if told.get(SOURCE_HEADERS + b"topic.id") != source_id.encode():
            continue
        own = tuple(header for header in headers if not header[0].startswith(SOURCE_HEADERS))
        offset = told.get(SOURCE_HEADERS + b"offset") or b""
        if offset.isdigit():
            yield int(offset), body_print(body_of(key, value, own))
