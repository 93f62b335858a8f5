"""Compare ranges on Spark: one task for a handful of ranges, both sides compared where they are read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.insight.verify.verdicts import Findings
from mmtool.insight.verify.walk import Reading, compare_range
from mmtool.kafka.batches import BatchError
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.wire.cluster import ConnectionLostError, OutOfRangeError, UnreadableLogError
from mmtool.runtime.threads import run_loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mmtool.config import FlowSettings
    from mmtool.insight.verify.ranges import Range

_AT_ONCE = 2
"""Ranges of one task that are read side by side: while one is compared, the next one arrives."""


@dataclass(frozen=True, slots=True)
class ComparedFlow:
    """The facts about a flow that a worker needs.

    Attributes:
        settings: Its clusters; secrets are sent to workers as `replicate` does.
        ours: Producer ids under which the flow writes; None where MM2 runs it.
        shared: Producers write to the target's topics as well.
        left_out: Producer ids whose records on the source it skips.
    """

    settings: FlowSettings
    ours: frozenset[int] | None
    shared: bool = False
    left_out: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Job:
    """One task: ranges of one flow."""

    flow: ComparedFlow
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A range and its findings.

    Attributes:
        part: The range.
        findings: The differences; empty where it could not be read.
        problem: Why it could not be read; empty where it was.
        remedy: What to do about that.
        moved: A log now starts after the range's start: retention deleted it.
        lost: No broker answered.
    """

    part: Range
    findings: Findings = field(default_factory=Findings)
    problem: str = ""
    moved: bool = False
    lost: bool = False
    remedy: str = ""


def jobs_of(flow: ComparedFlow, ranges: Iterable[Range], weight: int) -> list[Job]:
    """Small ranges together, up to ``weight`` offsets in a task."""
    jobs: list[list[Range]] = []
    held = weight
    for part in ranges:
        if held >= weight:
            jobs.append([])
            held = 0
        jobs[-1].append(part)
        held += part.weight
    return [Job(flow, tuple(parts)) for parts in jobs]


def run_job(job: Job) -> list[Compared]:
    """Compare the ranges of one task; runs in a Spark worker."""
    return run_loop(_run(job))


async def _run(job: Job) -> list[Compared]:
    settings = job.flow.settings
    source = wire_cluster(settings.source, "verify", role="consumer")
    target = wire_cluster(settings.target, "verify", role="consumer")
    try:
        try:
            await asyncio.gather(source.start(), target.start())
            await asyncio.gather(
                source.refresh({part.source.topic for part in job.ranges}),
                target.refresh({part.target.topic for part in job.ranges}),
            )
        except (ConnectionLostError, MmtoolError) as error:
            return [_unread(part, error) for part in job.ranges]
        mmtool = job.flow.ours is not None
        reading = Reading(
            source,
            target,
            source_committed=settings.reads_committed,
            target_committed=not mmtool,
            ours=job.flow.ours,
            shared=job.flow.shared,
            left_out=job.flow.left_out,
        )
        return await _compare(reading, job.ranges)
    finally:
        await asyncio.gather(source.close(), target.close())


async def _compare(reading: Reading, ranges: Sequence[Range]) -> list[Compared]:
    places = asyncio.Semaphore(_AT_ONCE)
    away: list[Exception] = []  # once a cluster does not answer, the other ranges do not wait for it as well

    async def one(part: Range) -> Compared:
        async with places:
            if away:
                return _unread(part, away[0])
            try:
                return Compared(part, await compare_range(reading, part))
            except (ConnectionLostError, MmtoolError) as error:
                if isinstance(error, UnreachableError):
                    away.append(error)
                return _unread(part, error)

    return list(await asyncio.gather(*map(one, ranges)))


def _unread(part: Range, error: Exception) -> Compared:
    lost = isinstance(error, UnreachableError | ConnectionLostError) and not isinstance(
        error, UnreadableLogError
    )
    problem = error.message if isinstance(error, MmtoolError) else str(error)
    moved = isinstance(error, OutOfRangeError)
    return Compared(part, problem=problem, moved=moved, lost=lost, remedy=_remedy(error))


_OTHER_LEADER = (
    "make another replica the leader of this partition on one of the clusters; if the error stays, on the other"
    " cluster"
)


def _remedy(error: Exception) -> str:
    """What to do about a range that could not be read; empty where the same command is enough."""
    if isinstance(error, MmtoolError):
        return error.remedy
    if isinstance(error.__cause__, BatchError):
        return error.__cause__.remedy or _OTHER_LEADER
    return (
        ""
        if isinstance(error, OutOfRangeError)
        else "check that every partition has a leader on both clusters"
    )
