"""The lab's certificates, stores and properties, without a broker."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from mmtool.keystores import StoreFile, read_identity, read_trusted
from mmtool.lab.security.certificates import (
    Authority,
    StoreFormat,
    pem_identity,
    pkcs12_identity,
    pkcs12_trust,
    write_private,
)
from mmtool.lab.security.kinds import (
    ADMIN,
    BROKER,
    SECRETS,
    Login,
    SecurityKind,
    client_properties,
    secured_properties,
    without_secrets,
)
from mmtool.lab.security.token_endpoint import Tls, TokenEndpoint, TokenPolicy

PASSWORD = "canary-5eCr3t"  # noqa: S105  of this test alone


@pytest.fixture(scope="module")
def authority():
    return Authority.create()


def login(path, store_format=StoreFormat.PKCS12):
    trusted, identity = path / "trust", path / "key"
    return Login("mm", trusted, identity, store_format, PASSWORD, PASSWORD, "http://127.0.0.1:1/token")


def test_mmtool_opens_the_stores_that_the_lab_writes(authority, tmp_path):
    trust, key = tmp_path / "trust.p12", tmp_path / "key.p12"
    trust.write_bytes(pkcs12_trust(authority.own, PASSWORD))
    key.write_bytes(pkcs12_identity(authority.issue("mm"), authority.own, PASSWORD))
    trusted = read_trusted(StoreFile("truststore", str(trust), "trust", password=PASSWORD))
    identity = read_identity(StoreFile("keystore", str(key), "key", password=PASSWORD))
    assert trusted == authority.own.certificate_pem().decode()
    assert (identity.chain.count("BEGIN CERTIFICATE"), "PRIVATE KEY" in identity.key) == (2, True)


def test_a_certificate_of_the_lab_is_valid_for_a_server_on_this_host(authority, tmp_path):
    """A client that never begins its handshake holds up no other one."""
    pem, trusted = tmp_path / "endpoint.pem", tmp_path / "ca.pem"
    pem.write_bytes(pem_identity(authority.issue("endpoint"), authority.own))
    trusted.write_bytes(authority.own.certificate_pem())
    context = ssl.create_default_context(cafile=trusted)
    with TokenEndpoint(TokenPolicy({}), tls=Tls(pem, pem)) as endpoint:
        place = urlsplit(endpoint.keys_url)
        with (
            socket.create_connection((place.hostname, place.port)),
            urlopen(endpoint.keys_url, timeout=5, context=context) as answer,  # noqa: S310  http, of this test
        ):
            assert answer.status == 200


@pytest.mark.parametrize("kind", SecurityKind, ids=str)
def test_properties_with_placeholders_hold_no_secret(kind, tmp_path):
    whole = client_properties(kind, login(tmp_path))
    shown = without_secrets(whole, tmp_path / "file")
    assert (PASSWORD in str(whole), PASSWORD in str(shown)) == (True, False)
    assert all(shown[key] == f"${{file:{tmp_path}/file:{key}}}" for key in SECRETS if key in whole)


@pytest.mark.parametrize("kind", SecurityKind, ids=str)
def test_no_listener_accepts_an_anonymous_peer(kind):
    """``User:ANONYMOUS`` comes from plain listeners, and from TLS without a client's certificate."""
    found = secured_properties(kind, "ca.pem", "broker.pem")
    protocols = dict(pair.split(":") for pair in found["listener.security.protocol.map"].split(","))
    auth = {name: found[f"listener.name.{name.lower()}.ssl.client.auth"] for name in protocols}
    assert all(protocols[name] == "SASL_SSL" or auth[name] == "required" for name in protocols)
    assert set(protocols.values()) <= {"SSL", "SASL_SSL"}
    assert found["super.users"] == f"User:{ADMIN};User:{BROKER}"
    assert found["allow.everyone.if.no.acl.found"] == "false"


def test_a_private_file_is_private_also_where_an_open_one_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("open")
    path.chmod(0o644)
    write_private(path, b"secret")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"secret", 0o600)


def test_no_secret_is_in_a_representation(authority, tmp_path):
    assert PASSWORD not in repr(login(tmp_path))
    assert "PRIVATE" not in repr(authority)
