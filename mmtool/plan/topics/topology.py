"""Find flows with identical names on which a record would reach a cluster twice, before any of them starts.

A flow with `origins = all` mirrors all records of its source's topics, except those that were mirrored from its own
target: so a pair exchanges records without a loop, and chains and trees of pairs pass them on. With `local` it mirrors
only records that were first written on its source, so a full mesh does not repeat any. Every other cycle repeats
records, without end or once for each route.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Route = tuple[str, ...]
"""Aliases of clusters in order, from the one where a record was first written."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One flow that keeps names, by the aliases of its clusters."""

    source: str
    target: str
    origins: Literal["all", "local"] = "all"

    def carries(self, route: Route) -> bool:
        """Whether the flow mirrors a record that came along ``route``, which ends at the flow's source."""
        born_here = len(route) == 1
        return born_here or (self.origins == "all" and route[-2] != self.target)


def repetition(edges: Iterable[Edge]) -> tuple[Route, Route] | None:
    """The first two routes on which a record would reach the same cluster; None without any.

    The first route may be one cluster alone: the record would return to the cluster where it was first written.
    """
    leaving: dict[str, list[Edge]] = {}
    for edge in sorted(edges, key=lambda e: (e.source, e.target)):
        leaving.setdefault(edge.source, []).append(edge)
    found = (_from(born, leaving) for born in leaving)
    return next((pair for pair in found if pair is not None), None)


def _from(born: str, leaving: dict[str, list[Edge]]) -> tuple[Route, Route] | None:
    routes: dict[str, Route] = {born: (born,)}
    coming = deque(routes.values())
    while coming:
        for route in _onward(coming.popleft(), leaving):
            if route[-1] in routes:
                return routes[route[-1]], route
            routes[route[-1]] = route
            coming.append(route)
    return None


def _onward(route: Route, leaving: dict[str, list[Edge]]) -> Iterator[Route]:
    for edge in leaving.get(route[-1], ()):
        if edge.carries(route):
            yield (*route, edge.target)
