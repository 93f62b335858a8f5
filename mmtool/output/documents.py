"""Write results for scripts: one JSON document, or CSV; on stdout, or to a file that is opened first.

Pages for people are files of our packages that jinja2 fills: `page_template`.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from mmtool.errors import CheckFailedError
from mmtool.output.redaction import NOTHING, shown
from mmtool.output.result import SCHEMA_VERSION, ReportedError, Result
from mmtool.output.values import field, plain, plain_row
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from jinja2 import Template


_FLAT = json.JSONEncoder(separators=(",\n      ", ": "), allow_nan=False)
_NESTED = frozenset({dict, list})
_ROWS_AT_ONCE = 1000
"""A result of 90,000 rows is written as it is encoded, and never held as one text."""


class ResultDocument(TypedDict):
    """The document that a command prints with `-o json`.

    Attributes:
        command: The command, without options and arguments.
        schema_version: Changes when a key is renamed or removed; new keys do not change it.
        generated_at: When the document was made.
        data: The rows.
        warnings: Sentences; also printed on stderr.
        errors: What went wrong; the last one ended the command.
        timings: With `replicate --timings`: the steps of the start.
    """

    command: str
    schema_version: int
    generated_at: datetime
    data: list[dict[str, object]]
    warnings: list[str]
    errors: list[ReportedError]
    timings: NotRequired[list[dict[str, object]]]


def json_document(
    result: Result, *, now: datetime, one_line: bool = False, replaced: Mapping[str, str] = NOTHING
) -> Iterator[str]:
    """The result as a JSON document of the contract, in pieces; ASCII, which every terminal can show.

    Args:
        result: What to write.
        now: Becomes ``generated_at``.
        one_line: Write the document in one line, for a stream of documents.
        replaced: What warnings and errors show in place of a word.
    """
    rows = result.rows if result.data is None else result.data
    document: ResultDocument = {
        "command": result.command,
        "schema_version": SCHEMA_VERSION,
        "generated_at": now,
        "data": [plain_row(row) for row in rows] if one_line else [],
        "warnings": [shown(sentence, replaced) for sentence in result.warnings],
        "errors": [_problem(ReportedError.of(error), replaced) for error in result.errors],
    }
    if result.timings is not None:
        document["timings"] = [plain_row(row) for row in result.timings]
    text = json.dumps(document, indent=None if one_line else 2, allow_nan=False, default=plain) + "\n"
    if not rows or one_line:
        yield text
        return
    head, _, tail = text.partition('\n  "data": []')
    yield head + '\n  "data": ['
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield (",\n" if start else "\n") + _indented(
            [plain_row(row) for row in rows[start : start + _ROWS_AT_ONCE]]
        )
    yield "\n  ]" + tail


def _indented(rows: Sequence[dict[str, object]]) -> str:
    """The rows as ``json.dumps(indent=2)`` writes them within the document; flat rows in a third of its time.

    The library's fast encoder knows no indent, but takes any text between two items, and no string in its output has
    a line break.
    """
    if not all(row and _NESTED.isdisjoint(map(type, row.values())) for row in rows):
        return "  " + json.dumps(rows, indent=2, allow_nan=False)[2:-2].replace("\n", "\n  ")
    flat = _FLAT.encode(rows)[2:-2].replace("},\n      {", "\n    },\n    {\n      ")
    return "    {\n      " + flat + "\n    }"


def _problem(problem: ReportedError, replaced: Mapping[str, str]) -> ReportedError:
    return ReportedError(*(shown(text, replaced) for text in (problem.code, problem.message, problem.remedy)))


def csv_text(result: Result, *, header: bool = True) -> Iterator[str]:
    """The result as CSV, in pieces: every key of the rows, a header line, RFC 4180 quoting and one line for each row.

    Names are printable, as in a table; JSON has them unchanged.
    """
    keys = result.keys()
    rows = ([printable(field(row.get(key))) for key in keys] for row in result.rows)
    lines = chain([keys], rows) if header else rows
    while some := list(islice(lines, _ROWS_AT_ONCE)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(some)
        yield text.getvalue()


def write_claimed(path: Path, content: bytes, what: str, *, over: str, remedy: str) -> None:
    """Write the content of a claimed file.

    Args:
        path: The file, which is there already.
        content: The whole content.
        what: The file in words, as ``the page``.
        over: The work that has ended by then, in words.
        remedy: The error's remedy.

    Raises:
        CheckFailedError: The file can no longer be written.
    """
    from mmtool.runtime.files import file_errors

    kept = f"; {over} is not affected"
    with file_errors(f"{what} cannot be written to {path}", remedy, CheckFailedError, and_so=kept):
        path.write_bytes(content)


@cache
def page_template(package: str, name: str, shown: Callable[[Any], Any] | None = None) -> Template:
    """A template of a package; one that is named ``.html.j2`` escapes every inserted value.

    Args:
        package: The package that holds the file, as ``mmtool.evidence``.
        name: The file's name.
        shown: Makes text of each inserted value, before it is escaped.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,  # a misspelt name is an error, and no empty place in a page
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=shown,
    )
    return environment.get_template(name)
