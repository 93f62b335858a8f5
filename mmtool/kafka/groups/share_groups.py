"""The positions of a share group (KIP-932), from its coordinator's answer and from the ends of the logs."""

from __future__ import annotations

from collections.abc import Mapping

from mmtool.kafka.wire.share_groups import ShareStart
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown


def positions(
    starts: Mapping[TopicPartition, ShareStart],
    before: Mapping[TopicPartition, int],
    after: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Commit]:
    """The position in each share partition, and how many records behind it are acknowledged, at most.

    A coordinator stores a new start with the acknowledgement that follows, so the start in its answer may be old. Where
    no record is left (a lag of 0), everything before the log's end is acknowledged, and the position is that end.

    Args:
        starts: What the coordinator answers.
        before: The last stable offsets, read before that; every isolation level counts at least these records.
        after: The log ends, read after that; no isolation level counts more.
    """
    return {
        place: _position(answer, before.get(place, UNKNOWN), after.get(place, UNKNOWN))
        for place, answer in starts.items()
    }


def _position(answer: ShareStart, before: int | Unknown, after: int | Unknown) -> Commit:
    if answer.lag == 0 and before is not UNKNOWN:
        return Commit(max(answer.start, before))
    if answer.lag < 0 or after is UNKNOWN:
        return Commit(answer.start, acknowledged=UNKNOWN)
    return Commit(answer.start, acknowledged=max(0, after - answer.start - answer.lag))
