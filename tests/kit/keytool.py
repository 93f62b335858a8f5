"""Key stores as people make them: Java's ``keytool``, and an authority of one's own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.java import java_binary

if TYPE_CHECKING:
    from pathlib import Path

STORE_PASSWORD = "changeit"  # noqa: S105  the one that Java's own examples have
_ALIAS = "own"


@dataclass(frozen=True)
class Keytool:
    """``keytool`` in a folder. Every store opens with `STORE_PASSWORD`; a key has the alias ``own``."""

    folder: Path

    def run(self, *arguments: object) -> str:
        """What it prints.

        Raises:
            AssertionError: It fails.
        """
        command = [str(java_binary().with_name("keytool")), "-J-XX:TieredStopAtLevel=1", *map(str, arguments)]
        ran = subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def key(self, name: str, store_type: str = "JKS", *extra: str) -> Path:
        """A store with a key pair and a self-signed certificate for ``CN=<name>``."""
        path = self.folder / name
        self.run(
            *("-genkeypair", *self._opened(path), "-storetype", store_type, "-alias", _ALIAS),
            *("-dname", f"CN={name}", "-keyalg", "EC", "-validity", "3", *extra),
        )
        return path

    def trust(self, name: str, certificate: Path, store_type: str = "JKS", *extra: str) -> Path:
        """A store that trusts a certificate; or one more in a store that is there."""
        path = self.folder / name
        self.run(
            *("-importcert", "-noprompt", *self._opened(path), "-storetype", store_type),
            *("-alias", "trusted", "-file", certificate, *extra),
        )
        return path

    def certificate(self, store: Path) -> Path:
        """The certificate of a store's key, as a PEM file beside it."""
        path = store.with_name(f"{store.name}.pem")
        path.write_text(self.run("-exportcert", "-rfc", *self._opened(store), "-alias", _ALIAS))
        return path

    def issue(self, store: Path, issuer: Path, *extra: str, chain: str = "") -> str:
        """Have the key of a store certified by another one's; the PEM chain, which the store has from now on.

        Args:
            store: Whose key it is.
            issuer: The store of the authority.
            extra: Extensions, as ``-ext san=ip:127.0.0.1``.
            chain: The authority's own chain; without it, its certificate.
        """
        request, reply = store.with_name("request"), store.with_name("reply")
        request.write_text(self.run("-certreq", *self._opened(store), "-alias", _ALIAS))
        issued = self.run(
            *("-gencert", "-rfc", *self._opened(issuer), "-alias", _ALIAS, "-infile", request),
            *("-validity", "2", *extra),
        )
        chain = issued + (chain or self.certificate(issuer).read_text())
        reply.write_text(chain)
        # an unknown root is asked about, and not taken with -noprompt alone: the chain ends in a trusted one
        self.run("-importcert", "-noprompt", *self._opened(store), "-alias", _ALIAS, "-file", reply)
        return chain

    @staticmethod
    def _opened(store: Path) -> tuple[object, ...]:
        return ("-keystore", store, "-storepass", STORE_PASSWORD)
