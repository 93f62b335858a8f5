"""``mmtool config``: check and explain the properties file, without a connection."""

from __future__ import annotations

import typer

from mmtool.commands._options import Config, OnlySource, OnlyTarget, Output
from mmtool.output import Column, OutputFormat, Result, emit, talk

app = typer.Typer(no_args_is_help=True)

_VALUES = (
    Column("flow"),
    Column("key"),
    Column("value"),
    Column("origin"),
    Column("line", essential=False),
    Column("mm2_default", title="MM2-DEFAULT", essential=False),
)


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

    from mmtool.commands._config_check import check_file
    from mmtool.config.load import config_path

    path = config_path(config, os.environ)
    checked = check_file(path, source, target)
    emit(checked.result("config check", output), output)
    if checked.good_for:
        talk(f"{path} {checked.good_for}")
    return checked.exit_code


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
