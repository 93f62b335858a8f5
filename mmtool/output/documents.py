"""Results for scripts: one JSON document, or CSV."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from mmtool.output.redaction import redacted
from mmtool.output.result import Problem, Result
from mmtool.output.values import field, iso, plain_row

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

_QUOTE = '"'
_NEEDS_QUOTES = frozenset(',"\r\n')


def json_document(
    result: Result, *, now: datetime, one_line: bool = False, secrets: Collection[str] = ()
) -> str:
    """The envelope of the contract; ASCII, so that no terminal's encoding can make it invalid.

    Args:
        result: What to write.
        now: Becomes ``generated_at``.
        one_line: For a stream of documents, one per line.
        secrets: Values that no warning and no error may show.
    """
    rows = result.rows if result.data is None else result.data
    document = {
        "command": result.command,
        "schema_version": result.schema_version,
        "generated_at": iso(now),
        "data": [plain_row(row) for row in rows],
        "warnings": [redacted(sentence, secrets) for sentence in result.warnings],
        "errors": [_problem(Problem.of(error), secrets) for error in result.errors],
    }
    return json.dumps(document, indent=None if one_line else 2, allow_nan=False) + "\n"


def _problem(problem: Problem, secrets: Collection[str]) -> dict[str, str]:
    return {key: redacted(text, secrets) for key, text in asdict(problem).items()}


def csv_text(result: Result, *, header: bool = True) -> str:
    """Every key of the rows, with a header line; RFC 4180 quoting, plain line feeds as Unix tools expect."""
    keys = result.keys()
    lines = [[field(row.get(key)) for key in keys] for row in result.rows]
    return "".join(map(_csv_line, [keys, *lines] if header else lines))


def _csv_line(fields: Sequence[str]) -> str:
    """The csv module leaves a lone carriage return unquoted, and then no reader gets it back."""
    return (
        ",".join(
            f'"{text.replace(_QUOTE, 2 * _QUOTE)}"' if _NEEDS_QUOTES & set(text) else text for text in fields
        )
        + "\n"
    )
