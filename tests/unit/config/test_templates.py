"""Text that a script was to replace is refused before it reaches a broker; a ``$`` in a password is none."""

import pytest

from mmtool.config.placeholders import unsubstituted
from mmtool.output.redaction import redacted

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A.ssl.keystore.password", "$principal-password"),
        ("A.sasl.password", "pa$$word"),
        ("A.sasl.password", "a<b>c"),
        ("A.sasl.jaas.config", f'{PLAIN} username="$ConnectionString" password="a$b<c>d";'),
        ("A->B.topics", r"a|b$, (?<name>x), [$]x, .*$"),
        ("mmtool.topic.rename.format", "dr-${topic}"),
        ("A->B.mmtool.topic.rename.format", "${source}-${topic}"),
        ("mmtool.spark.conf.spark.eventLog.dir", "${spark.local.dir}/log"),
        ("A.sasl.password", "${env:PASSWORD}"),
        ("A.bootstrap.servers", "${file:/etc/a:servers}"),
        ("A.bootstrap.servers", "${vault:secret/kafka:-servers}"),
        ("A.bootstrap.servers", "[fe80::1%eth0]:9092"),
    ],
)
def test_text_that_may_stand_as_it_is_is_left_alone(key, value):
    assert unsubstituted(key, value) == ""


def test_a_sentence_about_a_password_is_shown_whole(load):
    (warning,) = load(
        "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.username = u\n"
        "A.sasl.password = $principal-password\n"
    ).warnings
    assert redacted(warning) == warning


def test_what_a_placeholder_stands_for_may_hold_anything(load):
    settings = load(
        "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.username = u\n"
        "A.sasl.password = ${env:PASSWORD}\n",
        environ={"PASSWORD": "${NAME}<x>"},
    )
    assert settings.clusters["A"].security.sasl.password.get_secret_value() == "${NAME}<x>"
    assert settings.warnings == ()


def test_an_alias_that_was_not_replaced_is_refused():
    assert "`${SOURCE}`" in unsubstituted("clusters", "${SOURCE}, B")
