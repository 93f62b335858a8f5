"""``mmtool evidence``: check a page that was written with ``--html`` and ``--sign``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypedDict

import typer

from mmtool.commands import _options as options
from mmtool.errors import DifferencesError
from mmtool.output import Column, OutputFormat, Result, finish

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


class SignatureRow(TypedDict):
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
    verdict: Literal["valid", "invalid"]
    title: str | None
    says: str | None
    generated_at: str | None
    reason: str


@app.callback()
def _group() -> None:
    """A group, also while it has one verb."""


@app.command()
def verify(file: File, *, key: Key, output: options.Output = OutputFormat.TABLE) -> None:
    """Check an evidence page's signature: exit 0 if valid, 8 if the page was changed or signed with another key."""
    from mmtool.evidence.signature import PageError, check, fingerprint, load_public_key
    from mmtool.runtime.files import file_errors

    public = load_public_key(key)
    row: SignatureRow = {
        "file": str(file),
        "key_sha256": fingerprint(public),
        "verdict": "invalid",
        "title": None,
        "says": None,
        "generated_at": None,
        "reason": "",
    }
    with file_errors(str(file), "name a readable evidence page that --html wrote", near=file):
        page = file.read_bytes()
    failure = None
    try:
        document = check(page, public)
    except PageError as error:
        row["reason"] = str(error)
        failure = DifferencesError(f"{file}: {error}", remedy=error.remedy, code="not_authentic")
    else:
        row["verdict"] = "valid"
        row["title"] = document["title"]
        row["says"] = document["verdict"]["word"]
        row["generated_at"] = document["generated_at"]
    finish(Result("evidence verify", [row], _COLUMNS), output, failure)
