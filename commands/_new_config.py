"""Check a properties file, or write one for `mmtool init` and `mmtool config import`, and say what it lacks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from mmtool.errors import CheckFailedError, ConfigError, MmtoolError, UsageError, with_remedy
from mmtool.output import Column, OutputFormat, Problem, Result, hide, talk
from mmtool.plain_text import Lines, shell_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from mmtool.config import Settings
    from mmtool.config.draft import Draft, DraftCluster
    from mmtool.config.report import Finding
    from mmtool.config.scopes import Side
    from mmtool.doctor.examination import Answer
    from mmtool.importers.service import Imported
    from mmtool.runtime.files import NewFile


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
            {"severity": f.severity, "line": f.line, "key": f.key, "message": f.message, "file": str(f.path)}
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


def _not_usable_yet(path: Path, message: str, do: str) -> CheckFailedError | None:
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
    from mmtool.commands._dialogue import say_next
    from mmtool.failover.report.report import NextStep

    def command(name: str, *options: str) -> tuple[str]:
        return (shell_line(["mmtool", name, "-c", str(path), *options]),)

    say_next(
        [
            NextStep("check clusters, rights and topics", command("doctor")),
            *(NextStep(sentence, command("replicate", *options)) for sentence, options in ways),
        ]
    )


_MOST_REPLICAS = 3


class FirstContactRow(TypedDict):
    """One cluster in `mmtool init`.

    Attributes:
        cluster: The alias.
        side: Of the flow.
        bootstrap_servers: As the file has them.
        state: `answers`, `not_asked`, or the code of the error, such as `unreachable` or `not_authorised`.
        cluster_id: As its brokers report it; null where it is not known.
        brokers: How many are alive; null where it is not known.
        message: Why the cluster did not answer; empty where it did, or was not asked.
        file: The file that was written.
    """

    cluster: str
    side: Literal["source", "target"]
    bootstrap_servers: str
    state: str
    cluster_id: str | None
    brokers: int | None
    message: str
    file: str


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written.

    Attributes:
        rows: One for each cluster.
        warnings: Clusters that did not answer, and what the check of the file found.
        error: Why no command can use the file yet; None where it can be used.
    """

    rows: list[FirstContactRow]
    warnings: tuple[str, ...]
    error: CheckFailedError | None


def write_first_file(file: NewFile, draft: Draft, timeout: timedelta | None) -> WrittenFile:
    """Check the draft, ask its clusters, and write the file with what they answered.

    Args:
        file: Gets the text.
        draft: As the operator answered.
        timeout: Of one request; None: no cluster is asked.

    Raises:
        UsageError: The file could not be used; nothing is written.
    """
    checked = _check(file, draft)
    answers: Mapping[str, Answer | MmtoolError] = {}
    if timeout is not None and checked.settings is not None:
        answers = _ask(checked.settings, timeout)
        draft = _completed(draft, answers)
        checked = _check(file, draft)
    file.publish()
    talk(f"{file.path} was written")
    away = [with_remedy(answer) for answer in answers.values() if isinstance(answer, MmtoolError)]
    if checked.good_for and not away:
        talk(f"{file.path} {checked.good_for}")
    found = [finding.sentence for finding in checked.findings if finding.severity == "warning"]
    rows = [_row(file.path, side, cluster, answers) for side, cluster in draft.sides.items()]
    missing = Lines.of(finding.sentence for finding in checked.errors)
    do = "set the variables and provide the files that the error names"
    return WrittenFile(rows, (*away, *found, *checked.exposed), _not_usable_yet(file.path, missing, do))


def _check(file: NewFile, draft: Draft) -> CheckedFile:
    """What `mmtool config check` says. Its errors may only be about secrets and stores that are not in place yet.

    Raises:
        UsageError: There is another error.
    """
    from mmtool.commands._new_config import check_file
    from mmtool.config.draft import text_of

    file.write(text_of(draft).encode())
    checked = check_file(file.draft)
    findings = [  # with the name that the file gets
        replace(one, path=file.path, message=one.message.replace(str(file.draft), str(file.path)))
        for one in checked.findings
    ]
    checked = replace(checked, findings=tuple(findings))
    wrong = [f for f in checked.errors if f.key not in draft.outside_keys]
    if wrong:
        raise UsageError(
            Lines.of(f"`{f.key}`{f.joint}{f.message}" if f.key else f.message for f in wrong),
            remedy="correct the options or answers; nothing was written",
        )
    if checked.refusal is not None:
        raise checked.refusal
    return checked


def _ask(settings: Settings, timeout: timedelta) -> Mapping[str, Answer | MmtoolError]:
    from mmtool.commands._connections import examined_clusters
    from mmtool.doctor.examination import ask_each

    for secret in settings.secrets():
        hide(secret)
    talk(f"connecting to {' and '.join(settings.clusters)}")
    return ask_each(examined_clusters(settings, settings.flows, timeout.total_seconds()))


def _completed(draft: Draft, answers: Mapping[str, Answer | MmtoolError]) -> Draft:
    """The draft with the clusters' ids, and with a replication factor that both can have.

    Raises:
        ConfigError: Both aliases lead to one cluster.
    """
    known = {alias: answer for alias, answer in answers.items() if not isinstance(answer, MmtoolError)}
    source, target = (
        replace(cluster, cluster_id=known[cluster.alias].cluster_id) if cluster.alias in known else cluster
        for cluster in draft.sides.values()
    )
    if source.cluster_id is not None and source.cluster_id == target.cluster_id:
        raise ConfigError(
            f"{source.alias} and {target.alias} are the same cluster, {source.cluster_id}; nothing was written",
            remedy="give each alias the bootstrap servers of its own cluster",
        )
    brokers = [answer.brokers for answer in known.values()]
    replicas = min(_MOST_REPLICAS, *brokers) if len(known) == len(draft.sides) else None
    return replace(draft, source=source, target=target, replicas=replicas)


def _row(
    path: Path, side: Side, cluster: DraftCluster, answers: Mapping[str, Answer | MmtoolError]
) -> FirstContactRow:
    answer = answers.get(cluster.alias)
    state, message = "not_asked", ""
    brokers: int | None = None
    if isinstance(answer, MmtoolError):
        state, message = answer.code, answer.message
    elif answer is not None:
        state, brokers = "answers", answer.brokers
    return {
        "cluster": cluster.alias,
        "side": side,
        "bootstrap_servers": cluster.servers,
        "state": state,
        "cluster_id": cluster.cluster_id,
        "brokers": brokers,
        "message": message,
        "file": str(path),
    }


_NOTES = (Column("kind"), Column("path"), Column("message", note=True))
WAYS = (("continue where MirrorMaker 2 stops; stop MirrorMaker 2 when mmtool asks for it", ("--take-over",)),)
"""What is done next with the file: a sentence, and the options of `mmtool replicate`."""


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


def imported_from(
    strimzi: list[Path] | None,
    connect: list[Path] | None,
    more: list[Path] | None,
    secrets_dir: str,
    *,
    keep_secrets: bool,
) -> Imported:
    """The properties file of the files that the options name.

    Raises:
        UsageError: Neither of the options is given, or a file cannot be read or imported.
    """
    from mmtool.importers.service import content_of, imported_json, imported_yaml

    if not strimzi and not connect:
        raise UsageError(
            "neither --strimzi nor --connect is given: there is nothing to import",
            remedy="name the input: mmtool config import --strimzi FILE.yaml, or --connect FILE.json",
        )
    read = imported_yaml if strimzi else imported_json
    contents = [(str(path), content_of(path)) for path in (*(strimzi or connect or ()), *(more or ()))]
    return read(contents, secrets_dir, keep_secrets=keep_secrets)


@dataclass(frozen=True, slots=True)
class WrittenImport:
    """A file that was written.

    Attributes:
        rows: What is not in the file and what needs a decision; then what the check of the file found.
        warnings: The urgent ones as sentences, for a document.
        exposed: A sentence for each file with secrets that others may read.
        problems: Each error of the check, for a document.
        error: That no command can use the file yet; None where it can be used.
    """

    rows: list[ImportRow]
    warnings: tuple[str, ...]
    exposed: tuple[str, ...]
    problems: tuple[Problem, ...]
    error: CheckFailedError | None

    def result(self, output: OutputFormat) -> Result:
        """The table says it all on stdout; a document has its warnings and errors where scripts look for them."""
        if output is OutputFormat.TABLE:
            return Result("config import", self.rows, _NOTES, warnings=self.exposed, applied=True)
        warnings = (*self.warnings, *self.exposed)
        return Result(
            "config import", self.rows, _NOTES, warnings=warnings, errors=self.problems, applied=True
        )


def write_import(file: NewFile, imported: Imported) -> WrittenImport:
    """Write the file and check it, as `mmtool config check` does.

    Raises:
        UsageError: The file cannot be written.
    """
    from mmtool.commands._new_config import check_file
    from mmtool.importers.core.connect import NoteKind
    from mmtool.plan.words import counted

    file.write(imported.text.encode("ascii", "backslashreplace"))
    file.publish()
    talk(f"{file.path} was written")
    checked = check_file(file.path)
    if checked.good_for:
        talk(f"{file.path} {checked.good_for}")
    rows = [ImportRow(kind=note.kind.value, path=note.path, message=note.message) for note in imported.notes]
    urgent = (NoteKind.ATTENTION, NoteKind.DIFFERS)
    warnings = [f"{note.path}: {note.message}" for note in imported.notes if note.kind in urgent]
    warnings += [finding.sentence for finding in checked.findings if finding.severity == "warning"]
    problems = [Problem("config", finding.sentence) for finding in checked.errors]
    if checked.refusal is not None:
        problems.append(Problem.of(checked.refusal))
        rows.append(ImportRow(kind="error", path=str(file.path), message=with_remedy(checked.refusal)))
    missing = f"{file.path} was written and cannot be used yet: {counted(len(problems), 'error')}"
    do = "provide the secrets and correct the keys that the table names"
    error = _not_usable_yet(file.path, missing if problems else "", do)
    return WrittenImport(
        [*rows, *_findings(checked)], tuple(warnings), checked.exposed, tuple(problems), error
    )


def _findings(checked: CheckedFile) -> Iterator[ImportRow]:
    for finding in checked.findings:
        place = (finding.path, finding.line, finding.key)
        path = ":".join(str(part) for part in place if part is not None)
        yield ImportRow(kind=finding.severity, path=path, message=finding.message)
