"""``mmtool config``: check and explain the properties file, without a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

import typer

from mmtool.commands._options import Config, OnlySource, OnlyTarget, Output
from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Problem, Result, emit, talk

if TYPE_CHECKING:
    from mmtool.config.report import Finding

app = typer.Typer(no_args_is_help=True)

_FINDINGS = (Column("severity"), Column("line"), Column("key"), Column("message"))
_VALUES = (
    Column("flow"),
    Column("key"),
    Column("value"),
    Column("origin"),
    Column("line", essential=False),
    Column("mm2_default", title="MM2-DEFAULT", essential=False),
)


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


@app.command()
def check(
    config: Config = None,
    source: OnlySource = None,
    target: OnlyTarget = None,
    output: Output = OutputFormat.TABLE,
) -> int:
    """Report errors in the properties file, and settings without effect.

    Exit code 0: the file can be used, perhaps with warnings. 2: at least one error.
    """
    import os
    from dataclasses import replace

    from mmtool.config.exposure import exposed_files
    from mmtool.config.load import config_path, read_file
    from mmtool.config.report import InvalidConfigError
    from mmtool.replication.ownership.limits import refuse_conflicts

    path = config_path(config, os.environ)
    try:
        loaded = read_file(path, os.environ)
    except InvalidConfigError as error:
        emit(_found(error.findings, output), output)
        return error.exit_code
    try:
        flows = loaded.settings.select(source, target)
        refuse_conflicts(loaded.settings.flows)
    except UsageError as error:
        pairs = ", ".join(loaded.asks_for_heartbeats())
        if pairs and not loaded.settings.flows and source is target is None:
            emit(_found(loaded.findings, output), output)
            talk(
                f"{path} can be used, but enables no flow, only heartbeats of {pairs};"
                " to check a flow, add -s ALIAS -t ALIAS"
            )
            return 0
        emit(_found(loaded.findings, output, error), output)
        return error.exit_code
    judged = tuple(replace(f, severity="error") if f.fails_check else f for f in loaded.findings)
    shown = _found(judged, output)
    emit(replace(shown, warnings=(*shown.warnings, *exposed_files(path, os.environ))), output)
    if judged != loaded.findings:
        return UsageError.exit_code
    talk(f"{path} can be used; flows: {', '.join(flow.name for flow in flows)}")
    return 0


@app.command()
def show(
    config: Config = None,
    source: OnlySource = None,
    target: OnlyTarget = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the value of each setting in each flow, and the key that sets it.

    Secrets are shown as [hidden], and placeholders as written.
    """
    import os
    from dataclasses import asdict

    from mmtool.config.explain import explain
    from mmtool.config.load import config_path, read_file

    loaded = read_file(config_path(config, os.environ), os.environ)
    flows = loaded.settings.select(source, target)
    rows = [asdict(row) for flow in flows for row in explain(loaded, flow)]
    warnings = [finding.sentence for finding in loaded.findings]  # a file with errors does not get here
    emit(Result("config show", rows, _VALUES, warnings=warnings), output)


def _found(findings: tuple[Finding, ...], output: OutputFormat, *others: UsageError) -> Result:
    """The table says it all on stdout; a document has its warnings and errors where scripts look for them."""
    rows: list[FindingRow] = [
        {"severity": f.severity, "line": f.line, "key": f.key, "message": f.text, "file": str(f.path)}
        for f in findings
    ]
    if output is OutputFormat.TABLE:
        return Result("config check", rows, _FINDINGS, errors=others)
    warnings = [f.sentence for f in findings if f.severity == "warning"]
    errors = [Problem("config", f.sentence) for f in findings if f.severity == "error"]
    return Result("config check", rows, _FINDINGS, warnings=warnings, errors=(*errors, *others))
