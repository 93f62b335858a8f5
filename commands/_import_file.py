"""The service of `mmtool config import`: read the input, write the properties file, check it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from mmtool.commands._new_config import not_usable_yet
from mmtool.errors import UsageError, with_remedy
from mmtool.output import Column, OutputFormat, Problem, Result, talk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mmtool.commands._config_check import CheckedFile
    from mmtool.errors import CheckFailedError
    from mmtool.importers.service import Imported
    from mmtool.runtime.files import NewFile

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


@dataclass(frozen=True, slots=True)
class Input:
    """What is imported.

    Attributes:
        files: In the order given.
        is_strimzi: Strimzi's resources; otherwise JSON of connectors.
    """

    files: tuple[Path, ...]
    is_strimzi: bool

    def imported(self, secrets_dir: str, *, keep_secrets: bool) -> Imported:
        """The properties file of these files.

        Raises:
            UsageError: A file cannot be read or imported.
        """
        from mmtool.importers.service import import_connectors, import_strimzi

        read = import_strimzi if self.is_strimzi else import_connectors
        return read(self.files, secrets_dir, keep_secrets=keep_secrets)


def input_of(strimzi: list[Path] | None, connect: list[Path] | None, more: list[Path] | None) -> Input:
    """The files that the options name.

    Raises:
        UsageError: Neither of the options is given.
    """
    if not strimzi and not connect:
        raise UsageError(
            "neither --strimzi nor --connect is given: there is nothing to import",
            remedy="name the input: mmtool config import --strimzi FILE.yaml, or --connect FILE.json",
        )
    return Input((*(strimzi or connect or ()), *(more or ())), bool(strimzi))


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
    from mmtool.commands._config_check import check_file
    from mmtool.importers.core.connect import NoteKind

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
    return WrittenImport(
        [*rows, *_findings(checked)],
        tuple(warnings),
        checked.exposed,
        tuple(problems),
        _unusable(file.path, len(problems)),
    )


def _findings(checked: CheckedFile) -> Iterator[ImportRow]:
    for finding in checked.findings:
        place = (finding.path, finding.line, finding.key)
        path = ":".join(str(part) for part in place if part is not None)
        yield ImportRow(kind=finding.severity, path=path, message=finding.text)


def _unusable(path: Path, problems: int) -> CheckFailedError | None:
    """The error that says that something has to be in place before a command can use the file."""
    from mmtool.plan.words import counted

    if not problems:
        return None
    return not_usable_yet(
        path,
        f"{path} was written and cannot be used yet: {counted(problems, 'error')}",
        "provide the secrets and correct the keys that the table names",
    )
