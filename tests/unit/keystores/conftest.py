"""Stores as Java's keytool makes them; an authority and certificates that it issued."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Keytool:
    """``keytool`` in a folder; every store opens with ``changeit``."""

    folder: Path

    def run(self, *arguments):
        ran = subprocess.run(
            ["keytool", "-J-XX:TieredStopAtLevel=1", *map(str, arguments)],
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def key(self, name, store_type="JKS", *extra):
        """A store with a key pair of its own, as ``CN=<name>``."""
        path = self.folder / name
        self.run(
            *("-genkeypair", "-keystore", path, "-storetype", store_type, "-storepass", "changeit"),
            *("-alias", "client", "-dname", f"CN={name}", "-keyalg", "EC", "-validity", "3", *extra),
        )
        return path

    def trust(self, name, certificate, store_type="JKS", *extra):
        """A store that trusts one certificate."""
        path = self.folder / name
        self.run(
            *("-importcert", "-noprompt", "-keystore", path, "-storetype", store_type),
            *("-storepass", "changeit", "-alias", "ca", "-file", certificate, *extra),
        )
        return path

    def certificate(self, store):
        path = self.folder / f"{Path(store).name}.pem"
        path.write_text(
            self.run("-exportcert", "-rfc", "-keystore", store, "-storepass", "changeit", "-alias", "client")
        )
        return path


@pytest.fixture(scope="session")
def keytool(tmp_path_factory):
    return Keytool(tmp_path_factory.mktemp("keytool"))


@pytest.fixture(scope="session")
def jks_key(keytool):
    """A JKS key store whose key has the password ``other-pass``."""
    return keytool.key("client.jks", "JKS", "-keypass", "other-pass")


@pytest.fixture(scope="session")
def certificate(keytool, jks_key):
    """Its certificate, as PEM."""
    return keytool.certificate(jks_key)
