"""Results for scripts: one JSON document, or CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from mmtool.output.result import Problem, Result
from mmtool.output.values import field, iso, plain_row

if TYPE_CHECKING:
    from datetime import datetime


def json_document(result: Result, *, now: datetime, one_line: bool = False) -> str:
    """The envelope of the contract; ASCII, so that no terminal's encoding can make it invalid.

    Args:
        result: What to write.
        now: Becomes ``generated_at``.
        one_line: For a stream of documents, one per line.
    """
    rows = result.rows if result.data is None else result.data
    document = {
        "command": result.command,
        "schema_version": result.schema_version,
        "generated_at": iso(now),
        "data": [plain_row(row) for row in rows],
        "warnings": list(result.warnings),
        "errors": [asdict(Problem.of(error)) for error in result.errors],
    }
    return json.dumps(document, indent=None if one_line else 2, allow_nan=False) + "\n"


def csv_text(result: Result, *, header: bool = True) -> str:
    """Every key of the rows, with a header line; RFC 4180 quoting, plain line feeds as Unix tools expect."""
    keys = result.keys()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(keys)
    writer.writerows([field(row.get(key)) for key in keys] for row in result.rows)
    return text.getvalue()
