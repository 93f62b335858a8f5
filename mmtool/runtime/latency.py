"""Latency histogram: time from records' timestamps to their acknowledgement on the target."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

BOUNDS_MS = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000)
"""The buckets' upper bounds, inclusive; one more bucket counts longer latencies."""


class Latency(NamedTuple):
    """The counted records by latency.

    Attributes:
        counts: Records by bucket; empty before the first record.
        total_ms: The sum over all of them.
    """

    counts: tuple[int, ...] = ()
    total_ms: int = 0


class LatencyCounter:
    """Counts the records of one partition, batch by batch.

    A. What is counted only grows, and the buckets' counts add up to the records that were noted.
    """

    __slots__ = ("_counts", "_total_ms")

    def __init__(self, before: Latency) -> None:
        self._counts = list(before.counts)
        self._total_ms = before.total_ms

    def note(self, records: int, since_ms: int, now_ms: int) -> None:
        """Count records that have waited since a time of the past; 0 is an unknown time.

        Where the newest record's timestamp is ahead of the clock, that is when the mirror last had everything that the
        source had.
        """
        waited = now_ms - since_ms
        if not since_ms or waited < 0:
            return
        if not self._counts:
            self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._counts[bisect_left(BOUNDS_MS, waited)] += records
        self._total_ms += waited * records

    @property
    def latency(self) -> Latency:
        """The counts so far."""
        return Latency(tuple(self._counts), self._total_ms)


def summed(latencies: Iterable[Latency]) -> Latency:
    """The histogram of several partitions together."""
    found = list(latencies)
    counts = zip_longest(*(one.counts for one in found), fillvalue=0)
    return Latency(tuple(map(sum, counts)), sum(one.total_ms for one in found))


def cumulative(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Prometheus' cumulative buckets: the upper bound in seconds, and the number of records up to it."""
    bounds = [*(repr(bound / 1000) for bound in BOUNDS_MS), "+Inf"]
    sums, found = 0, []
    for bound, count in zip(bounds, counts, strict=True):
        sums += count
        found.append((bound, sums))
    return found
