"""``mmtool evidence``: check a page that was written with ``--html`` and ``--sign``, the options defined here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from mmtool.commands import _options as options
from mmtool.commands._dialogue import has_terminal
from mmtool.errors import CheckFailedError, DifferencesError, UsageError
from mmtool.output import Column, OutputFormat, Result, finish, hide, talk
from mmtool.output.console import switches

if TYPE_CHECKING:
    from mmtool.errors import MmtoolError
    from mmtool.evidence.document import Evidence
    from mmtool.evidence.signature import Signer


PASSWORD = "MMTOOL_SIGN_PASSWORD"  # noqa: S105 - the variable's name

_PAGE = "an evidence page for auditors: one HTML file."


def _html_option(help_: str) -> Any:
    return typer.Option("--html", metavar="FILE", help=help_)


HtmlFile = Annotated[Path | None, _html_option(f"Write {_PAGE}")]
DrillHtmlFile = Annotated[Path | None, _html_option(f"With --execute: write {_PAGE}")]
Sign = Annotated[
    Path | None,
    typer.Option(
        "--sign",
        metavar="KEY.pem",
        help="With --html: sign the page with an Ed25519 private key; mmtool asks for the key's password, or reads it"
        f" from {PASSWORD}.",
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
        from mmtool.runtime.files import write_named

        write_named("--html", self.path, b"")

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


app = typer.Typer(no_args_is_help=True)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="Signed evidence page of a failover, drill or verify.")
]
Key = Annotated[
    Path,
    typer.Option(
        "--key",
        metavar="PUB.pem",
        help="The signer's Ed25519 public key; get it from the signer, not from the page.",
    ),
]
_COLUMNS = (
    Column("file"),
    Column("verdict"),
    Column("title"),
    Column("says"),
    Column("generated_at"),
    Column("key_sha256", essential=False),
    Column("reason"),
)


class SignatureRow(NamedTuple):
    """The page in `mmtool evidence verify`.

    Attributes:
        file: The page.
        key_sha256: The SHA-256 of the public key.
        verdict: Whether the signature is the key's, over just this content.
        title: Of the page; null for an invalid one.
        says: The page's own verdict; null for an invalid one.
        generated_at: When the page was written; null for an invalid one.
        reason: Why it is invalid; empty for a valid one.
    """

    file: str
    key_sha256: str
    verdict: Literal["valid", "invalid"] = "invalid"
    title: str | None = None
    says: str | None = None
    generated_at: str | None = None
    reason: str = ""


@app.callback()
def _group() -> None:
    """A group, also while it has one verb."""


@app.command()
def verify(file: File, *, key: Key, output: options.Output = OutputFormat.TABLE) -> None:
    """Check an evidence page's signature: exit 0 if valid, 8 if the page was changed or signed with another key."""
    from mmtool.evidence.signature import PageError, check, fingerprint, load_public_key
    from mmtool.runtime.files import file_errors

    public = load_public_key(key)
    row = SignatureRow(str(file), fingerprint(public))
    with file_errors(str(file), "name a readable evidence page that --html wrote", near=file):
        page = file.read_bytes()
    failure = None
    try:
        document = check(page, public)
    except PageError as error:
        row = row._replace(reason=str(error))
        failure = DifferencesError(f"{file}: {error}", remedy=error.remedy, code="not_authentic")
    else:
        says, at = document["verdict"]["word"], document["generated_at"]
        row = row._replace(verdict="valid", title=document["title"], says=says, generated_at=at)
    finish(Result("evidence verify", [row._asdict()], _COLUMNS), output, failure)
