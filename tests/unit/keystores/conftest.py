"""Stores as Java's keytool makes them."""

import pytest

from kit.keytool import Keytool


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
