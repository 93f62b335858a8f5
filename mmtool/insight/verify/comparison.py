"""Compare two logs record by record, where their batches are not the same bytes.

Records are equal when timestamp, key, value and headers are. A mirror keeps the source's order, so records are
aligned in order, as a patience diff does: records that occur once on both sides anchor the alignment, the longest
ascending chain of them is kept, and the records between are aligned from both ends. What is left over:

A  a record left over on both sides has moved (``reordered``)
B  two records left over at one position that agree in time or in value are one record, changed (``key``, ``value``,
   ``headers``, ``timestamp``)
C  a record left over on the source alone is ``missing``; on the target alone it is ``duplicated`` where the source has
   an equal one, else ``foreign``
D  on a compacted topic a record that a later one of its key replaces, or a tombstone, may be gone on either side
E  a record that is among the mirror's dead letters, or in a gap that an operator chose, is not missing
F  where all records are there, and stored state maps one to another that is not equal: ``mapping``
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from mmtool.insight.verify.verdicts import Difference, Findings, Mismatch

_DENSE = 64
"""So many records on either side are aligned by trying all pairs; more of them only from both ends."""


class Excuse(Enum):
    """Why a record of the source need not be on the target."""

    GAP = "gap"
    LETTER = "letter"


class Line(NamedTuple):
    """One record, with the parts that are compared.

    Attributes:
        timestamp: In ms; 0 on both sides where the target replaces timestamps by its own.
        key, value, headers: Fingerprints; of a null key and a null value 0.
        print: A fingerprint of all of it that is the same in every process.
    """

    timestamp: int
    key: int
    value: int
    headers: int
    print: int


@dataclass(slots=True)
class LogLines:
    """Records of one log, by column, in the order of the log."""

    offsets: list[int] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, line: Line) -> None:
        """Append the next record."""
        self.offsets.append(offset)
        self.lines.append(line)


@dataclass(frozen=True, slots=True)
class Expectations:
    """The facts that a comparison takes into account, beside the records.

    Attributes:
        leads_to: The target offset of a source record by stored state; None where stored state does not say.
        compacted: Either topic is compacted (D).
        later_keys: Keys of `unmatched_keys` that later records have, behind the range, for D.
        upstream_end, downstream_end: The end of the range, for a record that is missing at its end.
        whole_to: The offset up to which the mirror should be complete: missing records from there on are lag.
        is_last: The range ends where the mirror does.
        gaps: Offsets of the source, from the first up to the last (exclusive), that an operator chose not to mirror.
        letters: Fingerprints (`body_print`) of the mirror's dead letters, by the offset of the record on the source.
    """

    leads_to: Callable[[int], int | None] = lambda _: None
    compacted: bool = False
    later_keys: Collection[int] = ()
    upstream_end: int = 0
    downstream_end: int = 0
    whole_to: int | None = None
    is_last: bool = False
    gaps: tuple[tuple[int, int], ...] = ()
    letters: Mapping[int, int] = field(default_factory=dict)

    def excuse(self, offset: int, line: Line) -> Excuse | None:
        """Why a record of the source need not be on the target (E); None where it must be."""
        if self.letters.get(offset) == line.print ^ line.timestamp:
            return Excuse.LETTER
        return Excuse.GAP if any(start <= offset < end for start, end in self.gaps) else None

    def is_lag(self, offset: int) -> bool:
        """Whether a record that misses at the end of the mirror is only not there yet."""
        return self.whole_to is not None and offset >= self.whole_to


def compare_lines(
    source: LogLines,
    target: LogLines,
    strays: LogLines,
    expected: Expectations,
    matches: list[tuple[int, int]] | None = None,
) -> Findings:
    """Everything that differs in one range.

    Args:
        source: The records that the flow ships.
        target: The records that the flow wrote.
        strays: Records in the mirror that another producer wrote.
        expected: What is known beside the records.
        matches: The alignment, where it is known already.
    """
    matches = align(source.lines, target.lines) if matches is None else matches
    findings = Findings(compared=len(source))
    findings.in_gaps, findings.letters = _excused(source, matches, expected)
    physical = [*_left_over(source, target, matches, expected), *_strays(source, target, strays, matches)]
    found = physical or list(_mislead(source, target, dict(matches), expected))
    for difference in sorted(found, key=lambda d: (d.downstream_offset, d.upstream_offset)):
        findings.add(difference)
    last = matches[-1] if matches else (-1, -1)
    findings.ends_early = expected.is_last and last[1] == len(target) - 1 and last[0] < len(source) - 1
    return findings


def align(source: Sequence[Line], target: Sequence[Line]) -> list[tuple[int, int]]:
    """Pairs of indices of equal records, ascending on both sides."""
    return list(_aligned(source, target, (0, len(source)), (0, len(target))))


def unmatched_keys(
    source: LogLines, target: LogLines, matches: list[tuple[int, int]]
) -> tuple[set[int], set[int]]:
    """Keys of records that are on the source alone, and on the target alone; tombstones left out (D)."""
    here, there = {at for at, _ in matches}, {to for _, to in matches}
    gone = {line.key for at, line in enumerate(source.lines) if at not in here and line.value}
    return gone, {line.key for at, line in enumerate(target.lines) if at not in there and line.value}


_Span = tuple[int, int]


def _aligned(source: Sequence[Line], target: Sequence[Line], s: _Span, t: _Span) -> Iterator[tuple[int, int]]:
    head, tail = _same_ends(source, target, s, t)
    yield from ((s[0] + i, t[0] + i) for i in range(head))
    s, t = (s[0] + head, s[1] - tail), (t[0] + head, t[1] - tail)
    if s[0] < s[1] and t[0] < t[1]:
        anchors = _anchors(source, target, s, t)
        if anchors:
            before = (s[0], t[0])
            for at, to in anchors:
                yield from _aligned(source, target, (before[0], at), (before[1], to))
                yield at, to
                before = (at + 1, to + 1)
            yield from _aligned(source, target, (before[0], s[1]), (before[1], t[1]))
        elif s[1] - s[0] <= _DENSE and t[1] - t[0] <= _DENSE:
            yield from _longest(source, target, s, t)
    yield from ((s[1] + i, t[1] + i) for i in range(tail))


def _same_ends(source: Sequence[Line], target: Sequence[Line], s: _Span, t: _Span) -> tuple[int, int]:
    room = min(s[1] - s[0], t[1] - t[0])
    head = 0
    while head < room and source[s[0] + head] == target[t[0] + head]:
        head += 1
    tail = 0
    while tail < room - head and source[s[1] - 1 - tail] == target[t[1] - 1 - tail]:
        tail += 1
    return head, tail


def _anchors(source: Sequence[Line], target: Sequence[Line], s: _Span, t: _Span) -> list[tuple[int, int]]:
    """The longest ascending chain of records that are there once on both sides."""
    here, there = _once(source, s), _once(target, t)
    pairs = sorted((at, there[line]) for line, at in here.items() if line in there)
    return _ascending(pairs)


def _once(lines: Sequence[Line], span: _Span) -> dict[Line, int]:
    counts = Counter(lines[span[0] : span[1]])
    return {lines[at]: at for at in range(*span) if counts[lines[at]] == 1}


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of pairs, ascending in the first, that ascends in the second as well."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, to) in enumerate(pairs):
        at = bisect_left(ends, to)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(to)
            last.append(number)
        else:
            ends[at], last[at] = to, number
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    chain.reverse()
    return chain


def _longest(source: Sequence[Line], target: Sequence[Line], s: _Span, t: _Span) -> list[tuple[int, int]]:
    """The longest common subsequence of two short spans."""
    rows, columns = s[1] - s[0], t[1] - t[0]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            same = source[s[0] + i] == target[t[0] + j]
            best[i][j] = best[i + 1][j + 1] + 1 if same else max(best[i + 1][j], best[i][j + 1])
    found, i, j = list[tuple[int, int]](), 0, 0
    while i < rows and j < columns:
        if source[s[0] + i] == target[t[0] + j]:
            found.append((s[0] + i, t[0] + j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _excused(source: LogLines, matches: list[tuple[int, int]], expected: Expectations) -> tuple[int, int]:
    """How many records lie in gaps, and how many are dead letters."""
    if not (expected.gaps or expected.letters):
        return 0, 0
    there = {at for at, _ in matches}
    left = (at for at in range(len(source)) if at not in there)
    found = Counter(expected.excuse(source.offsets[at], source.lines[at]) for at in left)
    return found[Excuse.GAP], found[Excuse.LETTER]


def _left_over(
    source: LogLines, target: LogLines, matches: list[tuple[int, int]], expected: Expectations
) -> Iterator[Difference]:
    """A to D, for what the alignment leaves over on either side."""
    gone: list[tuple[int, int]] = []  # on the source alone, and where on the target it would be
    extra: list[tuple[int, int]] = []  # on the target alone, and before which record of the source
    ends = (len(source), len(target))
    for (s, t), (s_end, t_end) in pairwise([(-1, -1), *matches, ends]):
        if s + 1 == s_end and t + 1 == t_end:
            continue
        here, there = list(range(s + 1, s_end)), list(range(t + 1, t_end))
        changed = _changed(source, target, here, there)
        yield from (_mutated(source, target, *pair) for pair in changed)
        told_here, told_there = {at for at, _ in changed}, {to for _, to in changed}
        gone += ((at, t_end) for at in here if at not in told_here)
        extra += ((at, s_end) for at in there if at not in told_there)
    yield from _sorted_out(source, target, gone, extra, expected)


def _changed(source: LogLines, target: LogLines, here: list[int], there: list[int]) -> list[tuple[int, int]]:
    """B: pairs of records at one place, in order. One that moved is no other one, changed."""
    moved = {source.lines[at] for at in here} & {target.lines[at] for at in there}
    ours = [at for at in here if source.lines[at] not in moved]
    theirs = [at for at in there if target.lines[at] not in moved]
    pairs: list[tuple[int, int]] = []
    start = 0
    for to in theirs:
        for number in range(start, len(ours)):
            if _is_like(source.lines[ours[number]], target.lines[to]):
                pairs.append((ours[number], to))
                start = number + 1
                break
    return pairs


def _is_like(one: Line, two: Line) -> bool:
    if one.timestamp == two.timestamp != 0:
        return one.key == two.key or one.value == two.value
    return one.value == two.value != 0 and one.key == two.key


def _mutated(source: LogLines, target: LogLines, at: int, to: int) -> Difference:
    one, two = source.lines[at], target.lines[to]
    fields = (
        (Mismatch.TIMESTAMP, one.timestamp, two.timestamp),
        (Mismatch.KEY, one.key, two.key),
        (Mismatch.VALUE, one.value, two.value),
        (Mismatch.HEADERS, one.headers, two.headers),
    )
    kind = next(kind for kind, ours, theirs in fields if ours != theirs)
    return Difference(kind, source.offsets[at], target.offsets[to], one.print)


def _sorted_out(
    source: LogLines,
    target: LogLines,
    gone: list[tuple[int, int]],
    extra: list[tuple[int, int]],
    expected: Expectations,
) -> Iterator[Difference]:
    missing: dict[Line, list[int]] = {}
    for at, _ in gone:
        missing.setdefault(source.lines[at], []).append(at)
    likes = set(source.lines) if extra else set()
    moved: set[int] = set()
    replaced = _replaced(source, target, expected)
    for at, before in extra:
        line = target.lines[at]
        upstream = source.offsets[before] if before < len(source) else expected.upstream_end
        if missing.get(line):
            number = missing[line].pop(0)
            moved.add(number)
            yield Difference(Mismatch.REORDERED, source.offsets[number], target.offsets[at], line.print)
        elif not replaced(line, target.offsets[at], there=True):
            kind = Mismatch.DUPLICATED if line in likes else Mismatch.FOREIGN
            yield Difference(kind, upstream, target.offsets[at], line.print)
    for at, behind in gone:
        line = source.lines[at]
        if behind == len(target) and expected.is_lag(source.offsets[at]):
            continue
        if at in moved or expected.excuse(source.offsets[at], line) is not None:
            continue
        if not replaced(line, source.offsets[at], there=False):
            downstream = target.offsets[behind] if behind < len(target) else expected.downstream_end
            yield Difference(Mismatch.MISSING, source.offsets[at], downstream, line.print)


def _replaced(source: LogLines, target: LogLines, expected: Expectations) -> Callable[..., bool]:
    """D: whether a cleaner may have removed a record."""
    if not expected.compacted:
        return lambda *_, **__: False
    newest_here = {line.key: at for at, line in zip(source.offsets, source.lines, strict=True)}
    newest_there = {line.key: at for at, line in zip(target.offsets, target.lines, strict=True)}
    newest: tuple[Mapping[int, int], Mapping[int, int]] = (newest_here, newest_there)

    def replaced(line: Line, offset: int, *, there: bool) -> bool:
        if not line.value or line.key in expected.later_keys:
            return True
        return newest[there].get(line.key, offset) > offset

    return replaced


def _strays(
    source: LogLines, target: LogLines, strays: LogLines, matches: list[tuple[int, int]]
) -> Iterator[Difference]:
    """C, for what another producer wrote: it is never part of the mirror."""
    likes = set(source.lines) if len(strays) else set()
    placed = [target.offsets[to] for _, to in matches]
    for offset, line in zip(strays.offsets, strays.lines, strict=True):
        behind = bisect_left(placed, offset)
        upstream = (
            source.offsets[matches[behind][0]]
            if behind < len(matches)
            else (source.offsets[-1] + 1 if len(source) else 0)
        )
        yield Difference(
            Mismatch.DUPLICATED if line in likes else Mismatch.FOREIGN, upstream, offset, line.print
        )


def _mislead(
    source: LogLines, target: LogLines, matches: Mapping[int, int], expected: Expectations
) -> Iterator[Difference]:
    """F: twins count as the same record, whichever of them stored state means."""
    there = {offset: at for at, offset in enumerate(target.offsets)}
    for at, offset in enumerate(source.offsets):
        leads_to = expected.leads_to(offset)
        if leads_to is None or at not in matches or target.offsets[matches[at]] == leads_to:
            continue
        stands = there.get(leads_to)
        if stands is None or target.lines[stands] != source.lines[at]:
            yield Difference(Mismatch.MAPPING, offset, leads_to, source.lines[at].print)
