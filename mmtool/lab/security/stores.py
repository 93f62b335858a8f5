"""Trust and key stores in the three formats that Kafka's clients read: PEM, PKCS12 and JKS."""

from __future__ import annotations

import os
import subprocess
from enum import StrEnum
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, UsageError
from mmtool.java import java_binary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mmtool.lab.security.certificates import Issued

TRUST_ALIAS, KEY_ALIAS = b"authority", b"client"
_KEYTOOL_SECONDS = 60.0


class StoreFormat(StrEnum):
    """The value of ``ssl.truststore.type`` and ``ssl.keystore.type``."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"

    @property
    def ending(self) -> str:
        """How the names of such files end."""
        return {"PEM": "pem", "PKCS12": "p12", "JKS": "jks"}[self.value]


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; it is complete or not there."""
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.rename(path)


def pem_identity(issued: Issued, authority: Issued) -> bytes:
    """A private key and its certificate chain."""
    return issued.key_pem() + issued.certificate_pem() + authority.certificate_pem()


def pkcs12_identity(issued: Issued, authority: Issued, password: str) -> bytes:
    """A private key and its certificate chain."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

    encryption = BestAvailableEncryption(password.encode())
    return serialize_key_and_certificates(
        KEY_ALIAS, issued.key, issued.certificate, [authority.certificate], encryption
    )


def pkcs12_trust(authority: Issued, password: str) -> bytes:
    """A certificate marked as trusted, as Java asks for."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        serialize_java_truststore,
    )

    trusted = PKCS12Certificate(authority.certificate, TRUST_ALIAS)
    return serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))


def copy_as_jks(store: Path, password_file: Path) -> Path:
    """Copy a PKCS12 store into a JKS store beside it, with the same password.

    Raises:
        UsageError: There is no Java, or it has no ``keytool``.
        MmtoolError: ``keytool`` failed.
    """
    copy = store.with_suffix(f".{StoreFormat.JKS.ending}")
    copy.unlink(missing_ok=True)
    _keytool(
        "-importkeystore",
        *("-srckeystore", str(store), "-srcstoretype", "PKCS12", "-srcstorepass:file", str(password_file)),
        *("-destkeystore", str(copy), "-deststoretype", "JKS", "-deststorepass:file", str(password_file)),
    )
    copy.chmod(0o600)
    return copy


def _keytool(*arguments: str) -> None:
    """Run ``keytool``; passwords are in files, because any user of the host may read arguments."""
    binary = java_binary().resolve().with_name("keytool")
    command: Sequence[str] = (str(binary), "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", *arguments)
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_KEYTOOL_SECONDS, check=False)
    except OSError as error:
        raise UsageError(
            f"{binary} cannot be run: {error.strerror}",
            remedy="install a Java runtime with keytool, which makes the lab's JKS stores",
            code="java",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise MmtoolError(
            f"keytool did not end within {_KEYTOOL_SECONDS:g} s",
            remedy="run the same command again when this host has less to do",
            code="keytool",
        ) from error
    if ran.returncode != 0:
        lines = (ran.stdout + ran.stderr).strip().splitlines()
        raise MmtoolError(
            f"keytool failed: {lines[0] if lines else ran.returncode}",
            remedy="set JAVA_HOME to another Java runtime, then run the same command again",
            code="keytool",
        )
