"""Find the shortest chains of flows from one cluster to another (A->B->C)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

Way = tuple[str, ...]
"""The aliases of a chain's clusters, in order."""


def shortest_ways(flows: Collection[tuple[str, str]], source: str, target: str) -> list[Way]:
    """Every chain of the fewest flows from one cluster to another; empty where no flows lead there.

    Args:
        flows: Source and target of each, by their aliases.
        source: The first cluster of each chain.
        target: The last cluster of each chain.
    """
    ways: list[Way] = [(source,)]
    seen = {source}
    while ways:
        arrived = [way for way in ways if way[-1] == target]
        if arrived:
            return arrived
        ways = [
            (*way, there) for way in ways for here, there in flows if here == way[-1] and there not in seen
        ]
        seen |= {way[-1] for way in ways}
    return []
