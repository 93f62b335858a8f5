"""An evidence page as a file."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, UsageError
from mmtool.evidence.document import canonical
from mmtool.evidence.page import render
from mmtool.evidence.signature import EVIDENCE, SIGNATURE
from mmtool.output.values import iso

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from mmtool.evidence.document import Document, Evidence
    from mmtool.evidence.signature import Signer


def page_bytes(document: Document, signer: Signer | None) -> bytes:
    """The whole page: rendered, with its JSON in it, and the signature of that.

    Args:
        document: As `Evidence.document` made it.
        signer: None for a page without a signature.
    """
    whole = {**document, "signed_with": None if signer is None else signer.fingerprint}
    page = render(whole).encode()
    payload = canonical({**whole, "page_sha256": sha256(page).hexdigest()})
    signature = b"" if signer is None else signer.sign(payload)
    page = page.replace(EVIDENCE, EVIDENCE + payload, 1)
    return page.replace(SIGNATURE, SIGNATURE + signature, 1)


def refuse_unwritable(path: Path) -> None:
    """Leave an empty file, before anything is done that a page is to be written of.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise UsageError(
            f"--html {path}: {error.strerror or error}", remedy="name a file in a folder that can be written"
        ) from error


def write_page(path: Path, evidence: Evidence, signer: Signer | None, secrets: Collection[str]) -> None:
    """Write the page.

    Raises:
        CheckFailedError: The file cannot be written; what the page is about is over.
    """
    page = page_bytes(evidence.document(iso(datetime.now(UTC)), secrets), signer)
    try:
        path.write_bytes(page)
    except OSError as error:
        raise CheckFailedError(
            f"the page cannot be written to {path}: {error.strerror or error}; what it is about is over",
            remedy="make room there; `mmtool failover show --html` writes the page of an operation again",
        ) from error
