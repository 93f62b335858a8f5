"""Convert JKS and PKCS12 stores to PEM text; each store is opened once per process and content."""

from __future__ import annotations

import contextlib
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import sha256
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.keystores.certificates import certificates_pem, chain_of, key_pem
from mmtool.keystores.formats import Format
from mmtool.keystores.jvm import DamagedStoreError, KeyPasswordError, StoreJvm, StorePasswordError
from mmtool.keystores.key_derivation import MOST_ITERATIONS, iterations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate


class Fault(Enum):
    """Why a store cannot be used."""

    PASSWORD = auto()
    NO_PASSWORD = auto()
    KEY_PASSWORD = auto()
    DAMAGED = auto()
    ITERATIONS = auto()
    NO_CERTIFICATE = auto()
    NO_KEY = auto()


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and its certificate chain, as PEM."""

    chain: str = field(repr=False)
    key: str = field(repr=False)


_jvm: ContextVar[StoreJvm | None] = ContextVar("store_jvm", default=None)
_opened: dict[bytes, str | KeyPair | Fault] = {}


@contextlib.contextmanager
def one_jvm() -> Iterator[None]:
    """Let all JKS stores that are opened in the ``with`` block share a JVM, started by the first of them."""
    with StoreJvm() as jvm:
        token = _jvm.set(jvm)
        try:
            yield
        finally:
            _jvm.reset(token)


def open_trusted(content: bytes, store_format: Format, password: str | None) -> str | Fault:
    """The certificates that Java would trust by a JKS or PKCS12 store, as PEM; or why there are none.

    Raises:
        UsageError: The store is JKS or has a private key, and there is no Java.
    """
    found = _remembered(
        (b"trusted", content, password), lambda: _open_trusted(content, store_format, password)
    )
    assert not isinstance(found, KeyPair)
    return found


def open_key_pair(
    content: bytes, store_format: Format, password: str | None, key_password: str | None
) -> KeyPair | Fault:
    """The private key of a JKS or PKCS12 store with its certificate chain; or why there is none.

    Raises:
        UsageError: The store is JKS or its key has a password of its own, and there is no Java.
    """
    found = _remembered(
        (b"key pair", content, password, key_password),
        lambda: _open_key_pair(content, store_format, password, key_password or password),
    )
    assert not isinstance(found, str)
    return found


def _remembered(
    what: tuple[bytes | str | None, ...], read: Callable[[], str | KeyPair | Fault]
) -> str | KeyPair | Fault:
    digest = sha256(repr(what).encode()).digest()
    if digest not in _opened:
        _opened[digest] = read()
    return _opened[digest]


def _open_trusted(content: bytes, store_format: Format, password: str | None) -> str | Fault:
    def ask_java(jvm: StoreJvm) -> tuple[bytes, str]:
        return jvm.trusted(content, store_format.value, password)

    found = _entries(content, store_format, password, ask_java)
    if not isinstance(found, Fault) and found.key is not None and _certificates(found):
        # Java trusts only the first certificate of a key's chain, and `cryptography` does not tell the others apart
        found = _entries(content, store_format, password, ask_java, only_java=True)
    if isinstance(found, Fault):
        return found
    if certificates := _certificates(found):
        return certificates_pem(certificates)
    return Fault.NO_PASSWORD if password is None and store_format is Format.PKCS12 else Fault.NO_CERTIFICATE


def _certificates(found: PKCS12KeyAndCertificates) -> list[Certificate]:
    return [entry.certificate for entry in (found.cert, *found.additional_certs) if entry is not None]


def _open_key_pair(
    content: bytes, store_format: Format, password: str | None, key_password: str | None
) -> KeyPair | Fault:
    def ask_java(jvm: StoreJvm) -> tuple[bytes, str]:
        return jvm.identity(content, store_format.value, password, key_password)

    found = _entries(content, store_format, password, ask_java, only_java=key_password != password)
    if isinstance(found, Fault):
        return found
    if found.key is None:
        return Fault.NO_PASSWORD if password is None and store_format is Format.PKCS12 else Fault.NO_KEY
    if found.cert is None:
        return Fault.NO_CERTIFICATE
    others = [entry.certificate for entry in found.additional_certs]
    return KeyPair(certificates_pem(chain_of(found.cert.certificate, others)), key_pem(found.key))


def _entries(
    content: bytes,
    store_format: Format,
    password: str | None,
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
            return load_pkcs12_store(content, password)
    return _java_s_entries(store_format, password, ask_java, only_java=only_java)


def _java_s_entries(
    store_format: Format,
    password: str | None,
    ask_java: Callable[[StoreJvm], tuple[bytes, str]],
    *,
    only_java: bool,
) -> PKCS12KeyAndCertificates | Fault:
    try:
        return load_pkcs12_store(*_asked(ask_java))
    except StorePasswordError:
        return Fault.PASSWORD if password is not None else Fault.NO_PASSWORD
    except KeyPasswordError:
        return Fault.KEY_PASSWORD if password is not None else Fault.NO_PASSWORD
    except (DamagedStoreError, ValueError):
        return Fault.DAMAGED
    except UsageError:
        if only_java or store_format is Format.JKS:
            raise
        return Fault.PASSWORD if password is not None else Fault.NO_PASSWORD


def _asked(ask: Callable[[StoreJvm], tuple[bytes, str]]) -> tuple[bytes, str]:
    jvm = _jvm.get()
    if jvm is not None:
        return ask(jvm)
    with StoreJvm() as own:
        return ask(own)


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
