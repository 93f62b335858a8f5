"""No secret is quoted in a sentence, and a variable that was not substituted is told of wherever it stands."""

import pytest

from mmtool.errors import ConfigError

SASL = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


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
