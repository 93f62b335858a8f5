"""Assign shards to the tasks of the next round, packed by the bytes that they carried in the last one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """One claimed shard with partitions to mirror.

    ``weight`` is bytes per second as measured in the last round, or its partitions where nothing was measured.
    """

    flow: str
    shard: int
    weight: float


def pack(loads: Iterable[ShardLoad], tasks: int) -> list[list[ShardLoad]]:
    """Spread whole shards over at most ``tasks`` tasks, the heaviest first onto the lightest task.

    A. Every shard is in exactly one task; no task is empty.
    B. No task is heavier than the lightest one by more than its own lightest shard.
    C. Equal input gives equal output, in any order of the input.
    """
    ordered = sorted(loads, key=lambda load: (-load.weight, load.flow, load.shard))
    piles: list[list[ShardLoad]] = [[] for _ in range(min(tasks, len(ordered)))]
    weights: dict[int, float] = defaultdict(float)
    for load in ordered:
        lightest = min(range(len(piles)), key=lambda index: (weights[index], len(piles[index]), index))
        piles[lightest].append(load)
        weights[lightest] += load.weight
    return piles
