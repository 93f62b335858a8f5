"""Write an evidence page to a file."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from mmtool.evidence.document import Kind, canonical
from mmtool.evidence.page import render
from mmtool.evidence.signature import EVIDENCE, SIGNATURE
from mmtool.output.output_file import write_claimed
from mmtool.output.values import iso

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mmtool.evidence.document import Document, Evidence
    from mmtool.evidence.signature import Signer


def page_bytes(document: Document, signer: Signer | None) -> bytes:
    """The whole page: rendered, with the JSON of its evidence, and that JSON's signature.

    Args:
        document: The result of `Evidence.document`.
        signer: None for a page without a signature.
    """
    whole = {**document, "signed_with": None if signer is None else signer.fingerprint}
    page = render(whole).encode()
    payload = canonical({**whole, "page_sha256": sha256(page).hexdigest()})
    signature = b"" if signer is None else signer.sign(payload)
    page = page.replace(EVIDENCE, EVIDENCE + payload, 1)
    return page.replace(SIGNATURE, SIGNATURE + signature, 1)


def write_page(path: Path, evidence: Evidence, signer: Signer | None, replaced: Mapping[str, str]) -> None:
    """Write an evidence page to a file, signed where a signer is given.

    Raises:
        CheckFailedError: The file cannot be written; the operation or comparison itself has ended.
    """
    page = page_bytes(evidence.document(iso(datetime.now(UTC)), replaced), signer)
    write_claimed(
        path, page, "the evidence page", over=_OVER[evidence.kind], remedy=_remedy(path, evidence, signer)
    )


_OVER = {
    Kind.VERIFY: "the comparison itself",
    Kind.OPERATION: "the operation itself",
    Kind.DRILL: "the drill itself",
}


def _remedy(path: Path, evidence: Evidence, signer: Signer | None) -> str:
    writable = f"check that {path} can be written and that its disk has free space, then"
    if evidence.kind is Kind.VERIFY:
        return f"{writable} run `mmtool verify` again"
    found = next(fact.value for fact in evidence.summary if fact.key == "operation_id")
    sign = "" if signer is None else " --sign KEY.pem"
    return f"{writable} write the page again: `mmtool failover show {found} -c FILE --html {path}{sign}`"
