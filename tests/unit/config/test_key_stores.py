"""Trust and key stores named in the properties file, as far as they need no Java: PKCS12 and PEM."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from mmtool.errors import ConfigError
from mmtool.kafka.clients import wire_options

CANARY = "canary-5eCr3t"
NOW = datetime.now(UTC)


def issue(name, starts=-2, ends=2, issuer=None):
    """A key and its certificate, self-signed or of an (issuer's name, key); valid so many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer_name, issuer_key = issuer or (subject, key)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=starts))
        .not_valid_after(NOW + timedelta(days=ends))
        .sign(issuer_key, SHA256())
    )
    return key, certificate


def pem_of(*things):
    return b"".join(
        thing.public_bytes(Encoding.PEM)
        if isinstance(thing, x509.Certificate)
        else thing.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for thing in things
    ).decode()


@pytest.fixture
def store(tmp_path):
    """Write a PKCS12 store with the password ``changeit``; the path."""

    def write(name, key=None, certificate=None, trusted=None, password=b"changeit"):
        encryption = BestAvailableEncryption(password) if password else NoEncryption()
        path = tmp_path / name
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"x", key, certificate, trusted, encryption))
        return path

    return write


def trusting(path, more="A.ssl.truststore.password = changeit\n"):
    return f"A.security.protocol = SSL\nA.ssl.truststore.location = {path}\n{more}"


def owning(path, more="A.ssl.keystore.password = changeit\n"):
    return f"A.security.protocol = SSL\nA.ssl.keystore.location = {path}\n{more}"


def refusal(load, text):
    with pytest.raises(ConfigError) as caught:
        load(text)
    (line,) = caught.value.message.splitlines()
    assert CANARY not in line
    return line


def test_pkcs12_stores_become_the_pem_that_both_clients_take(store, load):
    key, certificate = issue("client")
    _, authority = issue("authority")
    security = (
        load(
            trusting(store("trust.p12", trusted=[authority]))
            + owning(store("client.pfx", key, certificate))
            + "A.ssl.key.password = changeit\n"
        )
        .clusters["A"]
        .security
    )
    texts = [pem.text.get_secret_value() for pem in (security.ca, security.certificate, security.key)]
    assert texts == [pem_of(authority), pem_of(certificate), pem_of(key)]
    assert (security.key_password, security.key.origin) == (None, security.certificate.origin)


def test_a_pem_trust_store_stands_beside_a_pfx_key_store_without_a_type(store, load, tmp_path):
    key, certificate = issue("client")
    (tmp_path / "ca.crt").write_text(pem_of(certificate))
    security = (
        load(
            trusting(tmp_path / "ca.crt", "A.ssl.truststore.type=PEM\n")
            + owning(store("principal.pfx", key, certificate))
        )
        .clusters["A"]
        .security
    )
    assert security.ca.text == security.certificate.text


def test_stores_without_tls_are_not_read_as_in_java(load):
    text = "A.ssl.truststore.location = /nowhere/ca.jks\nA.ssl.keystore.location = /nowhere/key.jks\n"
    assert load(text).clusters["A"].security.ca is None


def test_only_the_chain_of_the_key_is_sent(store, load):
    key, certificate = issue("client")
    _, stranger = issue("stranger")
    security = load(owning(store("client.p12", key, certificate, [stranger]))).clusters["A"].security
    assert security.certificate.text.get_secret_value() == pem_of(certificate)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            f"A.ssl.truststore.password = {CANARY}\n",
            "wrong password for PKCS12 store {}; correct {}.password",
        ),
        ("", "PKCS12 store {} needs a password; set {}.password"),
    ],
)
def test_a_password_that_does_not_open_a_store_is_said(lines, sentence, store, load):
    path = store("trust.p12", trusted=[issue("authority")[1]])
    line = refusal(load, trusting(path, lines))
    assert line.endswith(f"A.ssl.truststore.location: {sentence.format(path, 'A.ssl.truststore')}")


def test_a_store_without_the_needed_entry_is_said(store, load):
    key, certificate = issue("client")
    only_trust = store("trust.p12", trusted=[certificate])
    assert f"PKCS12 store {only_trust} holds no private key; " in refusal(load, owning(only_trust))
    only_key = store("key.p12", key=key)
    assert f"PKCS12 store {only_key} holds no certificate; " in refusal(load, trusting(only_key))


def test_a_key_with_another_password_than_its_pkcs12_store_needs_java(store, load, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    path = store("client.p12", *issue("client"))
    more = f"A.ssl.keystore.password = changeit\nA.ssl.key.password = {CANARY}\n"
    line = refusal(load, owning(path, more))
    assert (
        f"mmtool needs Java to read PKCS12 store {path}: JAVA_HOME={tmp_path} has no executable bin/java; "
        in line
    )
    assert "wrong password" not in line


def test_a_key_store_used_as_trust_store_needs_java(store, load, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    path = store("client.p12", *issue("client"))
    assert f"mmtool needs Java to read PKCS12 store {path}: " in refusal(load, trusting(path))


def test_a_pem_store_without_the_needed_entry_is_said(load, tmp_path):
    key, certificate = issue("client")
    path = tmp_path / "store.pem"
    path.write_text(pem_of(certificate))
    assert refusal(load, owning(path)).endswith(f"{path} holds no private key; add it")
    path.write_text(pem_of(key))
    assert f"{path} holds no certificate; " in refusal(load, trusting(path))


@pytest.mark.parametrize(
    ("lines", "problem", "key"),
    [
        ("", "no password for", "A.ssl.certificate.location"),
        (f"A.ssl.key.password = {CANARY}\n", "wrong password for", "`A.ssl.key.password`"),
    ],
)
def test_a_pem_key_that_its_password_does_not_open_is_said(lines, problem, key, pem, load):
    text = f"A.security.protocol = SSL\nA.ssl.certificate.location = {pem}/cert.pem\n"
    line = refusal(load, f"{text}A.ssl.key.location = {pem}/key.pem\n{lines}")
    assert f"{key}: {problem} the private key in {pem}/key.pem; set A.ssl.key.password" in line


def test_a_certificate_file_without_a_key_may_have_it_in_another_file(pem, load):
    line = refusal(load, f"A.security.protocol = SSL\nA.ssl.certificate.location = {pem}/cert.pem\n")
    assert line.endswith(
        f"{pem}/cert.pem holds no private key; add it, or name its file in A.ssl.key.location"
    )


def test_a_cluster_whose_client_certificate_has_expired_does_not_stop_an_emergency_failover(store, load):
    late, good = (store(f"{name}.p12", *issue(name, -9, ends)) for name, ends in (("late", -1), ("good", 9)))
    settings = load(owning(late) + owning(good).replace("A.", "B."))
    (flow,) = settings.select("A", "B")
    wire_options(flow.source)
    wire_options(flow.target)
    (warning,) = settings.warnings
    assert "A.ssl.keystore.location" in warning


@pytest.mark.parametrize(("ends", "code"), [(-1, 2), (9, 0)])
def test_a_client_certificate_that_has_expired_is_an_error_to_config_check(
    ends, code, store, mmtool, tmp_path
):
    path = tmp_path / "mm2.properties"
    head = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    path.write_text(head + owning(store("own.p12", *issue("own", -9, ends))))
    ended = mmtool("config", "check", "-c", path, "-o", "json")
    errors = [row["key"] for row in ended.rows if row["severity"] == "error"]
    assert (ended.code, errors) == (code, ["A.ssl.keystore.location"] if code else [])


CHECK_CLOCKS = (
    "check the clocks of this host and of the brokers; if they are right, issue the certificate again"
)


@pytest.mark.parametrize("is_pem", [True, False], ids=["pem", "pkcs12"])
@pytest.mark.parametrize(
    ("starts", "ends", "problem"),
    [(-9, -1, "expired on {end}"), (1, 9, "is not valid before {start}")],
)
def test_a_certificate_out_of_its_time_is_a_warning_with_file_subject_and_date(
    is_pem, starts, ends, problem, store, load, tmp_path
):
    key, certificate = issue("late", starts, ends)
    own, trust = tmp_path / "own", tmp_path / "trust"
    if is_pem:
        own.write_text(pem_of(key, certificate))
        trust.write_text(pem_of(certificate))
    else:
        store("own", key, certificate)
        store("trust", trusted=[certificate])
    dates = {
        "start": f"{certificate.not_valid_before_utc:%Y-%m-%d}",
        "end": f"{certificate.not_valid_after_utc:%Y-%m-%d}",
    }
    said = f"certificate CN=late {problem.format(**dates)}"
    (line,) = load(owning(own)).warnings
    assert f"A.ssl.keystore.location: in {own}, {said}" in line
    remedy = "renew the certificate" if "expired" in problem else CHECK_CLOCKS
    assert line.endswith(f"; brokers refuse the connection: {remedy}")
    (line,) = load(trusting(trust)).warnings
    assert f"A.ssl.truststore.location: in {trust}, {said}" in line
    remedy = "import the CA's current certificate" if "expired" in problem else CHECK_CLOCKS
    assert line.endswith(f"; OpenSSL, unlike Java, does not trust it: {remedy}")


def test_a_trust_store_without_a_root_is_a_warning_for_openssl_needs_one(store, load):
    key, root = issue("root")
    middle_key, middle = issue("middle", issuer=(root.subject, key))
    _, leaf = issue("leaf", issuer=(middle.subject, middle_key))
    (warning,) = load(trusting(store("middle.p12", trusted=[middle]))).warnings
    assert warning.endswith("needs: add the certificate of CN=root")
    (chain,) = load(trusting(store("chain.p12", trusted=[leaf, middle]))).warnings
    assert chain.endswith("needs: add the certificate of CN=root")
    assert load(trusting(store("both.p12", trusted=[middle, root]))).warnings == ()


def test_an_executor_needs_no_copy_of_a_store(store, load):
    key, certificate = issue("client")
    own, trust = store("client.p12", key, certificate), store("trust.p12", trusted=[certificate])
    settings = load(owning(own) + trusting(trust))
    sent = pickle.dumps(settings.clusters["A"])
    own.unlink()
    trust.unlink()
    context = wire_options(pickle.loads(sent))["ssl_context"]  # noqa: S301  our own bytes
    assert context.cert_store_stats()["x509"] == 1
