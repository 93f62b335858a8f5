"""``mmtool config``: check and explain the properties file, without a connection; or write one from another tool's."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer

from mmtool.commands._dialogue import say_next
from mmtool.commands._options import ChosenFlows, Output, config_option
from mmtool.errors import CheckFailedError, UsageError, with_remedy
from mmtool.output import Column, OutputFormat, ReportedError, Result, emit, fail, finish, talk
from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmtool.config import FlowSettings, Settings
    from mmtool.config.report import FileFinding

app = typer.Typer(no_args_is_help=True)

NEW_FILE = Path("mm2.properties")
NewConfig = Annotated[Path | None, config_option(f"The file to write.  [default: {NEW_FILE}]")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]

_FINDINGS = (Column("severity"), Column("line"), Column("key"), Column("message"))
_VALUES = (
    Column("flow"),
    Column("key"),
    Column("value"),
    Column("origin"),
    Column("line", essential=False),
    Column("mm2_default", title="MM2-DEFAULT", essential=False),
)
_NOTES = (Column("kind"), Column("path"), Column("message", note=True))
_WAYS = (
    ("continue where MirrorMaker 2 stops; stop MirrorMaker 2 when mmtool asks for it", ("--take-over",)),
)
"""What is done next with an imported file: a sentence, and the options of `mmtool replicate`."""


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

    findings: tuple[FileFinding, ...]
    settings: Settings | None = None
    refusal: UsageError | None = None
    exposed: tuple[str, ...] = ()
    good_for: str = ""

    @property
    def errors(self) -> tuple[FileFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(finding.sentence for finding in self.findings if finding.severity == "warning")

    @property
    def problems(self) -> tuple[ReportedError, ...]:
        """What keeps the file from use."""
        refusals = () if self.refusal is None else (ReportedError.of(self.refusal),)
        return (*(ReportedError("config", finding.sentence) for finding in self.errors), *refusals)

    def result(self, found: Result, output: OutputFormat) -> Result:
        """The table says it all on stdout; a document has its warnings and errors where scripts look for them."""
        if output is OutputFormat.TABLE:
            return replace(found, warnings=self.exposed)
        return replace(found, warnings=(*found.warnings, *self.warnings, *self.exposed), errors=self.problems)


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
    faults = tuple(_function_faults(path, flows))
    judged = (*(replace(f, severity="error") if f.fails_check else f for f in found), *faults)
    names = ", ".join(flow.name for flow in flows)
    good_for = f"can be used; flows: {names}" if judged == found else ""
    return CheckedFile(judged, settings, exposed=exposed_files(path, os.environ), good_for=good_for)


def _function_faults(path: Path, flows: Sequence[FlowSettings]) -> Iterator[FileFinding]:
    """Why functions of ``mmtool.transform`` cannot run: each is imported, and run with an empty batch."""
    from mmtool.config.report import FileFinding
    from mmtool.runtime.threads import run_loop
    from mmtool.transforms.process import TransformProcess
    from mmtool.transforms.shipment import Shipment

    for flow in flows:
        if flow.transforms.function:
            why = run_loop(TransformProcess().check(Shipment(flow).function))
            if why:
                yield FileFinding("error", path, None, "mmtool.transform", f"{flow.name}: {why}")


def not_usable_yet(path: Path, message: str, do: str) -> CheckFailedError | None:
    """The error of a file that was written, and that no command can use before something is in place.

    Args:
        path: The file.
        message: What is missing; empty for a file that can be used.
        do: What the operator does about it, before the check.
    """
    if not message:
        return None
    check = shell_line(["mmtool", "config", "check", "-c", str(path)])
    return CheckFailedError(message, remedy=f"{do}, then run `{check}`", code="not_usable_yet")


def tell_next_steps(path: Path, ways: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Show what the operator does next with a file that can be used: the doctor comes first.

    Args:
        path: The file.
        ways: To run its flows: a sentence, and the options of ``mmtool replicate``.
    """
    from mmtool.failover.report.report import NextStep

    def command(name: str, *options: str) -> tuple[str]:
        return (shell_line(["mmtool", name, "-c", str(path), *options]),)

    say_next(
        [
            NextStep("check clusters, rights and topics", command("doctor")),
            *(NextStep(sentence, command("replicate", *options)) for sentence, options in ways),
        ]
    )


class ImportRow(TypedDict):
    """One note about an import, or one finding of the written file's check.

    Attributes:
        kind: A setting of the input that needs a decision, that the connectors disagree on, that is a secret, or that
            was left out of the properties file; or the severity of a finding about that file.
        path: The setting in the input, or file, line and key of a finding.
        message: The reason, or what to do.
    """

    kind: Literal["attention", "differs", "secret", "left_out", "error", "warning"]
    path: str
    message: str


@app.command()
def check(
    where: ChosenFlows,
    output: Output = OutputFormat.TABLE,
) -> int:
    """Report errors in the properties file, and settings without effect; no cluster is contacted.

    Exit code 0: the file can be used, perhaps with warnings. 2: at least one error.
    """
    from mmtool.config.load import config_path

    path = config_path(where.config, os.environ)
    checked = check_file(path, where.source, where.target)
    rows: list[FindingRow] = [
        {"severity": f.severity, "line": f.line, "key": f.key, "message": f.message, "file": str(f.path)}
        for f in checked.findings
    ]
    emit(checked.result(Result("config check", rows, _FINDINGS), output), output)
    if checked.refusal is not None and output is OutputFormat.TABLE:
        fail(checked.refusal)
    if not checked.good_for:
        return UsageError.exit_code
    talk(f"{path} {checked.good_for}")
    return 0


@app.command()
def show(
    where: ChosenFlows,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the value of each setting in each flow, and the key that sets it; no cluster is contacted.

    Secrets are shown as [hidden], and placeholders as written.
    """
    from mmtool.config.explain import explain
    from mmtool.config.load import config_path, read_file

    loaded = read_file(config_path(where.config, os.environ), os.environ)
    flows = loaded.settings.select(where.source, where.target)
    rows = [asdict(row) for flow in flows for row in explain(loaded, flow)]
    warnings = [finding.sentence for finding in loaded.findings]  # a file with errors does not get here
    emit(Result("config show", rows, _VALUES, warnings=warnings), output)


_Strimzi = Annotated[
    list[Path] | None,
    typer.Option("--strimzi", metavar="FILE", help="Input: YAML with Strimzi's KafkaMirrorMaker2 resources."),
]
_Connect = Annotated[
    list[Path] | None,
    typer.Option(
        "--connect", metavar="FILE", help="Input: JSON of MirrorMaker 2's connectors in Kafka Connect."
    ),
]
_More = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="More input files of the same kind."),
]
_SecretsDir = Annotated[
    str,
    typer.Option(
        "--secrets-dir",
        metavar="DIR",
        help="Folder that has a folder for each mounted Kubernetes secret; the written file reads secrets from it.",
    ),
]
_KeepSecrets = Annotated[
    bool,
    typer.Option(
        "--keep-secrets",
        help="Copy clear-text secrets of the input to the written file. Without this option, that file reads them"
        " from environment variables.",
    ),
]


@app.command("import")
def import_(
    *,
    strimzi: _Strimzi = None,
    connect: _Connect = None,
    more: _More = None,
    config: NewConfig = None,
    force: Force = False,
    secrets_dir: _SecretsDir = "/etc/mmtool/secrets",
    keep_secrets: _KeepSecrets = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write a properties file from a Strimzi or Kafka Connect deployment of MirrorMaker 2.

    Give --strimzi or --connect; no cluster is contacted. Settings that mmtool has no equivalent for are listed, and are
    comments in the file. Exit code 0: the file can be used. 7: it was written, and something is missing, such as a
    secret.
    """
    from mmtool.importers.core.connect import NoteKind
    from mmtool.importers.service import content_of, imported_json, imported_yaml
    from mmtool.plan.words import counted
    from mmtool.runtime.files import new_file

    if not strimzi and not connect:
        raise UsageError(
            "neither --strimzi nor --connect is given: there is nothing to import",
            remedy="name the input: mmtool config import --strimzi FILE.yaml, or --connect FILE.json",
        )
    path, folder = config or NEW_FILE, str(Path(secrets_dir).absolute())
    contents = [(str(one), content_of(one)) for one in (*(strimzi or connect or ()), *(more or ()))]
    read = imported_yaml if strimzi else imported_json
    imported = read(contents, folder, keep_secrets=keep_secrets)
    with new_file(path, force=force) as file:
        file.write(imported.text.encode("ascii", "backslashreplace"))
        file.publish()
    talk(f"{path} was written")
    checked = check_file(path)
    if checked.good_for:
        talk(f"{path} {checked.good_for}")
    rows = [ImportRow(kind=note.kind.value, path=note.path, message=note.message) for note in imported.notes]
    urgent = (NoteKind.ATTENTION, NoteKind.DIFFERS)
    warnings = [f"{note.path}: {note.message}" for note in imported.notes if note.kind in urgent]
    if checked.refusal is not None:
        rows.append(ImportRow(kind="error", path=str(path), message=with_remedy(checked.refusal)))
    for finding in checked.findings:
        place = (finding.path, finding.line, finding.key)
        at = ":".join(str(part) for part in place if part is not None)
        rows.append(ImportRow(kind=finding.severity, path=at, message=finding.message))
    missing = f"{path} was written and cannot be used yet: {counted(len(checked.problems), 'error')}"
    do = "provide the secrets and correct the keys that the table names"
    error = not_usable_yet(path, missing if checked.problems else "", do)
    found = Result("config import", rows, _NOTES, warnings=warnings, applied=True)
    finish(checked.result(found, output), output, error)
    tell_next_steps(path, _WAYS)
