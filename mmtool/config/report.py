"""Everything that is to be said about a file, collected: an operator mends it in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mmtool.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config.properties import Entry


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say.

    Attributes:
        severity: An error ends the command; a warning does not.
        path: The file.
        line: 1-based; None for the file as a whole.
        key: As written; None for the file as a whole.
        message: What is the matter and what is expected; never a secret.
        usual: Every file of MirrorMaker 2's has such keys: said only where somebody asks about the file.
    """

    severity: Literal["error", "warning"]
    path: Path
    line: int | None
    key: str | None
    message: str
    usual: bool = False

    @property
    def text(self) -> str:
        """The message without the key."""
        return self.message.removeprefix(": ").removeprefix(" ")

    @property
    def sentence(self) -> str:
        """File, line, key and message in one line."""
        place = f"{self.path}" if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}" if self.key is None else f"{place}: {self.key}{self.message}"


class InvalidConfigError(ConfigError):
    """The file has problems.

    Attributes:
        findings: All of them, and the warnings.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        problems = [finding.sentence for finding in findings if finding.severity == "error"]
        super().__init__("\n".join(problems), remedy="`mmtool config check` lists everything")
        self.findings = findings


class Report:
    """Findings, each once: a global key is read again for every flow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._findings: dict[Finding, None] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """By line; those about the whole file come last."""
        return tuple(sorted(self._findings, key=lambda f: float("inf") if f.line is None else f.line))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What every command says; what is merely usual is left to ``config check``."""
        return tuple(f.sentence for f in self.findings if f.severity == "warning" and not f.usual)

    def expected(self, entry: Entry, expectation: str) -> None:
        """A value that cannot be used.

        Quoted as the file has it: what a placeholder stands for never shows. For keys without secrets only;
        the others are ``refused``.
        """
        self._add("error", entry, f" = {entry.raw}: expected {expectation}")

    def refused(self, entry: Entry, sentence: str) -> None:
        """A key that cannot be honoured; its value is not quoted."""
        self._add("error", entry, f": {sentence}")

    def problem(self, sentence: str) -> None:
        """A problem of the file as a whole."""
        self._findings[Finding("error", self.path, None, None, sentence)] = None

    def warn(self, entry: Entry, sentence: str) -> None:
        self._add("warning", entry, f": {sentence}")

    def note(self, sentence: str, *, usual: bool = False) -> None:
        """A warning about the file as a whole."""
        self._findings[Finding("warning", self.path, None, None, sentence, usual)] = None

    def raise_problems(self) -> None:
        """Stop here if there are problems.

        Raises:
            InvalidConfigError: There are some.
        """
        if any(finding.severity == "error" for finding in self._findings):
            raise InvalidConfigError(self.findings)

    def _add(self, severity: Literal["error", "warning"], entry: Entry, message: str) -> None:
        self._findings[Finding(severity, self.path, entry.line, entry.key, message)] = None
