"""``mmtool config``: check and explain the properties file, without a connection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmtool.commands._draft_questions import NEW_FILE, Force, NewConfig
from mmtool.commands._options import ChosenFlows, Output
from mmtool.output import Column, OutputFormat, Result, emit, finish, talk

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
    where: ChosenFlows,
    output: Output = OutputFormat.TABLE,
) -> int:
    """Report errors in the properties file, and settings without effect; no cluster is contacted.

    Exit code 0: the file can be used, perhaps with warnings. 2: at least one error.
    """
    import os

    from mmtool.commands._new_config import check_file
    from mmtool.config.load import config_path

    path = config_path(where.config, os.environ)
    checked = check_file(path, where.source, where.target)
    emit(checked.result(output), output)
    if checked.good_for:
        talk(f"{path} {checked.good_for}")
    return checked.exit_code


@app.command()
def show(
    where: ChosenFlows,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the value of each setting in each flow, and the key that sets it; no cluster is contacted.

    Secrets are shown as [hidden], and placeholders as written.
    """
    import os
    from dataclasses import asdict

    from mmtool.config.explain import explain
    from mmtool.config.load import config_path, read_file

    loaded = read_file(config_path(where.config, os.environ), os.environ)
    flows = loaded.settings.select(where.source, where.target)
    rows = [asdict(row) for flow in flows for row in explain(loaded, flow)]
    warnings = [finding.sentence for finding in loaded.findings]  # a file with errors does not get here
    emit(Result("config show", rows, _VALUES, warnings=warnings), output)


@app.command("import")
def import_(
    *,
    strimzi: Annotated[
        list[Path] | None,
        typer.Option(
            "--strimzi", metavar="FILE", help="Input: YAML with Strimzi's KafkaMirrorMaker2 resources."
        ),
    ] = None,
    connect: Annotated[
        list[Path] | None,
        typer.Option(
            "--connect", metavar="FILE", help="Input: JSON of MirrorMaker 2's connectors in Kafka Connect."
        ),
    ] = None,
    more: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="More input files of the same kind.", show_default=False),
    ] = None,
    config: NewConfig = None,
    force: Force = False,
    secrets_dir: Annotated[
        str,
        typer.Option(
            "--secrets-dir",
            metavar="DIR",
            help="Folder that has a folder for each mounted Kubernetes secret; the written file reads secrets from it.",
        ),
    ] = "/etc/mmtool/secrets",
    keep_secrets: Annotated[
        bool,
        typer.Option(
            "--keep-secrets",
            help="Copy clear-text secrets of the input to the written file. Without this option, that file reads them"
            " from environment variables.",
        ),
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write a properties file from a Strimzi or Kafka Connect deployment of MirrorMaker 2.

    Give --strimzi or --connect; no cluster is contacted. Settings that mmtool has no equivalent for are listed, and are
    comments in the file. Exit code 0: the file can be used. 7: it was written, and something is missing, such as a
    secret.
    """
    from mmtool.commands._new_config import WAYS, imported_from, tell_next_steps, write_import
    from mmtool.runtime.files import new_file

    path = config or NEW_FILE
    folder = str(Path(secrets_dir).absolute())
    imported = imported_from(strimzi, connect, more, folder, keep_secrets=keep_secrets)
    with new_file(path, force=force) as file:
        written = write_import(file, imported)
    finish(written.result(output), output, written.error)
    tell_next_steps(path, WAYS)
