"""``bootstrap.servers`` means what it means to Java's clients (the answers are those of kafka-clients 4.3.1)."""

import pytest

from mmtool.config.values import parse_servers
from mmtool.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", "a:1"),
        (" a:1 , b:2,", "a:1,b:2"),
        ("a:1, ,b:2", "a:1,b:2"),
        ("PLAINTEXT://a:1", "a:1"),
        ("sasl_ssl://a:1,b:2", "a:1,b:2"),
        ("FOO-BAR://a:1", "a:1"),
        ("MY_LISTENER://a:1", "a:1"),
        ("://a:1", "a:1"),
        ("[::1]:1", "[::1]:1"),
        ("::1:1", "[::1]:1"),
        ("SSL://[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
        ("a_b.c-d:09092", "a_b.c-d:9092"),
    ],
)
def test_servers_are_read_as_java_reads_them(text, servers):
    assert parse_servers(text).text == servers


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("=a:1", "remove the second ="),
        ("a:1;b:2", "not by ;"),
        ("a:1 b:2", "blank"),
        ("a :1", "blank"),
        ("PLAINTEXT:// a:1", "blank"),
        ("'a:1'", "quotes"),
        ("a", "no port"),
        ("a:", "no port"),
        ("a:1,b", "`b` is no HOST:PORT: it has no port"),
        ("a:kafka", "no port"),
        ("a:1 b:1", "`a:1 b:1` is no HOST:PORT: it holds a blank"),
        ("a:0", "`a:0` has no port from 1"),
        ("a:65536", "no port from 1 to 65535"),
        (":1", "host:port"),
        ("http://a:1/", "`http://a:1/` is no HOST:PORT"),
        ("a:+1", "`a:+1` is no HOST:PORT"),
        ("user@a:1", "`user@a:1` is no HOST:PORT"),
        ("foo://bar://a:1", "is no HOST:PORT"),
        ("a:\uff11", "is no HOST:PORT"),
    ],
)
def test_what_java_refuses_is_refused_by_its_line(text, reason, load):
    with pytest.raises(ConfigError) as refused:
        load(
            head=f"clusters = A, B\nA.bootstrap.servers = {text}\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        )
    assert f":2: A.bootstrap.servers = {text}: expected a comma list of host:port" in refused.value.message
    assert reason in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":2: A.bootstrap.servers has no value: expected a comma list of host:port"),
        (",", ":2: A.bootstrap.servers = ,: expected a comma list of host:port"),
        (
            "${env:EMPTY}",
            ":2: A.bootstrap.servers: ${env:EMPTY} is empty; it must hold a comma list of host:port",
        ),
        ("${env:SECRET}", ":2: A.bootstrap.servers: ${env:SECRET} must hold a comma list of host:port"),
    ],
)
def test_an_empty_value_is_told_from_a_placeholder_that_holds_nothing_or_something_else(text, message, load):
    head = f"clusters = A, B\nA.bootstrap.servers = {text}\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    with pytest.raises(ConfigError) as refused:
        load(head=head, environ={"EMPTY": " ", "SECRET": "hush"})
    assert refused.value.message.endswith(message)


HEAD = "clusters = A, B\nB.bootstrap.servers = b:1\nA->B.enabled = true\nA.bootstrap.servers = "
LOGIN = "A.sasl.mechanism = PLAIN\nA.sasl.username = u\nA.sasl.password = p\n"


@pytest.mark.parametrize("server", ["SASL_PLAINTEXT://a:1", "sasl_plaintext://a:1", "MINE://a:1", "a:1"])
def test_a_protocol_that_agrees_or_is_a_listeners_name_is_not_mentioned(server, load):
    settings = load(head=f"{HEAD}{server}\nA.security.protocol = SASL_PLAINTEXT\n{LOGIN}")
    assert (settings.warnings, settings.flows[0].source.bootstrap_servers) == ((), "a:1")


def test_every_role_of_a_client_loses_the_protocol(load):
    flow = load(head=f"{HEAD}PLAINTEXT://a:1\nA.consumer.bootstrap.servers = PLAINTEXT://c:1\n").flows[0]
    assert flow.source.bootstrap_servers_for("consumer") == "c:1"
    assert flow.source.bootstrap_servers_for("admin") == "a:1"
