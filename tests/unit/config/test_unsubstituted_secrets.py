"""No secret is quoted in a sentence, and a variable that was not substituted is told of wherever it stands."""

import pytest

from mmtool.errors import ConfigError

SASL = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    "line",
    [
        "B.sasl.oauthbearer.client.credentials.client.secret = $canary",
        "A.my.access.token = $canary",
        "A.my.api.key = $canary99",
        "my.api.key = <canary>",
        "A.my.api.key = $canary, b",
    ],
)
def test_the_value_of_a_secret_or_unknown_key_is_not_quoted(load, line):
    warnings = load(f"{line}\n").warnings
    assert any(line.partition(" =")[0] in warning for warning in warnings)
    assert "canary" not in "".join(warnings)


def test_an_unknown_key_is_said_to_hold_text_that_was_not_substituted(load):
    (warning,) = load("A.my.api.key = $ecret99\n").warnings
    assert warning.endswith(
        "A.my.api.key: contains text that was not substituted; `${env:NAME}` reads the environment"
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("ssl.key.location", "move the text to A.ssl.keystore.key"),
        (
            "ssl.keystore.location",
            "move the private key to A.ssl.keystore.key, and the certificates to A.ssl.keystore.certificate.chain",
        ),
        ("ssl.truststore.location", "move the text to A.ssl.truststore.certificates"),
        ("ssl.ca.location", "move the text to A.ssl.truststore.certificates"),
        ("ssl.certificate.location", "move the text to A.ssl.keystore.certificate.chain"),
    ],
)
@pytest.mark.parametrize("value", ["-----BEGIN PRIVATE KEY----- canary", "${env:PEM}"])
def test_pem_text_in_place_of_a_path_is_refused_without_quoting_it(load, name, remedy, value):
    with pytest.raises(ConfigError) as refused:
        load(
            f"A.security.protocol = SSL\nA.{name} = {value}\n",
            environ={"PEM": "-----BEGIN PRIVATE KEY----- canary"},
        )
    (line,) = refused.value.message.splitlines()
    assert line.endswith(f"A.{name}: contains PEM text, expected a path: {remedy}")
    assert "canary" not in line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("A.bootstrap.servers = <your-host>:9092", "not substituted: `<your-host>`"),
        (
            f'{SASL}A.sasl.jaas.config = {PLAIN} username="u" password="${{PASSWORD}}";',
            "not substituted: `${PASSWORD}`",
        ),
    ],
)
def test_a_placeholder_for_the_aliases_turns_no_refusal_off(load, line, said):
    head = "clusters = ${env:C}\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    with pytest.raises(ConfigError, match=r"not substituted") as refused:
        load(f"{line}\n", head=head, environ={"C": "A, B"})
    assert said in refused.value.message


@pytest.mark.parametrize(
    "text", ["$canary", "%canary%", "@canary@", "@canary.password@", "$(cat canary)", "`cat canary`"]
)
@pytest.mark.parametrize("option", ["username", "password"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_an_option_of_a_login_that_reads_as_a_variable_loads_with_a_warning(load, option, text, quote):
    options = {"username": '"u"', "password": '"p"'} | {option: f"{quote}{text}{quote}"}
    written = " ".join(f"{name}={word}" for name, word in options.items())
    settings = load(f"{SASL}A.sasl.jaas.config = {PLAIN} {written};\n")
    (warning,) = settings.warnings
    assert f"A.sasl.jaas.config: the value of {option} may be a variable that was not substituted" in warning
    assert "canary" not in warning
    sasl = settings.clusters["A"].security.sasl
    assert text in {sasl.username, sasl.password.get_secret_value()}


@pytest.mark.parametrize("text", ["%canary%", "@canary@", "$(cat canary)"])
def test_a_whole_password_that_reads_as_a_variable_loads_with_a_warning(load, text):
    (warning,) = load(f"{SASL}A.sasl.username = u\nA.sasl.password = {text}\n").warnings
    assert "`A.sasl.password`: " in warning
    assert "is used unchanged" in warning
    assert "canary" not in warning


def test_the_user_name_of_event_hubs_is_no_variable(load):
    jaas = f'{PLAIN} username="$ConnectionString" password="pa$word%x%y";'
    assert load(f"{SASL}A.sasl.jaas.config = {jaas}\n").warnings == ()


@pytest.mark.parametrize("jaas", ["canary", f"{PLAIN} canary;"])
def test_a_login_module_that_cannot_be_read_is_refused_with_one_semicolon(load, jaas):
    with pytest.raises(ConfigError) as refused:
        load(f"{SASL}A.sasl.jaas.config = {jaas}\n")
    message = refused.value.message
    assert ";;" not in message
    assert "; or write the user name to A.sasl.username, and" in message
    assert "canary" not in message
