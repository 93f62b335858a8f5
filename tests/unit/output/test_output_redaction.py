import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.output import console
from mmtool.output.redaction import HIDDEN, redacted

TOLD = [
    ("ssl.key.password=abc123", "ssl.key.password=[hidden]"),
    ("sasl.password: abc123, user: app", "sasl.password: [hidden], user: app"),
    ('{"password": "a b \\" c", "x": 1}', '{"password": [hidden], "x": 1}'),
    ("username='app' password='p w';", "username='app' password=[hidden];"),
    ("oauth client_secret=xyz)", "oauth client_secret=[hidden])"),
    ("key -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- end", "key [hidden] end"),
    ("-----BEGIN PRIVATE KEY-----\ncut off", "[hidden]"),
    ("the password is wrong", "the password is wrong"),
    ("in-password.properties:12 A.topics: wrong", "in-password.properties:12 A.topics: wrong"),
    ("in-password.properties: no flow is enabled", "in-password.properties: no flow is enabled"),
    ("/run/secrets/token: no such file", "/run/secrets/token: no such file"),
    ("https://idp/token: 401 Unauthorized", "https://idp/token: 401 Unauthorized"),
    ("POST /login/token=abc123", "POST /login/token=[hidden]"),
    ("https://api-token:abcd1234@host/x", "https://api-token:[hidden]"),
    ("http://proxy-password:hunter2@proxy:3128", "http://proxy-password:[hidden]"),
    ("strimzi.io/password: hunter2", "strimzi.io/password: [hidden]"),
    ("user/password:hunter2", "user/password:[hidden]"),
    ("login with username/password: bob/hunter2", "login with username/password: [hidden]"),
    ('{"a/secret": "hunter2"}', '{"a/secret": [hidden]}'),
    ("/secret: hunter2", "/secret: [hidden]"),
    ("topic orders partition 3", "topic orders partition 3"),
]


@pytest.mark.parametrize(("text", "expected"), TOLD)
def test_what_is_named_as_a_secret_is_hidden(text, expected):
    assert redacted(text) == expected


@pytest.mark.parametrize("text", [text for text, _ in TOLD])
def test_hiding_twice_changes_nothing_more(text):
    assert redacted(redacted(text)) == redacted(text)


@given(st.text(min_size=4, alphabet="abcdefgh0123456789!$%"), st.text(), st.text())
def test_a_known_secret_is_hidden_in_any_text(secret, before, after):
    assert secret not in redacted(before + secret + after, {secret: HIDDEN}).replace("[hidden]", "")


def test_the_longer_of_two_secrets_goes_first():
    assert redacted("say abcdef", dict.fromkeys(["abc", "abcdef"], HIDDEN)) == "say [hidden]"


@pytest.mark.parametrize("part", ["long", "token", "token=", "-----BEGIN PRIVATE KEY", 'password="'])
def test_the_longest_name_of_kafka_is_searched_in_a_moment(part):
    began = time.process_time()
    redacted(part * (32_767 // len(part)))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("named", "shown_as"),
    [(None, " -c mm2.properties"), ("other", " -c mm2.properties"), ("mm2.properties", "")],
)
def test_a_command_to_paste_names_the_file_unless_the_environment_does(monkeypatch, capsys, named, shown_as):
    monkeypatch.setattr(console, "switches", console.Switches())
    if named is not None:
        monkeypatch.setenv("MMTOOL_CONFIG", named)
    console.name_file("mm2.properties")
    console.warn("run `mmtool status -c FILE --groups`")
    assert f"run `mmtool status{shown_as} --groups`" in capsys.readouterr().err
