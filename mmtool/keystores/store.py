"""Read a trust or key store from a file, or raise one sentence that says why it cannot be used."""

from __future__ import annotations

import contextlib
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mmtool.errors import UsageError
from mmtool.keystores.certificates import (
    MOST_ITERATIONS,
    TOO_MANY,
    Format,
    certificates_pem,
    chain_of,
    detect_format,
    iterations,
    key_pem,
)
from mmtool.keystores.jvm import DamagedStoreError, KeyPasswordError, StoreJvm, StorePasswordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

_READ = (Format.PEM, Format.JKS, Format.PKCS12)
_LARGEST_BYTES = 64 << 20
_SUPPORTED_TYPES = ("JKS", "PKCS12", "PEM")


class StoreError(Exception):
    """A store cannot be used. The text says why and what to do, and names the file."""


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The path of a store, its type and its passwords.

    Attributes:
        kind: Trust store or key store.
        location: The path, with its placeholders resolved.
        shown: The path as messages show it.
        store_type: ``ssl.KIND.type``; only messages use it.
        password, key_password: Absent when the file sets none.
        scope: The prefix of the client properties' names, as ``A.``.
    """

    kind: Literal["truststore", "keystore"]
    location: str
    shown: str
    store_type: str = ""
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    scope: str = ""

    def key(self, name: str) -> str:
        """The full key of one of the store's properties, as ``A.ssl.keystore.password``."""
        return f"{self.scope}ssl.{self.kind}.{name}"


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's certificate chain and private key, as PEM.

    Attributes:
        is_encrypted: The key may need ``ssl.key.password``: a PEM text is taken as it is.
    """

    chain: str = field(repr=False)
    key: str = field(repr=False)
    is_encrypted: bool


class Fault(Enum):
    """Why a store cannot be used."""

    PASSWORD = auto()
    NO_PASSWORD = auto()
    KEY_PASSWORD = auto()
    DAMAGED = auto()
    ITERATIONS = auto()
    NO_CERTIFICATE = auto()
    NO_KEY = auto()


_jvm: ContextVar[StoreJvm | None] = ContextVar("store_jvm", default=None)
_opened: dict[bytes, str | Identity | Fault] = {}
"""What JKS and PKCS12 stores hold: each is opened once per process and content."""


@contextlib.contextmanager
def one_jvm() -> Iterator[None]:
    """Let all JKS stores that are opened in the ``with`` block share a JVM, started by the first of them."""
    with contextlib.closing(StoreJvm()) as jvm:
        token = _jvm.set(jvm)
        try:
            yield
        finally:
            _jvm.reset(token)


def read_trusted(store: StoreFile) -> str:
    """The trusted certificates of a store, as PEM.

    Raises:
        StoreError: The store cannot be used, or it needs Java and there is none.
    """
    content, store_format = _content(store)
    found = _text(store, content) if store_format is Format.PEM else _found(store, content, store_format)
    assert isinstance(found, str)
    return found


def read_identity(store: StoreFile) -> Identity:
    """The client's certificate chain and private key from a store.

    Raises:
        StoreError: The store cannot be used, or it needs Java and there is none.
    """
    content, store_format = _content(store)
    if store_format is Format.PEM:
        text = _text(store, content)
        return Identity(text, text, is_encrypted=True)
    found = _found(store, content, store_format)
    assert isinstance(found, Identity)
    return found


def _found(store: StoreFile, content: bytes, store_format: Format) -> str | Identity:
    """What a JKS or PKCS12 store holds of its kind."""
    what = (store.kind, content, store.password, store.key_password)
    digest = sha256(repr(what).encode()).digest()
    try:
        if digest not in _opened:
            read = _trusted if store.kind == "truststore" else identity_in
            _opened[digest] = read(store, content, store_format)
    except UsageError as error:
        raise StoreError(
            f"mmtool needs Java to read {store_format.value} store {store.shown}: {error.message}; {error.remedy}"
        ) from error
    found = _opened[digest]
    if isinstance(found, Fault):
        raise StoreError(_sentence(found, store, store_format))
    return found


def _content(store: StoreFile) -> tuple[bytes, Format]:
    path = Path(store.location)
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise StoreError(
                f"{store.shown} has more than {_LARGEST_BYTES >> 20} MiB, so it is not a JKS, PKCS12 or PEM store;"
                " check the path"
            )
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise StoreError(
            f"cannot read {store.shown} ({reason}); check the path, and that this user may read it"
        ) from None
    store_format = detect_format(content)
    if store_format in _READ:
        return content, store_format
    raise StoreError(_not_read(store, store_format))


def _text(store: StoreFile, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise StoreError(
            f"{store.shown} is a PEM file with bytes that are not UTF-8; remove the text between its PEM blocks"
        ) from None


def _not_read(store: StoreFile, store_format: Format) -> str:
    """The sentence that says why a file is not a store that mmtool reads."""
    convert = (
        f"convert it: `keytool -importkeystore -srckeystore {store.shown} -srcstoretype {{}} "
        f"-destkeystore {store.kind}.p12 -deststoretype PKCS12"
    )
    then = f"`, then set {store.key('location')} to {store.kind}.p12 and {store.key('type')} to PKCS12"
    bks = " -providerclass org.bouncycastle.jce.provider.BouncyCastleProvider -providerpath bcprov.jar"
    kept = {
        Format.EMPTY: f"{store.shown} is empty; expected a JKS, PKCS12 or PEM store",
        Format.JCEKS: f"{store.shown} is a JCEKS store, which mmtool does not read; {convert.format('JCEKS')}{then}",
        Format.BKS: f"{store.shown} is a BKS store, which mmtool does not read; {convert.format('BKS')}{bks}{then}",
        Format.DER: f"{store.shown} is a DER file, not a store; "
        f"for a certificate: `openssl x509 -inform DER -in {store.shown} -out {store.kind}.pem`, then set "
        f"{store.key('location')} to {store.kind}.pem and {store.key('type')} to PEM",
    }
    store_type = store.store_type.strip().upper()
    if store_type and store_type not in (*_SUPPORTED_TYPES, "JCEKS", "BKS"):
        return f"{store.shown} is of type {store_type}, which mmtool does not read; {convert.format(store_type)}{then}"
    return kept.get(store_format, f"{store.shown} is not a JKS, PKCS12 or PEM store; check the path")


def _sentence(fault: Fault, store: StoreFile, store_format: Format) -> str:
    name = f"{store_format.value} store {store.shown}"
    password, key_password = store.key("password"), f"{store.scope}ssl.key.password"
    lists = f"`keytool -list -keystore {store.shown}` shows its entries"
    holds = "a certificate" if store.kind == "truststore" else "a private key with its certificate"
    return {
        Fault.PASSWORD: f"wrong password for {name}; correct {password}",
        Fault.NO_PASSWORD: f"{name} needs a password; set {password}",
        Fault.KEY_PASSWORD: f"wrong password for the private key in {name}; "
        f"set {key_password} to the password of the key, or remove {key_password} if the key has the password of the"
        " store",
        Fault.DAMAGED: f"{name} is damaged or uses a cipher that Java does not have; "
        f"if `keytool -list -keystore {store.shown}` reads it, copy it into a new store with `keytool"
        " -importkeystore`, else create the store again",
        Fault.ITERATIONS: f"{name} asks for {TOO_MANY}; create it again from its certificates and keys, with"
        " fewer iterations",
        Fault.NO_CERTIFICATE: f"{name} holds no certificate; {lists}; import {holds} into it",
        Fault.NO_KEY: f"{name} holds no private key; {lists}; import {holds} into it",
    }[fault]


def _trusted(store: StoreFile, content: bytes, store_format: Format) -> str | Fault:
    """The certificates that Java would trust by a JKS or PKCS12 store, as PEM; or why there are none.

    Raises:
        UsageError: The store is JKS or has a private key, and there is no Java.
    """

    def ask_java(jvm: StoreJvm) -> tuple[bytes, str]:
        return jvm.trusted(content, store_format.value, store.password)

    found = _entries(store, content, store_format, ask_java)
    if not isinstance(found, Fault) and found.key is not None and _certificates(found):
        # Java trusts only the first certificate of a key's chain, and `cryptography` does not tell the others apart
        found = _entries(store, content, store_format, ask_java, only_java=True)
    if isinstance(found, Fault):
        return found
    if certificates := _certificates(found):
        return certificates_pem(certificates)
    return _locked(store, store_format) or Fault.NO_CERTIFICATE


def _certificates(found: PKCS12KeyAndCertificates) -> list[Certificate]:
    return [entry.certificate for entry in (found.cert, *found.additional_certs) if entry is not None]


def _locked(store: StoreFile, store_format: Format) -> Fault | None:
    """The reason why a PKCS12 store without its password shows nothing."""
    return Fault.NO_PASSWORD if store.password is None and store_format is Format.PKCS12 else None


def identity_in(store: StoreFile, content: bytes, store_format: Format) -> Identity | Fault:
    """The private key of a JKS or PKCS12 store with its certificate chain; or why there is none.

    Raises:
        UsageError: The store is JKS or its key has a password of its own, and there is no Java.
    """
    key_password = store.key_password or store.password

    def ask_java(jvm: StoreJvm) -> tuple[bytes, str]:
        return jvm.identity(content, store_format.value, store.password, key_password)

    found = _entries(store, content, store_format, ask_java, only_java=key_password != store.password)
    if isinstance(found, Fault):
        return found
    if found.key is None:
        return _locked(store, store_format) or Fault.NO_KEY
    if found.cert is None:
        return Fault.NO_CERTIFICATE
    others = [entry.certificate for entry in found.additional_certs]
    chain = certificates_pem(chain_of(found.cert.certificate, others))
    return Identity(chain, key_pem(found.key), is_encrypted=False)


def _entries(
    store: StoreFile,
    content: bytes,
    store_format: Format,
    ask_java: Callable[[StoreJvm], tuple[bytes, str]],
    *,
    only_java: bool = False,
) -> PKCS12KeyAndCertificates | Fault:
    """The entries of a store; Java reads those that ``cryptography`` does not.

    Those are JKS, keys with passwords of their own, and ciphers that OpenSSL does not have. Java also knows a wrong
    password from damage.
    """
    if store_format is Format.PKCS12 and iterations(content) > MOST_ITERATIONS:
        return Fault.ITERATIONS
    if store_format is Format.PKCS12 and not only_java:
        with contextlib.suppress(ValueError):
            return load_pkcs12_store(content, store.password)
    shared = _jvm.get()
    try:
        with contextlib.nullcontext(shared) if shared else contextlib.closing(StoreJvm()) as jvm:
            return load_pkcs12_store(*ask_java(jvm))
    except StorePasswordError:
        fault = Fault.PASSWORD
    except KeyPasswordError:
        fault = Fault.KEY_PASSWORD
    except (DamagedStoreError, ValueError):
        return Fault.DAMAGED
    except UsageError:
        if only_java or store_format is Format.JKS:
            raise
        fault = Fault.PASSWORD
    return Fault.NO_PASSWORD if store.password is None else fault


def load_pkcs12_store(content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    """The entries of a PKCS12 store; raises ValueError if it is damaged, unsupported, or the password is wrong."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    from cryptography.x509 import InvalidVersion

    try:
        with warnings.catch_warnings(action="ignore"):  # certificates of old authorities break newer rules
            return load_pkcs12(content, None if password is None else password.encode())
    except (UnsupportedAlgorithm, InvalidVersion) as error:
        raise ValueError(str(error)) from None
