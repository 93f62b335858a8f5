"""Compare retention with a mirror's position; find flows on which a record would reach a cluster twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mmtool.plan.words import counted, moment

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
    for born in leaving:
        routes: dict[str, Route] = {born: (born,)}
        coming = deque(routes.values())
        while coming:
            route = coming.popleft()
            for edge in leaving.get(route[-1], ()):
                if not edge.carries(route):
                    continue
                onward = (*route, edge.target)
                if edge.target in routes:
                    return routes[edge.target], onward
                routes[edge.target] = onward
                coming.append(onward)
    return None


class Retention(NamedTuple):
    """A topic's retention limits; None where there is no limit, or the cluster does not show it.

    Attributes:
        ms: For how long.
        bytes: How much of each partition.
    """

    ms: int | None = None
    bytes: int | None = None


def deleted_unmirrored(position: int, log_start: int) -> str:
    """The sentence that the source deleted the offsets from the mirror's position to its log start."""
    return f"the source deleted offsets {position} to {log_start - 1} before they were mirrored"


class Deadline(NamedTuple):
    """When the source may delete the first record that is not mirrored.

    Attributes:
        name: The config that sets it.
        at_ms: The earliest time, in ms since 1970.
        span_ms: For how long the source keeps a record.
    """

    name: str
    at_ms: int
    span_ms: int


def deadline(oldest_ms: int, now_ms: int, keeps: Retention, first_ms: int | None) -> Deadline | None:
    """The earliest deadline of the first unmirrored record; None where no limit applies to it yet.

    No limit applies where the source keeps everything, or keeps by size only and has deleted nothing yet. A log that
    has reached its size limit keeps a record for as long as it has kept the one that it deletes next.

    Args:
        oldest_ms: When the first unmirrored record was written, as far as that is known.
        now_ms: The time.
        keeps: The source's retention of the topic.
        first_ms: The timestamp of the log's first record, where records before it were deleted; None where none were.
    """
    spans = {"retention.ms": keeps.ms}
    if keeps.bytes is not None and first_ms is not None:
        spans["retention.bytes"] = now_ms - first_ms
    known = {name: span for name, span in spans.items() if span is not None}
    if not known:
        return None
    name = min(known, key=lambda name: known[name])
    return Deadline(name, oldest_ms + known[name], known[name])


def passing(oldest_ms: int, now_ms: int, keeps: Retention, first_ms: int | None) -> str:
    """The warning that retention may delete unmirrored records, once half of a record's time is over; else empty.

    The arguments are those of `deadline`.
    """
    due = deadline(oldest_ms, now_ms, keeps, first_ms)
    if due is None or now_ms - oldest_ms < due.span_ms / 2:
        return ""
    return (
        f"{due_words(due, now_ms)} the source may delete records that are not mirrored yet ({due.name}): raise"
        f" {due.name} on the source, at least until the lag is 0"
    )


def due_words(due: Deadline, now_ms: int) -> str:
    """The time of a deadline as the beginning of a sentence: ``at any moment``, ``from TIME on, in 2 hours,``."""
    if due.at_ms <= now_ms:
        return "at any moment"
    seconds = (due.at_ms - now_ms) // 1000  # rounded down in the largest unit of which it is at least two
    units = (("day", 86_400), ("hour", 3_600), ("minute", 60))
    many = next((f"{seconds // size} {name}s" for name, size in units if seconds >= 2 * size), None)
    return f"from {moment(due.at_ms)} on, in {many or counted(seconds, 'second')},"
