"""The console blocks of the documentation: read, compared with what their commands print, and brought up to date.

The comment on the line before a block says what it is run on: ``<!-- scene: shop -->`` and ``<!-- lab: shop -->`` name
clusters in memory and real ones, ``<!-- shell -->`` needs none, ``<!-- make -->`` names targets of the Makefile. Words
behind it: ``fresh`` starts the clusters and the folder anew, ``width=120`` shows a scene's tables as a terminal so wide
does, ``counts`` leaves numbers open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

SKIPPED = "..."
"""A line of a page that stands for any number of lines."""
KINDS = ("scene", "lab", "shell", "make")
LABS = (
    "demo",
    "shop",
    "doctor",
    "source_away",
    "different",
    "mirror_maker",
    "archive",
    "secured",
    "checkpoint",
    "chaos",
    "masked",
)
"""What blocks are run on with real brokers, by tests in ``tests/integration``."""
OPERATION = re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{6}\b")

_LABEL = re.compile(r"<!-- (\w+)(?:: (\w+))?((?: [\w=]+)*) -->")
_MASKS = (
    (OPERATION, "<operation>"),
    (re.compile(r"\b\d{8}T\d{6}Z-\w+-[0-9a-f]{6}\b"), "<file>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<time>"),
    (re.compile(r"\b[0-9a-f]{16,64}\b"), "<digest>"),
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{22}(?![\w-])"), "<cluster>"),
    (re.compile(r"\bpid \d+"), "pid <number>"),
    (re.compile(r"\b[\d.]+k? rec/s|\b[\d.]+ [kMG]?B/s"), "<rate>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|[smhd])\b(?: \d+[smh]\b)?"), "<duration>"),
)
_ALIKE = 0.5
"""From this likeness on, a line of the output is the page's line with other values."""
_NEARLY = 0.85
_NUMBER = re.compile(r"\b\d[\d,.]*\b")


@dataclass(frozen=True, slots=True)
class Label:
    """What the comment before a block says.

    Attributes:
        kind: One of `KINDS`.
        name: Of the scene or the lab.
        fresh: The block does not follow the one before it.
        counts: Numbers are left open.
        width: Columns of the terminal; None for a pipe.
    """

    kind: str
    name: str = ""
    fresh: bool = False
    counts: bool = False
    width: int | None = None

    @classmethod
    def of(cls, line: str) -> Label | None:
        """What a line says; None where it is no such comment."""
        found = _LABEL.fullmatch(line.strip())
        if found is None or found[1] not in KINDS:
            return None
        words = found[3].split()
        widths = [int(word.removeprefix("width=")) for word in words if word.startswith("width=")]
        if set(words) - {"fresh", "counts"} - {f"width={width}" for width in widths}:
            return None
        if widths and found[1] != "scene":
            return None
        return cls(found[1], found[2] or "", "fresh" in words, "counts" in words, *widths)


@dataclass(frozen=True, slots=True)
class Typed:
    """One command of a block, and the output that the page shows.

    Attributes:
        line: As it is typed, without its comment; empty where a block shows more of the last command's output.
        shown: Lines.
        first: Where they begin, counted from the block's first line.
    """

    line: str
    shown: tuple[str, ...]
    first: int


@dataclass(frozen=True, slots=True)
class Block:
    """One console block.

    Attributes:
        number: Which of its page, from 0.
        opened: The line with its fence, from 1.
        label: None where the page has none.
    """

    page: Path
    number: int
    opened: int
    label: Label | None
    typed: tuple[Typed, ...]


@dataclass(slots=True)
class Case:
    """Blocks of one page that are typed one after the other, on the same clusters and in the same folder."""

    name: str
    label: Label
    blocks: list[Block] = field(default_factory=list)


def blocks_of(page: Path) -> list[Block]:
    """A page's console blocks, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        Block(page, number, at + 1, Label.of(lines[at - 1] if at else ""), tuple(_typed(lines[at + 1 : end])))
        for number, (at, end) in enumerate(_fences(lines))
    ]


def files_of(page: Path) -> dict[str, str]:
    """The files that a page shows whole, by name: fences after a line ``<!-- file: NAME -->``."""
    text = page.read_text(encoding="utf-8")
    return dict(re.findall(r"(?ms)^<!-- file: ([\w.-]+) -->\n```\w+\n(.*?)^```$", text))


def pages(root: Path) -> list[Path]:
    """The pages whose blocks are run."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def cases(root: Path, *kinds: str, name: str | None = None) -> list[Case]:
    """Every page's blocks of these kinds, those that follow one another in one case.

    Args:
        root: Of the tree.
        kinds: Of `KINDS`.
        name: Only those of this scene or lab.
    """
    found: list[Case] = []
    for page in pages(root):
        found += _cases_of(page, f"{page.relative_to(root).with_suffix('')}", kinds)
    return [case for case in found if name in {None, case.label.name}]


def _cases_of(page: Path, title: str, kinds: Sequence[str]) -> Iterable[Case]:
    begun: dict[tuple[str, str], Case] = {}
    every = []
    for block in blocks_of(page):
        label = block.label
        if label is None or label.kind not in kinds:
            continue
        key = label.kind, label.name
        if key not in begun or label.fresh:
            words = [title, label.name or label.kind, *([f"line {block.opened}"] if label.fresh else [])]
            begun[key] = Case(", ".join(words), label)
            every.append(begun[key])
        begun[key].blocks.append(block)
    return every


def difference(typed: Typed, printed: str, *, counts: bool = False) -> str:
    """How the output differs from what the page shows, as a diff; empty where it does not."""
    lines = printed.splitlines()
    if not typed.shown or _is_shown(typed.shown, lines, counts=counts):
        return ""
    printed_now = [_kept(line, typed.shown) for line in lines]
    told = unified_diff(typed.shown, printed_now, "the page", "the command", n=1, lineterm="")
    return "\n".join([f"$ {typed.line}", *told])


def updated(typed: Typed, printed: str) -> list[str]:
    """What the page should show: the output, without what it skips now, and with its own ids and times."""
    found: list[str] = []
    left = printed.splitlines()
    parts = list(_parts(typed.shown))
    for number, part in enumerate(parts):
        if number:
            found.append(SKIPPED)
        kept, left = _renewed(part, left, is_first=number == 0, is_last=number == len(parts) - 1)
        found += kept
    return found


def write_back(block: Block, typed: Typed, lines: Sequence[str]) -> None:
    """Show these lines in the page instead. The page is read again: other blocks may have changed it."""
    now = blocks_of(block.page)[block.number]
    text = block.page.read_text(encoding="utf-8").splitlines()
    at = block.typed.index(typed)
    start = now.opened + now.typed[at].first
    text[start : start + len(now.typed[at].shown)] = lines
    block.page.write_text("\n".join(text) + "\n", encoding="utf-8")


def _fences(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].startswith("```"))
            if lines[at] == "```console":
                yield at, end
            at = end
        at += 1


def _typed(lines: Sequence[str]) -> Iterator[Typed]:
    starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
    if lines and starts[:1] != [0]:
        end = starts[0] if starts else len(lines)
        yield Typed("", tuple(lines[:end]), 0)
    for start, end in pairwise([*starts, len(lines)]):
        line = re.sub(r"\s+# .*", "", lines[start].removeprefix("$ "))
        yield Typed(line, tuple(lines[start + 1 : end]), start + 1)


def _parts(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines between those that skip."""
    part: list[str] = []
    for line in lines:
        if line == SKIPPED:
            yield part
            part = []
        else:
            part.append(line)
    yield part


def _is_shown(shown: Sequence[str], printed: Sequence[str], *, counts: bool = False) -> bool:
    """Whether a page's lines are those of the output, but for what differs from run to run.

    The columns of a table are as wide as such values are: where there are any, blanks count as one.
    """
    masked = [[_masked(line, counts) for line in lines] for lines in (shown, printed)]
    if masked != [list(shown), list(printed)]:
        masked = [[re.sub(r" {2,}", "  ", line).rstrip() for line in lines] for lines in masked]
    return _match(*masked)


def _masked(line: str, counts: bool = False) -> str:
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    return _NUMBER.sub("<number>", line) if counts else line


def _match(shown: Sequence[str], printed: Sequence[str]) -> bool:
    first, *others = _parts(shown)
    if list(printed[: len(first)]) != first:
        return False
    if not others:
        return len(printed) == len(first)
    left = list(printed[len(first) :])
    *middle, last = others
    for part in middle:
        at = _index(part, left)
        if at is None:
            return False
        left = left[at + len(part) :]
    return len(left) >= len(last) and (not last or left[-len(last) :] == last)


def _index(part: Sequence[str], lines: Sequence[str]) -> int | None:
    starts = range(len(lines) - len(part) + 1)
    return next((n for n in starts if list(lines[n : n + len(part)]) == list(part)), None)


def _renewed(
    part: Sequence[str], left: list[str], *, is_first: bool, is_last: bool
) -> tuple[list[str], list[str]]:
    """The lines of the output that a part of the page is about, and what is left of the output behind them."""
    if is_last and not part:
        return [], []
    at = _alike(part, left)
    if not (at or is_first or is_last):  # nothing like it is printed any more: somebody has to look
        return list(part), left
    start = 0 if is_first else min(at, default=0)
    end = len(left) if is_last else max(at, default=len(part) - 1) + 1
    return [_kept(line, part) for line in left[start:end]], left[end:]


def _alike(part: Sequence[str], lines: Sequence[str]) -> list[int]:
    """Which lines say about the same as those of a part, in its order: of several the first that is nearly the best."""
    found: list[int] = []
    masked = [_masked(line) for line in lines]
    for wanted in map(_masked, part):
        start = found[-1] + 1 if found else 0
        alike = [_likeness(wanted, line) for line in masked[start:]]
        if max(alike, default=0.0) > _ALIKE:
            found.append(start + next(n for n, one in enumerate(alike) if one >= _NEARLY * max(alike)))
    return found


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _kept(line: str, part: Sequence[str]) -> str:
    """The page's own line, where it says the same."""
    return next((old for old in part if old != SKIPPED and _is_shown([old], [line])), line)
