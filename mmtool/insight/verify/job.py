"""Compare ranges on Spark: one task for a handful of ranges, both sides compared where they are read.

Of each range both sides are read at the same time; bytes are compared first, and records where bytes differ.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.insight.verify.comparison import (
    Expectations,
    Line,
    LogLines,
    align,
    compare_lines,
    unmatched_keys,
)
from mmtool.insight.verify.verdicts import Difference, Findings, Mismatch
from mmtool.kafka.batches import BatchError
from mmtool.kafka.batches.compare import BatchCursor, extend, in_step, twins
from mmtool.kafka.batches.records import body_of, fields_of, read_columns
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.logs.dead_letters import SOURCE_HEADERS
from mmtool.kafka.wire.cluster import ConnectionLostError, OutOfRangeError, UnreadableLogError
from mmtool.kafka.wire.scan import AtMost, log_bounds, read_range
from mmtool.runtime.threads import run_loop
from mmtool.transforms.source import NO_TRANSFORM, OtherVersionError, SourceTransforms, UnmadeError
from mmtool.translation.names import DEAD_LETTER_SUFFIX
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.insight.verify.ranges import Range
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.flow.transforms import TransformSpec
    from mmtool.translation.runs import Run
    from mmtool.translation.types import TopicId


_AHEAD_BYTES = 16 << 20
"""Of either side, read ahead of the comparison."""
_WITHOUT_END = 1 << 62


@dataclass(frozen=True, slots=True)
class ComparedFlow:
    """The facts about a flow that a worker needs.

    Attributes:
        settings: Its clusters; secrets are sent to workers as `replicate` does.
        ours: Producer ids under which mmtool writes for the flow.
        shared: Producers write to the target's topics as well: a record that is not the flow's is not foreign.
        left_out: Producer ids whose records on the source it skips.
        transforms: By source topic, what is done to its records now.
    """

    settings: FlowSettings
    ours: frozenset[int]
    shared: bool = False
    left_out: frozenset[int] = frozenset()
    transforms: Mapping[str, TransformSpec | None] = field(default_factory=dict)

    def ships(self, view: BatchView, part: Range) -> bool:
        """Whether the flow copies a batch of the source; where mmtool does not mirror, each one with records."""
        carries_all = part.is_by_mm2 or self.settings.is_external
        return not view.header.is_control and (carries_all or view.header.producer_id not in self.left_out)

    def wrote(self, view: BatchView, part: Range) -> bool:
        """Whether the flow wrote a batch of the target."""
        return part.is_by_mm2 or self.settings.is_external or view.header.producer_id in self.ours


class Reading(NamedTuple):
    """A flow, with started connections to both its clusters."""

    source: WireCluster
    target: WireCluster
    flow: ComparedFlow
    transforms: SourceTransforms


async def compare_range(reading: Reading, part: Range) -> Findings:
    """What differs in one range.

    Raises:
        NotAuthorisedError: Without READ on a topic.
        ConnectionLostError: A log cannot be read.
    """
    try:
        if part.is_earlier:
            return await _earlier_copies(reading, part)
        return await _by_bytes(reading, part) or await _by_records(reading, part)
    except BatchError as error:
        raise ConnectionLostError(
            f"a record batch of {part.source} on {reading.source.alias} or of {part.target} on"
            f" {reading.target.alias} cannot be read: {error.message}"
        ) from error


async def _by_bytes(reading: Reading, part: Range) -> Findings | None:
    """The quick way; None where anything is not as it should be, and the records have to be looked at."""
    strays = 0

    def is_mirror(view: BatchView) -> bool:
        nonlocal strays
        if view.header.is_control:
            return False
        if not reading.flow.wrote(view, part):
            strays += not reading.flow.shared
            return False
        return view.header.base_offset < part.stop.downstream

    is_shipped = partial(reading.flow.ships, part=part)
    async with (
        _Side(_source(reading, part, part.start.upstream, part.stop.upstream), is_shipped) as up,
        _Side(_target_of(reading, part), is_mirror) as down,
    ):
        source = BatchCursor(up, part.start.upstream, part.stop.upstream)
        target = BatchCursor(down, part.start.downstream, part.stop.downstream)
        trail: list[Run] = []
        while await up.load(source) and await down.load(target):
            step, difference = twins(source, target, _WITHOUT_END), None
            if step is None:
                step, difference = in_step(source, target, _WITHOUT_END)
            if difference is not None:
                return None
            for matched in step:
                extend(trail, matched)
        if await up.load(source) or await down.load(target):
            return None
        await down.drain()
    if strays or not all(_leads_there(part, matched) for matched in trail):
        return None
    return Findings(compared=sum(matched.count for matched in trail))


def _leads_there(part: Range, matched: Run) -> bool:
    """Whether stored state says the same of records that are equal."""
    start, stop = matched.upstream_start, matched.upstream_start + matched.count
    shift = matched.downstream_start - start
    if part.runs is None:
        mine = (joint for joint in part.joints if start <= joint.upstream < stop)
        return all(joint.downstream - joint.upstream == shift for joint in mine)
    runs = part.runs.between(start, stop)
    return bool(((runs.downstream - runs.upstream) == shift).all())


async def _by_records(reading: Reading, part: Range) -> Findings:
    """The slow way: every record of the range in memory, as fingerprints."""
    log, source = await _read_target(reading, part), LogLines()
    async for offset, line in _source_lines(reading, part, part.start.upstream, part.stop.upstream):
        source.add(offset, line)
    for lines in (source, log.mirror, log.strays):
        lines.lines = [log.comparable(line) for line in lines.lines]
    matches = align(source.lines, log.mirror.lines)
    later: set[int] = set()
    if part.compacted:
        later = await _later_keys(reading, part, *unmatched_keys(source, log.mirror, matches))
    expected = Expectations(
        part.leads_to, part.compacted, later, *part.stop, part.whole_to, part.is_last, part.gaps
    )
    found = compare_lines(source, log.mirror, log.strays, expected, matches)
    letters = {}
    if found.count(Mismatch.MISSING) and not part.is_by_mm2:
        letters = await read_letters(reading.target, part)
    if not letters:
        return found
    return compare_lines(source, log.mirror, log.strays, replace(expected, letters=letters), matches)


async def _earlier_copies(reading: Reading, part: Range) -> Findings:
    """Records below the mirror's beginning that the mirror has again.

    The source's records below its beginning have their only copies there.
    """
    log, begin = await _read_target(reading, part), part.stop.upstream
    copies: dict[int, list[int]] = {}
    for lines in (log.mirror, log.strays):  # the flow's own first
        for offset, line in zip(lines.offsets, lines.lines, strict=True):
            if offset < part.stop.downstream:
                copies.setdefault(log.comparable(line).print, []).append(offset)
    again: dict[int, int] = {}
    async for offset, line in _source_lines(reading, part, begin, part.whole_to or begin):
        if (known := log.comparable(line).print) in copies:
            again.setdefault(known, offset)
        if len(again) == len(copies):
            break
    if again:
        async for _, line in _source_lines(reading, part, part.start.upstream, begin):
            del copies.get(log.comparable(line).print, [])[:1]
    findings = Findings()
    for downstream, known in sorted((at, one) for one in again for at in copies[one]):
        findings.add(Difference(Mismatch.DUPLICATED, again[known], downstream, known))
    return findings


async def _read_target(reading: Reading, part: Range) -> _TargetLog:
    log = _TargetLog()
    async for view in _target_of(reading, part):
        if not view.header.is_control:
            log.take(view, part, ours=reading.flow.wrote(view, part), shared=reading.flow.shared)
    return log


async def _source_lines(
    reading: Reading, part: Range, start: int, stop: int
) -> AsyncIterator[tuple[int, Line]]:
    async for view in _source(reading, part, start, stop):
        if reading.flow.ships(view, part):
            for offset, line in _lines(view):
                if start <= offset < stop:
                    yield offset, line


async def _later_keys(reading: Reading, part: Range, gone: set[int], extra: set[int]) -> set[int]:
    """Which keys of records that are on one side alone have a later record, behind the range.

    The target's cleaner removes a record for a later one on the target. The source's does so for a later one on the
    source, which may be behind what is mirrored.
    """

    async def keys_in(views: AsyncIterator[BatchView], wanted: set[int], *, there: bool) -> set[int]:
        """Those of the keys that records of a log have; it is read until all are found."""
        left = set(wanted)
        while left and (view := await anext(views, None)) is not None:
            counts = reading.flow.wrote(view, part) if there else reading.flow.ships(view, part)
            if not view.header.is_control and counts:
                left -= {_print(fields_of(bytes(body))[0]) for body in read_columns(view).bodies}
        return wanted - left

    behind = _target(reading, part, part.stop.downstream, part.ends.downstream)
    found = await keys_in(behind, gone | extra, there=True)
    behind = _source(reading, part, part.stop.upstream, part.ends.upstream)
    return found | await keys_in(behind, extra - found, there=False)


@dataclass(slots=True)
class _TargetLog:
    """The target's records, separated by producer and range.

    Attributes:
        mirror: The flow's own, in the range.
        strays: Another producer's, in the range and behind it.
        keeps_time: No batch has its broker's time instead of its producer's.
    """

    mirror: LogLines = field(default_factory=LogLines)
    strays: LogLines = field(default_factory=LogLines)
    keeps_time: bool = True

    def comparable(self, line: Line) -> Line:
        """A record of either side without its time, if the target has its own."""
        return line if self.keeps_time else line._replace(timestamp=0, print=line.print ^ line.timestamp)

    def take(self, view: BatchView, part: Range, *, ours: bool, shared: bool) -> None:
        self.keeps_time &= not view.header.is_log_append_time
        for offset, line in _lines(view):
            if offset < part.start.downstream or (shared and not ours):
                continue
            if not ours:
                self.strays.add(offset, line)
            elif offset < part.stop.downstream:
                self.mirror.add(offset, line)


def _lines(view: BatchView) -> Iterator[tuple[int, Line]]:
    columns = read_columns(view)
    for offset, timestamp, body in zip(columns.offsets, columns.timestamps, columns.bodies, strict=True):
        key, value, headers = fields_of(bytes(body))
        print_ = body_print(body) ^ timestamp  # of all that a consumer sees of a record
        yield offset, Line(timestamp, _print(key), _print(value), hash(headers), print_)


def _print(content: bytes | None) -> int:
    """0 stands for null alone."""
    return 0 if content is None else hash(content) or 1


async def _source(reading: Reading, part: Range, start: int, stop: int) -> AsyncIterator[BatchView]:
    """The source's batches, those that the flow mirrors as it mirrors them."""
    views = read_range(
        reading.source, part.source.topic, part.source_id, part.source.partition,
        start, AtMost(stop), read_committed=reading.flow.settings.reads_committed,
    )  # fmt: skip
    async for view in views:
        changes, of = part.version and reading.flow.ships(view, part), range(start, stop)
        yield await reading.transforms.made(part.source, view, of, part.version) if changes else view


def _target(reading: Reading, part: Range, start: int, stop: int) -> AsyncIterator[BatchView]:
    is_external = reading.flow.settings.is_external  # it may hold aborted records, as its source does
    return read_range(
        reading.target, part.target.topic, part.target_id, part.target.partition,
        start, AtMost(stop),
        read_committed=reading.flow.settings.reads_committed if is_external else part.is_by_mm2,
    )  # fmt: skip


def _target_of(reading: Reading, part: Range) -> AsyncIterator[BatchView]:
    """The range, and of the last one what lies behind it."""
    return _target(reading, part, part.start.downstream, max(part.tail_end, part.stop.downstream))


class _Side:
    """Batches of one side, read ahead: an iterator that has ended continues after more was read."""

    def __init__(self, views: AsyncIterator[BatchView], wanted: Callable[[BatchView], bool]) -> None:
        self._views = views
        self._wanted = wanted
        self._held: deque[BatchView] = deque()
        self._bytes = 0
        self._ended = False
        self._changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._reader
        close: Any = getattr(self._views, "aclose", None)
        if close is not None:
            await close()

    def __iter__(self) -> _Side:
        return self

    def __next__(self) -> BatchView:
        if not self._held:
            raise StopIteration
        view = self._held.popleft()
        self._bytes -= view.header.size
        return view

    async def load(self, cursor: BatchCursor) -> bool:
        """As `BatchCursor.load`, once there is something or the side has ended."""
        while not cursor.load():
            async with self._changed:
                self._changed.notify_all()
                while not self._held and not self._ended:
                    await self._changed.wait()
            if not self._held:
                if self._reader is not None:
                    await self._reader  # what kept it from reading is told here
                return False
        return True

    async def drain(self) -> None:
        """Reads on to the end; what is there is judged by ``wanted`` alone."""
        while not self._ended:
            self._held.clear()
            self._bytes = 0
            async with self._changed:
                self._changed.notify_all()
                if not self._ended:
                    await self._changed.wait()
        if self._reader is not None:
            await self._reader

    async def _read(self) -> None:
        try:
            async for view in self._views:
                if not self._wanted(view):
                    continue
                async with self._changed:
                    while self._bytes >= _AHEAD_BYTES:
                        await self._changed.wait()
                    self._held.append(view)
                    self._bytes += view.header.size
                    self._changed.notify_all()
        finally:
            self._ended = True
            async with self._changed:
                self._changed.notify_all()


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


_AT_ONCE = 2
"""Ranges of one task that are read side by side: while one is compared, the next one arrives."""


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
        unmade: What was mirrored of the source's records is not known: their transform has changed, or fails.
        version: Of the transform by which its records were mirrored, where the flow has another one now.
    """

    part: Range
    findings: Findings = field(default_factory=Findings)
    problem: str = ""
    moved: bool = False
    lost: bool = False
    remedy: str = ""
    unmade: bool = False
    version: str = ""


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

    async def run() -> list[Compared]:
        settings = job.flow.settings
        source = wire_cluster(settings.source, "verify", role="consumer")
        target = wire_cluster(settings.target, "verify", role="consumer")
        transforms = SourceTransforms(job.flow.transforms.get)
        try:
            try:
                await asyncio.gather(source.start(), target.start())
                await asyncio.gather(
                    source.refresh({part.source.topic for part in job.ranges}),
                    target.refresh({part.target.topic for part in job.ranges}),
                )
            except (ConnectionLostError, MmtoolError) as error:
                return [_unread(part, error) for part in job.ranges]
            return await _compare(Reading(source, target, job.flow, transforms), job.ranges)
        finally:
            await asyncio.gather(source.close(), target.close(), transforms.close())

    return run_loop(run())


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


_OTHER_LEADER = (
    "make another replica the leader of this partition on one of the clusters; if the error stays, on the other"
    " cluster"
)


def _unread(part: Range, error: Exception) -> Compared:
    """A range that could not be read; without a remedy where the same command is enough."""
    lost = isinstance(error, UnreachableError | ConnectionLostError) and not isinstance(
        error, UnreadableLogError
    )
    moved = isinstance(error, OutOfRangeError)
    if isinstance(error, UnmadeError):
        version = (error.version or NO_TRANSFORM) if isinstance(error, OtherVersionError) else ""
        return Compared(part, problem=error.message, remedy=error.remedy, unmade=True, version=version)
    if isinstance(error, MmtoolError):
        return Compared(part, problem=error.message, moved=moved, lost=lost, remedy=error.remedy)
    if isinstance(error.__cause__, BatchError):
        remedy = error.__cause__.remedy or _OTHER_LEADER
    else:
        remedy = "" if moved else "check that every partition has a leader on both clusters"
    return Compared(part, problem=str(error), moved=moved, lost=lost, remedy=remedy)
