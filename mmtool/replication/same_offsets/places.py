"""Where each record and each marker of a mirror with the source's own offsets belongs. No IO."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from mmtool.plan.flow.remedies import START_AGAIN
from mmtool.plan.topics.facts import HaltReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.kafka.batches import BatchView
    from mmtool.translation.blocks import MirroredPartition

MOST_FILLED = 1_000_000
"""Offsets that one fill may have: at 3,000 to 8,000 markers a second into a partition, minutes."""

FILLED_AT_ONCE = 3_000
"""Offsets of a fill that are written before a round may end: about a second."""


def neighbours(views: Sequence[BatchView]) -> list[Sequence[BatchView]]:
    """Batches of the source between which no offset is missing, together; what is joined then has no hole between."""
    cuts = [
        0,
        *(n for n, (a, b) in enumerate(pairwise(views), 1) if a.header.next_offset != b.header.base_offset),
    ]
    return [views[start:stop] for start, stop in pairwise([*cuts, len(views)])]


def offsets_differ(about: MirroredPartition, source: int, target: int, flow: str) -> HaltReason:
    """Why a partition's mirror cannot keep the source's offsets.

    Args:
        about: The partition.
        source: The offset that the next record has on the source.
        target: The offset that the target gives it, or has given it.
        flow: The options that select the flow in a command.
    """
    return HaltReason(
        f"offsets_differ: the next record of {about.upstream} has offset {source} on the source, and would have"
        f" {target} on the target: another producer wrote to {about.target_topic}, it was not empty when its mirror"
        " began, or its offsets were translated before",
        f"stop `mmtool replicate`, delete topic {about.target_topic} on the target, run `mmtool flow forget {flow}"
        f" --topic {about.source_topic} --execute`, {START_AGAIN}, which mirrors it from `mmtool.start`; or leave it as"
        " it is",
    )
