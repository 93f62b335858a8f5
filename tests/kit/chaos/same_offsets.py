"""Mirrors that keep the source's offsets: where a record or a log's end differs, and which partitions have said so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kit.exactness import flow_identity
from mmtool.kafka.state.state_log import read_control
from mmtool.lab.topics import end_offsets, read_topic
from mmtool.plan.records.documents import State
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from kit.chaos.linked_flow import LinkedFlow
    from mmtool.lab.topics import Isolation, Record

    ByOffset = Mapping[int, Record]

ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
HALTED = "offsets_differ"


def halted(flow: LinkedFlow) -> dict[TopicPartition, str]:
    """Why partitions of the flow halted that said that their offsets differ, by the source's names."""
    control = read_control(flow.settings.target, flow_identity(flow.source, flow.target))
    topics = {*flow.remotes, *flow.compacted}
    return {
        TopicPartition(one.topic, one.partition): one.reason
        for one in control.positions.values()
        if one.topic in topics and one.state == State.HALTED and one.reason.startswith(HALTED)
    }


def uneven_ends(flow: LinkedFlow, but: Container[TopicPartition]) -> str:
    """The logs' ends that differ, of partitions that go on; empty where none does."""
    found: dict[str, tuple[int | None, int]] = {}
    for topic, remote in (flow.remotes | flow.compacted).items():
        ends, there = end_offsets(flow.source.bootstrap, topic), end_offsets(flow.target.bootstrap, remote)
        if not ends:
            return f"nobody tells where {topic} ends"
        found |= {
            f"{topic}-{p}": (there.get(p), end)
            for p, end in ends.items()
            if there.get(p) != end and TopicPartition(topic, p) not in but
        }
    return f"the target's and the source's ends differ: {found}" if found else ""


def displaced(flow: LinkedFlow, but: Container[TopicPartition]) -> Iterator[str]:
    """Records of partitions that go on which one side has alone at their offsets, at both isolation levels."""
    for topic, remote in (flow.remotes | flow.compacted).items():
        homes = _by_offset(flow.source.bootstrap, topic, "read_committed")
        for isolation in ISOLATIONS:
            theirs = _by_offset(flow.target.bootstrap, remote, isolation)
            for p, home in homes.items():
                wrong = list(alone(home, theirs.get(p, {}), compacted=topic in flow.compacted))
                if wrong and TopicPartition(topic, p) not in but:
                    yield f"{len(wrong)} displaced ({isolation}) in {topic}-{p}: {wrong[:3]}"


def compacted_away(flow: LinkedFlow) -> int:
    """Offsets of the source's compacted topics that have no record any more."""
    source = flow.source.bootstrap
    return sum(
        sum(end_offsets(source, topic).values()) - len(read_topic(source, topic)) for topic in flow.compacted
    )


def alone(
    home: ByOffset, there: ByOffset, *, compacted: bool
) -> Iterator[tuple[Literal["source", "target"], int]]:
    """Where one side has a record that the other one has not at that offset.

    The cleaner of either side may have taken a record whose key has a later one on that side."""
    for side, mine, other in (("source", home, there), ("target", there, home)):
        last = {record.key: offset for offset, record in sorted(other.items())}
        for offset, record in mine.items():
            is_cleaned = compacted and last.get(record.key, -1) > offset
            if not (other[offset] == record if offset in other else is_cleaned):
                yield side, offset  # type: ignore[misc]  # one of two words


def _by_offset(bootstrap: str, topic: str, isolation: Isolation) -> dict[int, dict[int, Record]]:
    found: dict[int, dict[int, Record]] = {}
    for record in read_topic(bootstrap, topic, isolation=isolation):
        found.setdefault(record.partition, {})[record.offset] = record
    return found
