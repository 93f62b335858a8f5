"""The result of a command, independent of its output format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self, TypeAlias

from mmtool.errors import MmtoolError


class OutputFormat(StrEnum):
    """The values of ``-o``."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class LogFormat(StrEnum):
    """The values of ``--log-format``: stderr for people, or for a log collector."""

    TEXT = "text"
    JSON = "json"


SCHEMA_VERSION = 1

Rows: TypeAlias = Sequence[Mapping[str, object]]
OfGroup: TypeAlias = Callable[[Rows, str], object]
"""What a column shows of the rows of one group: called with the rows and the column's key."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table.

    Attributes:
        key: The row's key; also the name in JSON and CSV.
        title: The heading; by default the key the way Kafka's own tools write it (``LOG-END-OFFSET``).
        essential: Kept on a narrow terminal, where the others are left out and named on stderr.
        elide: A name, shortened in the middle on a terminal that is too narrow for it; never in a pipe.
        note: A sentence, written below its row on a terminal that is too narrow for a column of it.
        human: The function that formats the value for people (``mmtool.output.human``); JSON and CSV keep it raw.
        of_group: What the row of a whole group shows (``mmtool.output.layout``); None leaves the column out there.
        verdict: A result or its reason: it stays a column while there is room, also where it is the same in every row.
    """

    key: str
    title: str = ""
    essential: bool = True
    elide: bool = False
    note: bool = False
    human: Callable[[object], str] | None = None
    of_group: OfGroup | None = None
    verdict: bool = False

    @property
    def heading(self) -> str:
        return self.title or self.key.upper().replace("_", "-")


@dataclass(frozen=True, slots=True)
class ReportedError:
    """One entry of ``errors[]``.

    Attributes:
        code: A stable word for scripts.
        message: State and cause.
        remedy: What the operator can do; may be empty.
    """

    code: str
    message: str
    remedy: str = ""

    @classmethod
    def of(cls, error: MmtoolError | ReportedError) -> Self:
        """The code, message and remedy of an error."""
        return cls(error.code, error.message, error.remedy)


@dataclass(frozen=True, slots=True)
class Result:
    """Rows for people and scripts, with warnings, errors and a summary.

    Attributes:
        command: The command, without options and arguments: ``failover planned``.
        rows: One mapping per line of the table; the keys are the contract's.
        columns: Which keys the table shows, in order; ``None`` shows every key as it comes.
        warnings: Sentences; also printed on stderr.
        summary: One sentence on stderr that sums up the rows; not in the JSON document.
        headlines: Lines before the table, for the first glance; not in the JSON document.
        errors: Also printed on stderr; an error that ends the command is raised instead.
        applied: The command has changed what it was asked to change; reported when the result cannot be written.
        data: The JSON document's ``data`` where it is nested and the rows are its flat form.
        timings: The steps of a start, with how long each took; only in the JSON document. None: not asked for.
        per_group: The table has a row for each group; JSON and CSV have one for each partition.
    """

    command: str
    rows: Sequence[Mapping[str, object]]
    columns: Sequence[Column] | None = None
    warnings: Sequence[str] = ()
    errors: Sequence[MmtoolError | ReportedError] = ()
    data: Sequence[Mapping[str, object]] | None = field(default=None)
    applied: bool = False
    summary: str = ""
    headlines: Sequence[str] = ()
    timings: Sequence[Mapping[str, object]] | None = None
    per_group: bool = False

    def keys(self) -> list[str]:
        """Every key of the rows, in order of first appearance; the table's columns when there is no row."""
        seen = dict.fromkeys(key for row in self.rows for key in row)
        return list(seen) or [column.key for column in self.columns or ()]

    def table_columns(self) -> list[Column]:
        """The columns that the table shows, in order."""
        return list(self.columns) if self.columns is not None else [Column(key) for key in self.keys()]
