"""What `mmtool config check` finds in a properties file, for every command that checks one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Problem, Result

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config import Settings
    from mmtool.config.report import Finding

FINDINGS = (Column("severity"), Column("line"), Column("key"), Column("message"))


class FindingRow(TypedDict):
    """One finding in `mmtool config check`.

    Attributes:
        severity: An error ends every command; a warning does not.
        line: Of the file, from 1; null for the file as a whole.
        key: As written; null for the file as a whole.
        message: What is wrong and what is expected.
        file: The file.
    """

    severity: Literal["error", "warning"]
    line: int | None
    key: str | None
    message: str
    file: str


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The result of checking a properties file.

    Attributes:
        findings: Errors and warnings about keys.
        settings: None where the file has errors.
        refusal: Why its flows cannot run.
        exposed: A sentence for each file with secrets that others may read.
        good_for: What the file can be used for, in words; empty where it cannot.
    """

    findings: tuple[Finding, ...]
    settings: Settings | None = None
    refusal: UsageError | None = None
    exposed: tuple[str, ...] = ()
    good_for: str = ""

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def exit_code(self) -> int:
        return 0 if self.good_for else UsageError.exit_code

    def result(self, output: OutputFormat) -> Result:
        """The table says it all on stdout; a document has its warnings and errors where scripts look for them."""
        rows: list[FindingRow] = [
            {"severity": f.severity, "line": f.line, "key": f.key, "message": f.text, "file": str(f.path)}
            for f in self.findings
        ]
        errors = () if self.refusal is None else (self.refusal,)
        if output is OutputFormat.TABLE:
            return Result("config check", rows, FINDINGS, errors=errors, warnings=self.exposed)
        warnings = [f.sentence for f in self.findings if f.severity == "warning"]
        problems = [Problem("config", f.sentence) for f in self.errors]
        return Result(
            "config check", rows, FINDINGS, warnings=(*warnings, *self.exposed), errors=(*problems, *errors)
        )


def check_file(path: Path, source: str | None = None, target: str | None = None) -> CheckedFile:
    """Check a properties file, for the flows that ``-s`` and ``-t`` mean; nothing is raised for what is in it.

    Raises:
        ConfigError: There is no such file, or it cannot be read.
    """
    from mmtool.config.live import exposed_files
    from mmtool.config.load import read_file
    from mmtool.config.report import InvalidConfigError
    from mmtool.replication.ownership.limits import refuse_conflicts

    try:
        loaded = read_file(path, os.environ)
    except InvalidConfigError as error:
        return CheckedFile(error.findings)
    settings, found = loaded.settings, loaded.findings
    try:
        flows = settings.select(source, target)
        refuse_conflicts(settings.flows)
    except UsageError as error:
        pairs = ", ".join(loaded.asks_for_heartbeats())
        if pairs and not settings.flows and source is target is None:
            return CheckedFile(
                found,
                settings,
                good_for=f"can be used, but enables no flow, only heartbeats of {pairs};"
                " to check a flow, add -s ALIAS -t ALIAS",
            )
        return CheckedFile(found, settings, refusal=error)
    judged = tuple(replace(f, severity="error") if f.fails_check else f for f in found)
    names = ", ".join(flow.name for flow in flows)
    good_for = f"can be used; flows: {names}" if judged == found else ""
    return CheckedFile(judged, settings, exposed=exposed_files(path, os.environ), good_for=good_for)
