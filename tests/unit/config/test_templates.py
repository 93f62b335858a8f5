"""Text that a script was to replace is refused before it reaches a broker; a ``$`` in a password is none."""

import pytest

from mmtool.config.placeholders import unsubstituted
from mmtool.errors import ConfigError
from mmtool.output.redaction import redacted

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("key", "value", "variable"),
    [
        ("A.bootstrap.servers", "cell-1.${SOURCE_REGION}.example:9092", "SOURCE_REGION"),
        ("A.bootstrap.servers", "$HOST:9092", "HOST"),
        ("A.bootstrap.servers", "a:1, b-$ZONE.example:9092", "ZONE"),
        ("A.bootstrap.servers", "<your-host>:9092", "your_host"),
        ("A.bootstrap.servers", "${HOST:-localhost}:${PORT}", "HOST"),
        ("A.bootstrap.servers", "%HOST%:9092", "HOST"),
        ("A.sasl.password", "${PASSWORD:-canary}", "PASSWORD"),
        ("A.bootstrap.servers", "{{ source }}:9092", "source"),
        ("A.security.protocol", "${source_security_protocol}", "source_security_protocol"),
        ("A.sasl.mechanism", "<mechanism>", "mechanism"),
        ("A.sasl.password", "${PASSWORD}", "PASSWORD"),
        ("A.sasl.jaas.config", f'{PLAIN} username="${{USER_NAME}}" password="x";', "USER_NAME"),
        ("A.ssl.truststore.location", "$HOME/ca.pem", "HOME"),
        ("A->B.topics", "${TOPICS}", "TOPICS"),
        ("A->B.topics", "$TOPICS", "TOPICS"),
        ("topics.exclude", "a.*, <topics>", "topics"),
        ("A->B.enabled", "${ENABLED}", "ENABLED"),
        ("replication.factor", "$RF", "RF"),
        ("clusters", "${SOURCE}, B", "SOURCE"),
    ],
)
def test_text_that_was_not_replaced_names_the_way_to_write_it(key, value, variable):
    said = unsubstituted(key, value)
    assert "contains text that was not substituted: " in said
    assert f"`${{env:{variable}}}` reads the environment" in said
    assert "canary" not in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A.sasl.password", "<password>"),
        ("A.ssl.key.password", "{{ key_password }}"),
        ("A.sasl.jaas.config", f'{PLAIN} username="u" password="<canary>";'),
    ],
)
def test_a_login_left_as_its_template_is_refused_without_quoting_it(key, value):
    said = unsubstituted(key, value)
    assert said == "contains text that was not substituted: `<...>`; `${env:NAME}` reads the environment"


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


def test_one_line_per_key_comes_before_any_other_complaint(load):
    head = (
        "clusters = A, B\nA.bootstrap.servers = ${A_SERVERS}\nA.security.protocol = ${A_PROTOCOL}\n"
        "B.bootstrap.servers = $HOST\nA->B.enabled = true\nA->B.topics = ${REGEX}\n"
        "A->B.refresh.topics.interval.seconds = ${SECONDS}\nreplication.policy.separator = ${SEPARATOR}\n"
    )
    with pytest.raises(ConfigError) as refused:
        load(head=head)
    lines = refused.value.message.splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4", "6", "7", "8"]
    assert all("not substituted" in line for line in lines)


def test_an_enabled_that_was_not_replaced_is_refused_and_not_read_as_false(load):
    with pytest.raises(
        ConfigError, match=r"A->B\.enabled: contains text that was not substituted: `\$\{ON\}`"
    ):
        load(
            head="clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = ${ON}\n"
        )


def test_a_key_that_nobody_reads_is_warned_of(load):
    (warning,) = load("A->B.group.id = ${mm2_consumer_group}\n").warnings
    assert "A->B.group.id: contains text that was not substituted: `${mm2_consumer_group}`" in warning


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
