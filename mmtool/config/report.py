"""Collect every error and warning about a properties file, so that one run reports them all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mmtool.config.properties import PropertyEntry
from mmtool.config.read_files import ReadFiles
from mmtool.errors import ConfigError
from mmtool.events import Event, Notice
from mmtool.plain_text import Lines, marks_secret, printable, shell_word

Part = tuple[str] | tuple[str, str]
"""The reader of a key: one cluster by its alias, or one flow by its two aliases."""


@dataclass(frozen=True, slots=True)
class FileFinding:
    """One error or warning about a file.

    Attributes:
        severity: An error ends the command; a warning does not.
        path: The file.
        line: 1-based; None for the file as a whole.
        key: As written; None for the file as a whole.
        message: What is wrong and what is expected, without the key; never a secret.
        joint: What stands between the key and the message.
        listed: Keys that a finding about the whole file lists.
        usual: Every file of MirrorMaker 2's has such keys: reported only by commands that check the file.
        fails_check: A warning that ``config check`` counts as an error; other commands run, as the cluster may be about
            to be left.
        adjusts: Another value than the file's is used.
        misplaced: The key has an effect in another scope, and none in its own.
    """

    severity: Literal["error", "warning"]
    path: Path
    line: int | None
    key: str | None
    message: str
    usual: bool = False
    fails_check: bool = False
    adjusts: bool = False
    misplaced: bool = False
    joint: Literal[": ", " "] = ": "
    listed: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """File, line, key and message in one line."""
        place = f"{self.path}" if self.line is None else f"{self.path}:{self.line}"
        if self.key is None:
            return f"{place}: {self.message}"
        # a name of a secret and a colon: the redaction of stderr would take the sentence's first word for the secret
        quoted = self.joint == ": " and marks_secret(self.key)
        return f"{place}: {f'`{self.key}`' if quoted else self.key}{self.joint}{self.message}"

    @property
    def notice(self) -> Notice:
        """The sentence as a warning event, with the file, line and key."""
        event = Event.CONFIG_VALUE_ADJUSTED if self.adjusts else Event.WARNING
        return Notice(self.sentence, event, file=str(self.path), line=self.line, key=self.key)


def check_command(path: Path) -> str:
    """The command that lists all errors and warnings of a file, for a remedy."""
    return f"`mmtool config check -c {shell_word(str(path))}` lists all errors and warnings"


class InvalidConfigError(ConfigError):
    """The file has errors.

    Attributes:
        findings: All of them, and the warnings.
    """

    def __init__(self, findings: tuple[FileFinding, ...]) -> None:
        problems = [finding.sentence for finding in findings if finding.severity == "error"]
        super().__init__(Lines.of(problems), remedy=check_command(findings[0].path))
        self.findings = findings


@dataclass(slots=True)
class _Store:
    """Findings with the parts of the file that they concern (None: the whole file), and the keys that are settled."""

    found: dict[FileFinding, frozenset[Part] | None] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    files: ReadFiles = field(default_factory=ReadFiles)


class Report:
    """Findings, each once: a global key is read again for every flow; and the files that were read."""

    def __init__(self, path: Path, part: Part | None = None, store: _Store | None = None) -> None:
        """Create a report of a file; only `of` passes ``part`` and ``store``."""
        self.path = path
        self._part = part
        self._store = store or _Store()

    @classmethod
    def over(cls, path: Path, files: ReadFiles) -> Report:
        """A report of a file that notes in ``files`` what is read."""
        return cls(path, store=_Store(files=files))

    @property
    def files(self) -> ReadFiles:
        """The files that were read: note each one before it is read."""
        return self._store.files

    def of(self, part: Part) -> Report:
        """The same report, for findings that concern one cluster or one flow."""
        return Report(self.path, part, self._store)

    @property
    def findings(self) -> tuple[FileFinding, ...]:
        """All findings, by line; those about the whole file come last."""
        return tuple(sorted(self._store.found, key=lambda f: float("inf") if f.line is None else f.line))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that every command shows; usual ones are left to ``config check``."""
        return tuple(f.notice for f in self.findings if f.severity == "warning" and not f.usual)

    def expected(self, entry: PropertyEntry, expectation: str) -> None:
        """Report a value that cannot be used, and quote it.

        The value is quoted as written in the file: a placeholder's value is never shown. Only for keys without secrets;
        others use `refused`.
        """
        if not entry.has_placeholder:
            problem = f"= {entry.raw}: expected" if entry.raw.strip() else "has no value: expected"
            self._add("error", entry, f"{problem} {expectation}", joint=" ")
        else:
            problem = f"{entry.raw} {'' if entry.value.strip() else 'is empty; it '}must hold"
            self._add("error", entry, f"{problem} {expectation}")

    def refused(self, entry: PropertyEntry, sentence: str) -> None:
        """Report a key that cannot be honoured; its value is not quoted."""
        self._add("error", entry, sentence)

    def unusable(self, entry: PropertyEntry, sentence: str) -> None:
        """Report a value that is invalid as a whole; nothing else is reported about its key."""
        self.refused(entry, sentence)
        self._store.settled.add(entry.key)

    def problem(self, sentence: str) -> None:
        """Report a problem of the whole file, or of this report's part."""
        self._put(FileFinding("error", self.path, None, None, sentence))

    def warn(self, entry: PropertyEntry, sentence: str, *, misplaced: bool = False) -> None:
        """Report a warning about a key; ``misplaced`` as in `FileFinding`."""
        self._add("warning", entry, sentence, misplaced=misplaced)

    def adjusted(self, entry: PropertyEntry, sentence: str) -> None:
        """Report a warning that another value than the file's is used."""
        self._add("warning", entry, sentence, adjusts=True)

    def alarm(self, entry: PropertyEntry, sentence: str) -> None:
        """Report a warning that ``config check`` counts as an error."""
        self._add("warning", entry, sentence, fails_check=True)

    def warn_only(self, entry: PropertyEntry, sentence: str) -> None:
        """Report a warning after which nothing else is reported about the key."""
        self.warn(entry, sentence)
        self._store.settled.add(entry.key)

    def is_settled(self, entry: PropertyEntry) -> bool:
        """Whether nothing more is to be reported about a key."""
        return entry.key in self._store.settled

    def note(
        self, sentence: str, *, usual: bool = False, misplaced: bool = False, keys: Iterable[str] = ()
    ) -> None:
        """Report a warning about the whole file, which may list keys."""
        listed = tuple(keys)
        self._put(
            FileFinding("warning", self.path, None, None, sentence, usual, misplaced=misplaced, listed=listed)
        )

    def faults(self, parts: Collection[Part]) -> tuple[str, ...]:
        """The errors that concern one of these parts, as sentences."""
        return tuple(
            finding.sentence
            for finding in self.findings
            if finding.severity == "error" and _concerns(self._store.found[finding], parts)
        )

    def keep_errors_of(self, needed: Collection[Part]) -> None:
        """Turn the errors that concern neither one of these parts nor the whole file into warnings."""
        found = self._store.found
        for finding, parts in list(found.items()):
            is_fault = finding.severity == "error" or finding.fails_check
            if is_fault and not _concerns(parts, needed):
                del found[finding]
                message = f"{finding.message} (no enabled flow uses this setting)"
                found[replace(finding, severity="warning", message=message, fails_check=False)] = parts

    def raise_problems(self) -> None:
        """Raise the errors, if there are any.

        Raises:
            InvalidConfigError: The report has errors.
        """
        if any(finding.severity == "error" for finding in self._store.found):
            raise InvalidConfigError(self.findings)

    def _add(
        self, severity: Literal["error", "warning"], entry: PropertyEntry, message: str, **marks: Any
    ) -> None:
        """Report a finding about a key; ``marks``: further fields of `FileFinding`."""
        if not self.is_settled(entry):
            self._put(FileFinding(severity, self.path, entry.line, entry.key, printable(message), **marks))

    def _put(self, finding: FileFinding) -> None:
        found = self._store.found
        known = found.get(finding, frozenset())
        found[finding] = None if known is None or self._part is None else known | {self._part}


def _concerns(parts: frozenset[Part] | None, needed: Collection[Part]) -> bool:
    return parts is None or not parts.isdisjoint(needed)
