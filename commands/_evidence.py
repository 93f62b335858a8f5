"""The options ``--html`` and ``--sign`` of commands that write an evidence page."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmtool.commands._consent import has_terminal
from mmtool.errors import CheckFailedError, UsageError
from mmtool.output import hide, talk
from mmtool.output.console import switches

if TYPE_CHECKING:
    from mmtool.errors import MmtoolError
    from mmtool.evidence.document import Evidence
    from mmtool.evidence.signature import Signer

PASSWORD = "MMTOOL_SIGN_PASSWORD"  # noqa: S105 - the variable's name

_PAGE = "an evidence page for auditors: one HTML file."


def _html_option(help_: str) -> Any:
    return typer.Option("--html", metavar="FILE", help=help_, show_default=False)


HtmlFile = Annotated[Path | None, _html_option(f"Write {_PAGE}")]
DrillHtmlFile = Annotated[Path | None, _html_option(f"With --execute: write {_PAGE}")]
Sign = Annotated[
    Path | None,
    typer.Option(
        "--sign",
        metavar="KEY.pem",
        help="With --html: sign the page with an Ed25519 private key; mmtool asks for the key's password, or reads it"
        f" from {PASSWORD}.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Page:
    """The destination of a page.

    Attributes:
        path: The file.
        signer: None for a page without a signature.
    """

    path: Path
    signer: Signer | None = None

    def claim(self) -> None:
        """Leave an empty file, before anything is done that the page is about.

        Raises:
            UsageError: The file cannot be written.
        """
        from mmtool.output.documents import claim

        claim(self.path, "--html")

    def write(self, evidence: Evidence) -> MmtoolError | None:
        """Write the page; returns why that failed."""
        from mmtool.evidence.page import write_page

        try:
            write_page(self.path, evidence, self.signer, switches.replaced)
        except CheckFailedError as error:
            return error
        talk(f"evidence page: {self.path}{'' if self.signer is None else ', signed'}")
        return None


def asked_for(html: Path | None, sign: Path | None) -> Page | None:
    """The page that the options ask for; None without ``--html``.

    Raises:
        UsageError: A key cannot be used.
    """
    if html is None:
        return None
    return Page(html, None if sign is None else _signer(sign))


def _signer(path: Path) -> Signer:
    from mmtool.evidence.signature import EncryptedKeyError, load_signer

    password = os.environ.get(PASSWORD)
    if password:
        hide(password)
        return load_signer(path, password)
    try:
        return load_signer(path)
    except EncryptedKeyError as error:
        if not has_terminal():
            raise UsageError(
                error.message,
                remedy=f"without a terminal, mmtool cannot ask for the password; set {PASSWORD}",
            ) from None
    return load_signer(path, _ask(path))


def _ask(path: Path) -> str:
    from getpass import getpass

    from mmtool.plain_text import printable

    try:
        password = getpass(f"password of {printable(str(path))}: ", stream=sys.stderr)
    except EOFError:
        raise UsageError(
            f"--sign {path}: no password was given",
            remedy=f"type the key's password at the prompt, or set {PASSWORD}",
        ) from None
    hide(password)
    return password
