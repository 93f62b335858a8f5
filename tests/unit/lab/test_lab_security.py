"""The lab's certificates, stores and properties, without a broker."""

import json
import ssl

import pytest

from mmtool.keystores import StoreFile, read_identity, read_trusted
from mmtool.lab.security.certificates import (
    Authority,
    pem_identity,
    pkcs12_identity,
    pkcs12_trust,
    write_private,
)
from mmtool.lab.security.kinds import ADMIN, BROKER, MMTOOL, USERS, SecurityKind
from mmtool.lab.security.setup import SECRETS, Security

PASSWORD = "canary-5eCr3t"  # noqa: S105  of this test alone


@pytest.fixture(scope="module")
def authority():
    return Authority.create()


@pytest.fixture(params=SecurityKind, ids=str)
def security(request, tmp_path):
    """The files of a lab that was started before; none of its stores is read."""
    stored = {"kind": request.param, "passwords": dict.fromkeys(USERS, PASSWORD), "store_password": PASSWORD}
    (tmp_path / "credentials.json").write_text(json.dumps(stored))
    with Security(request.param, tmp_path) as started:
        yield started


def test_mmtool_opens_the_stores_that_the_lab_writes(authority, tmp_path):
    trust, key = tmp_path / "trust.p12", tmp_path / "key.p12"
    trust.write_bytes(pkcs12_trust(authority, PASSWORD))
    key.write_bytes(pkcs12_identity(authority.issue("mm"), authority, PASSWORD))
    trusted = read_trusted(StoreFile("truststore", str(trust), "trust", password=PASSWORD))
    identity = read_identity(StoreFile("keystore", str(key), "key", password=PASSWORD))
    assert trusted == authority.certificate_pem().decode()
    assert (identity.chain.count("BEGIN CERTIFICATE"), "PRIVATE KEY" in identity.key) == (2, True)


def test_a_certificate_of_the_lab_is_valid_for_a_server_on_this_host(authority, tmp_path):
    file = tmp_path / "server.pem"
    file.write_bytes(pem_identity(authority.issue("server"), authority))
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(file)
    of_client = ssl.create_default_context(cadata=authority.certificate_pem().decode())
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = of_server.wrap_bio(to_server, to_client, server_side=True)
    client = of_client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.version() == "TLSv1.3"


def test_properties_with_placeholders_hold_no_secret(security):
    whole, shown = security.client_properties(MMTOOL), security.placeholders(MMTOOL)
    assert (PASSWORD in str(whole), PASSWORD in str(shown)) == (True, False)
    file = security.client_file(MMTOOL)
    assert all(shown[key] == f"${{file:{file}:{key}}}" for key in SECRETS if key in whole)
    assert (PASSWORD in file.read_text(), file.stat().st_mode & 0o777) == (True, 0o600)


def test_no_listener_accepts_an_anonymous_peer(security):
    """``User:ANONYMOUS`` comes from plain listeners, and from TLS without a client's certificate."""
    found = security.broker_properties()
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


def test_no_secret_is_in_a_representation(authority, security):
    assert PASSWORD not in repr(security.credentials)
    assert "PRIVATE" not in repr(authority)
