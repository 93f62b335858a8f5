"""Records a command in a terminal, and draws the recording as an animated SVG that runs in the same time.

``make session-svg`` records ``mmtool demo``. The recording (`CAST`) is an asciicast of version 2, which asciinema
plays too; without a command this script only draws it again.

The picture needs no font and no host: it uses the reader's monospaced font, follows the reader's light or dark
colours, and without animations (``prefers-reduced-motion``, or a viewer that has none) it shows the last screen.
"""

from __future__ import annotations

import codecs
import json
import os
import pty
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pyte

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IMAGES = Path(__file__).parents[1] / "images"
CAST = IMAGES / "session.cast"
PICTURE = IMAGES / "session.svg"

COLUMNS = 122
ROWS = 200
"""Of the recording: more than a session has lines, so that nothing scrolls out of it."""
SHOWN = 27
"""Rows of the picture."""
STEP = 0.5
"""Seconds between two looks at the screen: a spinner turns faster, and each look makes the file larger."""
HOLD = 8.0
"""Seconds for which the last screen stays, before the animation starts again."""

_SIZE, _WIDTH, _LINE, _EDGE = 13, 7.8, 18, 14
_NOT_PASSED = {"COLUMNS", "LINES", "NO_COLOR"}
_DIM, _GREY = "\033[2m", "\033[90m"  # pyte has no dim
_COLOURS = {
    "green": ("#1a7f37", "#3fb950"),
    "red": ("#cf222e", "#ff7b72"),
    "cyan": ("#0969da", "#79c0ff"),
    "brown": ("#9a6700", "#d29922"),  # pyte's name for yellow
    "magenta": ("#8250df", "#d2a8ff"),
    "brightblack": ("#57606a", "#9198a1"),
}

Style = tuple[str, bool]
"""A colour by pyte's name, and whether it is bold."""
Run = tuple[int, str, Style]
"""Column, text and style of a part of a row."""
Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What one row showed, and when.

    Attributes:
        row: Counted from the first of the session.
        begin: Seconds from the start.
        end: Seconds; the whole length of the animation, if it is on the last screen.
    """

    row: int
    content: Row
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Film:
    """A session as rows in time.

    Attributes:
        seconds: Length, with the hold at the end.
        rows: In order of time.
        scrolls: The seconds from which so many rows have left the picture at its top.
    """

    seconds: float
    rows: tuple[Shown, ...]
    scrolls: tuple[tuple[float, int], ...]


def record(command: Sequence[str], prompt: str) -> tuple[str, int]:
    """Run a command in a terminal of its own: the recording as an asciicast, and the exit code."""
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (ROWS, COLUMNS))
    environ = {
        **{name: value for name, value in os.environ.items() if name not in _NOT_PASSED},
        "TERM": "xterm-256color",
    }
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": prompt}
    began, events = time.monotonic(), [(0.0, f"$ {prompt}\r\n")]
    process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environ)
    os.close(side)
    events.extend((time.monotonic() - began, data) for data in _read(main))
    lines = [json.dumps(header), *(json.dumps([round(at, 2), "o", data]) for at, data in events)]
    return "\n".join([*lines, ""]), process.wait()


def _read(terminal: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # Linux answers so once the command has closed its side
            return
        if not data:
            return
        yield decoder.decode(data)


def film_of(cast: str) -> Film:
    """The rows of a recording in time."""
    _, *events = (json.loads(line) for line in cast.splitlines())
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    looks: list[tuple[float, list[Row]]] = []
    for number, group in groupby(events, key=lambda event: int(event[0] / STEP)):
        for _, _, data in group:
            stream.feed(data.replace(_DIM, _GREY))
        looks.append((number * STEP, _rows(screen)))
    seconds = events[-1][0] + HOLD
    return Film(seconds, tuple(_versions(looks, seconds)), tuple(_scrolls(looks)))


def _rows(screen: pyte.Screen) -> list[Row]:
    return [_row(screen.buffer[number]) for number in range(ROWS)]


def _row(line: dict[int, pyte.screens.Char]) -> Row:
    cells = [(column, line[column]) for column in range(COLUMNS)]
    runs = []
    for style, group in groupby(cells, key=lambda cell: (cell[1].fg, cell[1].bold)):
        part = list(group)
        text = "".join(cell.data for _, cell in part)
        if text.strip():
            runs.append((part[0][0] + len(text) - len(text.lstrip()), text.strip(), style))
    return tuple(runs)


def _versions(looks: Sequence[tuple[float, list[Row]]], seconds: float) -> Iterator[Shown]:
    for row in range(ROWS):
        for content, group in groupby(looks, key=lambda look: look[1][row]):
            begin = next(group)[0]
            end = next((at for at, rows in looks if at > begin and rows[row] != content), seconds)
            if content:
                yield Shown(row, content, begin, end)


def _scrolls(looks: Sequence[tuple[float, list[Row]]]) -> Iterator[tuple[float, int]]:
    last = -1
    for at, rows in looks:
        used = max((number for number, row in enumerate(rows) if row), default=0)
        gone = max(last, used + 1 - SHOWN, 0)
        if gone != last:
            yield at, gone
        last = gone


def drawn(film: Film, title: str) -> str:
    """The SVG."""
    title = escape(title)
    width, height = round(COLUMNS * _WIDTH) + 2 * _EDGE, SHOWN * _LINE + 2 * _EDGE
    moves = [*(_fade(number, shown, film) for number, shown in enumerate(film.rows)), _roll(film)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">',
        f"<style>{_colours()}  @media (prefers-reduced-motion: no-preference) {{",
        *(move for move in moves if move),
        "  }\n</style>",
        f'<rect class="frame" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="8"/>',
        f'<svg x="{_EDGE}" y="{_EDGE}" width="{width - 2 * _EDGE}" height="{SHOWN * _LINE}">',
        f'<g transform="translate(0 {-film.scrolls[-1][1] * _LINE})"><g id="roll">',
        *(_text(number, shown, film) for number, shown in enumerate(film.rows)),
        "</g></g></svg></svg>",
    ]
    return "\n".join(parts) + "\n"


def _colours() -> str:
    light, dark = (
        "\n  ".join(f".{name} {{ fill: {both[which]}; }}" for name, both in _COLOURS.items())
        for which in (0, 1)
    )
    return f"""
  .frame {{ fill: #ffffff; stroke: #d0d7de; }}
  text {{ font: {_SIZE}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }}
  .bold {{ font-weight: 700; }}
  .past {{ visibility: hidden; }}
  {light}
  @media (prefers-color-scheme: dark) {{
  .frame {{ fill: #0d1117; stroke: #3d444d; }}
  text {{ fill: #e6edf3; }}
  {dark}
  }}
"""


def _fade(number: int, shown: Shown, film: Film) -> str:
    """The rule that shows a row in its time; none for a row that is always there."""
    if shown.begin <= 0 and shown.end >= film.seconds:
        return ""
    marks = {0.0: "hidden", shown.begin: "visible"}
    if shown.end < film.seconds:
        marks[shown.end] = "hidden"
    frames = "".join(f"{_share(at, film)}{{visibility:{value}}}" for at, value in marks.items())
    return f"@keyframes r{number}{{{frames}}} #r{number}{{animation:r{number} {film.seconds:g}s step-end infinite}}"


def _roll(film: Film) -> str:
    """The rule that scrolls. The rows are drawn as the last screen has them, so it counts from there."""
    end = film.scrolls[-1][1]
    frames = "".join(
        f"{_share(at, film)}{{transform:translateY({(end - gone) * _LINE}px)}}" for at, gone in film.scrolls
    )
    return f"@keyframes roll{{{frames}}} #roll{{animation:roll {film.seconds:g}s step-end infinite}}"


def _share(at: float, film: Film) -> str:
    return f"{100 * at / film.seconds:.2f}%"


def _text(number: int, shown: Shown, film: Film) -> str:
    past = ' class="past"' if shown.end < film.seconds else ""
    return f'<g id="r{number}"{past}>{"".join(_run(shown.row, *run) for run in shown.content)}</g>'


def _run(row: int, column: int, text: str, style: Style) -> str:
    """One text. Its length is given, so that columns stand below each other in every font."""
    colour, bold = style
    words = [*([colour] if colour in _COLOURS else []), *(["bold"] if bold else [])]
    label = f' class="{" ".join(words)}"' if words else ""
    length = f'textLength="{len(text) * _WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
    at = f'x="{column * _WIDTH:.1f}" y="{row * _LINE + _SIZE}"'
    return f"<text {at} {length}{label}>{escape(text).replace(' ', chr(0xA0))}</text>"


def picture() -> str:
    """The SVG of the committed recording."""
    cast = CAST.read_text(encoding="utf-8")
    return drawn(film_of(cast), f"A recorded session: {json.loads(cast.splitlines()[0])['title']}")


def main(command: Sequence[str]) -> int:
    """Record a command, if there is one, and draw the recording."""
    code = 0
    if command:
        cast, code = record(command, " ".join([Path(command[0]).name, *command[1:]]))
        if code == 0:
            CAST.write_text(cast, encoding="utf-8")
    if code == 0:
        PICTURE.write_text(picture(), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
