"""Java's client security becomes what both Python clients take, or is refused with the way out."""

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config.sasl import jaas_text, parse_jaas
from mmtool.errors import ConfigError

CANARY = "canary-5eCr3t"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{PLAIN} required username="u" password="p";', (PLAIN, "u", "p")),
        (f"{SCRAM} required\n  username='u'\n  password=p;", (SCRAM, "u", "p")),
        (f'{PLAIN} required username="u" password="a\\"b\\\\c; =d" ;', (PLAIN, "u", 'a"b\\c; =d')),
        (f'{PLAIN} REQUIRED serviceName="kafka" username="u" password="";', (PLAIN, "u", "")),
        (f"{PLAIN} required;", (PLAIN, None, None)),
    ],
)
def test_a_login_module_tells_user_and_password(text, expected):
    login = parse_jaas(text)
    assert (login.module, login.options.get("username"), login.options.get("password")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        CANARY,
        f'{PLAIN} required password="{CANARY}"',
        f'{PLAIN} required password="{CANARY};',
        f"{PLAIN} required {CANARY};",
    ],
)
def test_a_broken_login_module_is_refused_without_quoting_it(text):
    with pytest.raises(ValueError, match="login module") as caught:
        parse_jaas(text)
    assert CANARY not in str(caught.value)


@given(st.dictionaries(st.sampled_from(["username", "password", "oauth.scope"]), st.text()))
def test_a_login_that_is_written_is_read_the_same(options):
    login = parse_jaas(jaas_text(PLAIN, options))
    assert (login.module, login.options) == (PLAIN, options)


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_jaas_becomes_user_and_password(mechanism, module, load):
    security = (
        load(
            f"security.protocol = sasl_plaintext\nsasl.mechanism = {mechanism}\n"
            f'sasl.jaas.config = {module} required username="u" password="{CANARY}";\n'
        )
        .clusters["A"]
        .security
    )
    assert security.protocol == "SASL_PLAINTEXT"
    assert (security.sasl.mechanism, security.sasl.username) == (mechanism, "u")
    assert security.sasl.password.get_secret_value() == CANARY


def test_user_and_password_beside_jaas_win(load):
    security = (
        load(
            "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\nsasl.username = u\n"
            "sasl.password = p\nsasl.jaas.config = com.example.Vault required;\n"
        )
        .clusters["A"]
        .security
    )
    assert security.sasl.username == "u"


def test_sasl_settings_without_a_sasl_protocol_are_left_alone(load):
    assert load("sasl.jaas.config = nonsense\nsasl.mechanism = GSSAPI\n").clusters["A"].security.sasl is None


def test_pem_stores_are_read_at_once(pem, load):
    (pem / "both.pem").write_text((pem / "key.pem").read_text() + (pem / "cert.pem").read_text())
    security = (
        load(
            "A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.keystore.type = PEM\n"
            f"A.ssl.truststore.location = {pem}/cert.pem\nA.ssl.keystore.location = {pem}/both.pem\n"
            "A.ssl.key.password = changeit\n"
        )
        .clusters["A"]
        .security
    )
    assert security.ca.text.get_secret_value() == (pem / "cert.pem").read_text()
    assert security.certificate.text == security.key.text
    assert security.key_password.get_secret_value() == "changeit"


@pytest.mark.parametrize(("value", "verified"), [("https", True), ("", False), ("none", False)])
def test_an_empty_endpoint_identification_turns_the_check_off(value, verified, load):
    security = load(f"security.protocol = SSL\nssl.endpoint.identification.algorithm = {value}\n").clusters[
        "A"
    ]
    assert security.security.verify_hostname == verified


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/nowhere/ca.pem", "a readable PEM file (No such file or directory)"),
        ("{pem}/none", "-----BEGIN ...-----"),
    ],
)
def test_a_pem_file_that_is_none_is_named(location, message, pem, load):
    (pem / "none").write_text(CANARY)
    with pytest.raises(ConfigError) as caught:
        load(f"A.security.protocol = SSL\nA.ssl.ca.location = {location.format(pem=pem)}\n")
    assert message in caught.value.message
    assert CANARY not in caught.value.message


def test_no_secret_shows_in_any_form_of_the_settings(pem, load):
    key = load_pem_private_key((pem / "key.pem").read_bytes(), b"changeit")
    encryption = BestAvailableEncryption(f"{CANARY}-3".encode())
    (pem / "own.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    settings = load(
        "security.protocol = SASL_SSL\nsasl.mechanism = PLAIN\n"
        f'sasl.jaas.config = {PLAIN} required username="u" password="{CANARY}-1";\n'
        f"A.producer.sasl.username = v\nA.producer.sasl.password = {CANARY}-2\n"
        f"ssl.certificate.location = {pem}/cert.pem\nssl.key.location = {pem}/own.pem\n"
        f"ssl.key.password = {CANARY}-3\n"
        f"A.consumer.interceptor.secret = {CANARY}-4\n"
        f"mmtool.spark.conf.spark.hadoop.fs.s3a.secret.key = {CANARY}-5\n"
        f"A.sasl.pasword = {CANARY}-6\nssl.truststore.password = {CANARY}-7\nunknown = {CANARY}-8\n"
    )
    (flow,) = settings.flows
    shown = "\n".join(
        [
            repr(settings),
            str(settings),
            settings.model_dump_json(),
            repr(flow),
            str(flow),
            f"{flow}",
            *settings.warnings,
        ]
    )
    assert (CANARY in shown, "PRIVATE KEY" in shown) == (False, False)
    assert settings.secrets() == {f"{CANARY}-{number}" for number in (1, 2, 3)}
    assert f"{CANARY}-5" in dict(flow.spark_conf).values()
