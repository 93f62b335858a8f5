"""Sign the JSON of a page, and verify a page with a public key that does not come from the page.

The page embeds its JSON, and the JSON has the SHA-256 of the page around it. So the signature, which is over the JSON
alone, covers every byte of the file except itself: JSON and visible page cannot contradict each other.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.runtime.files import file_errors
from mmtool.translation.connect_offsets import parse_json

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from mmtool.evidence.document import Document

EVIDENCE = b'<script type="application/json" id="evidence">'
SIGNATURE = b'<pre id="signature">'
_EVIDENCE_IN = re.compile(re.escape(EVIDENCE) + rb"([^<]*)</script>")
_SIGNATURE_IN = re.compile(re.escape(SIGNATURE) + rb"([A-Za-z0-9+/=]*)</pre>")

_NEW_KEY = (
    "`openssl genpkey -algorithm ed25519 -out KEY.pem`, then `openssl pkey -in KEY.pem -pubout -out PUB.pem`"
)


_ASK_AGAIN = "do not rely on this page: ask the signer for the original page"
_UNSIGNED = "do not rely on this page: ask for one that was written with --sign"
_OTHER_KEY = f"check that --key is the signer's public key; if it is, {_ASK_AGAIN}"
_NO_PAGE = "name a file that --html wrote; if --html wrote this one, ask the signer for the original page"


class PageError(ValueError):
    """A page that is no valid evidence.

    Attributes:
        remedy: What the reader can do.
    """

    def __init__(self, message: str, remedy: str = _ASK_AGAIN) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, ready to sign."""

    key: Ed25519PrivateKey

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the signer's public key."""
        return fingerprint(self.key.public_key())

    def sign(self, payload: bytes) -> bytes:
        """The detached signature, in base64."""
        return b64encode(self.key.sign(payload))


def fingerprint(key: Ed25519PublicKey) -> str:
    """The SHA-256 of a public key in DER (SubjectPublicKeyInfo), in hexadecimal digits."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def check(page: bytes, key: Ed25519PublicKey) -> Document:
    """Verify that a signature of this key covers every byte of a page, and return the page's document.

    Args:
        page: The file.
        key: The signer's, from a source other than the page.

    Raises:
        PageError: The page is not signed, was signed with another key, or was changed after it was signed.
    """
    from cryptography.exceptions import InvalidSignature

    found, signed = _EVIDENCE_IN.search(page), _SIGNATURE_IN.search(page)
    if found is None or signed is None:
        raise PageError("the file is not an evidence page of mmtool, or it is damaged", _NO_PAGE)
    payload, signature = found[1], signed[1]
    if not signature:
        raise PageError("the page is not signed", _UNSIGNED)
    try:
        key.verify(_decoded(signature), payload)
    except InvalidSignature:
        raise PageError(
            "the page was signed with another key, or its evidence was changed after it was signed",
            _OTHER_KEY,
        ) from None
    try:
        document = parse_json(payload)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise PageError("the page was signed with this key, but its evidence was not written by mmtool")
    # the page without its JSON and its signature, whose digest the JSON has
    bare = _EVIDENCE_IN.sub(EVIDENCE + b"</script>", page, count=1)
    bare = _SIGNATURE_IN.sub(SIGNATURE + b"</pre>", bare, count=1)
    if document.get("page_sha256") != sha256(bare).hexdigest():
        raise PageError("the visible page was changed after it was signed")
    return document


def _decoded(signature: bytes) -> bytes:
    try:
        decoded = b64decode(signature, validate=True)
    except binascii.Error:
        decoded = b""
    if b64encode(decoded) != signature:
        raise PageError("the signature in the page is damaged")
    return decoded


def load_signer(path: Path, password: str | None = None) -> Signer:
    """Load an Ed25519 private key from a PEM file.

    Args:
        path: The file.
        password: The password of an encrypted key; None where none was given.

    Raises:
        EncryptedKeyError: The key is encrypted, and no password was given.
        UsageError: The file cannot be read, the password is wrong, or it holds no Ed25519 private key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _read("--sign", path)
    given = password.encode() if password and b"ENCRYPTED" in content else None
    try:
        key = load_pem_private_key(content, given)
    except TypeError:
        raise EncryptedKeyError(
            f"--sign {path}: the key is encrypted",
            remedy="set MMTOOL_SIGN_PASSWORD to the password of the key, or run the command in a terminal, where"
            " it asks for the password",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        problem, remedy = "no private key in PEM", f"make a key: {_NEW_KEY}"
        if given is not None:
            problem = "wrong password for the private key"
            remedy = (
                "set MMTOOL_SIGN_PASSWORD to the password of the key, or unset it and type the password on a"
                " terminal"
            )
        raise UsageError(f"--sign {path}: {problem}", remedy=remedy) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"--sign {path}: not an Ed25519 key", remedy=f"make a key: {_NEW_KEY}")
    return Signer(key)


class EncryptedKeyError(UsageError):
    """The key is encrypted, and no password was given."""


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Load an Ed25519 public key from a PEM file.

    Raises:
        UsageError: The file cannot be read, or holds no Ed25519 public key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    remedy = (
        "ask the signer for the public key; the signer writes it from the private key KEY.pem: `openssl pkey -in"
        " KEY.pem -pubout -out PUB.pem`"
    )
    content = _read("--key", path)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(f"--key {path}: no public key in PEM", remedy=remedy) from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"--key {path}: not an Ed25519 key", remedy=remedy)
    return key


def _read(option: str, path: Path) -> bytes:
    with file_errors(f"{option} {path}", "name a PEM file that can be read", near=path):
        return path.read_bytes()
