"""The file that ``mmtool init`` writes says what the operator answered, to mmtool and to Java."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config import load_settings
from mmtool.config.draft import Draft, DraftCluster, Login, Store, escaped, text_of
from mmtool.config.placeholders import Placeholder
from mmtool.config.properties import read_properties

EAST, WEST = DraftCluster("east", "e:9092"), DraftCluster("west", "w:9092")
ENV = Placeholder("env", "EAST_PASSWORD")


def loaded(tmp_path, draft, environ=None):
    path = tmp_path / "mm2.properties"
    path.write_text(text_of(draft), encoding="latin-1")
    return load_settings(path, environ or {})


def lines_of(draft):
    return text_of(draft).splitlines()


@given(value=st.text().map(str.rstrip))
def test_any_value_is_read_back_as_it_was_given(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "escaped.properties"
    path.write_text(f"key = {escaped(value)}\n", encoding="ascii")
    assert read_properties(path).entries["key"].value == value


def test_the_answers_are_the_settings_of_the_flow(tmp_path):
    draft = Draft(EAST, WEST, r"orders\..*, payments", "billing", keeps_names=True, replicas=1)
    (flow,) = loaded(tmp_path, draft).flows
    assert (flow.name, flow.source.bootstrap_servers, flow.target.bootstrap_servers) == (
        "east->west",
        "e:9092",
        "w:9092",
    )
    assert (flow.topics.include, flow.groups.include) == ((r"orders\..*", "payments"), ("billing",))
    assert (flow.keeps_names, flow.replication_factor) == (True, 1)


def test_a_known_cluster_id_is_the_one_that_the_cluster_must_answer_with(tmp_path):
    east = DraftCluster("east", "e:9092", cluster_id="4474l0HSRV-CwwbV0kYTTw")
    (flow,) = loaded(tmp_path, Draft(east, WEST)).flows
    assert (flow.source.expected_cluster_id, flow.target.expected_cluster_id) == (
        "4474l0HSRV-CwwbV0kYTTw",
        None,
    )


def test_every_key_has_one_line_of_comment():
    lines = [line for line in lines_of(Draft(EAST, WEST)) if not line.startswith("# ---")][1:]
    keys = [number for number, line in enumerate(lines) if re.match(r"#?[\w.>-]+ =", line)]
    assert len(keys) > 15
    assert [lines[number] for number in keys if not lines[number - 1].startswith("# ")] == []
    assert [lines[number] for number in keys if lines[number - 2].strip()] == []


def test_keys_of_mirror_maker_come_first():
    keys = re.findall(r"^#?([\w.>-]+) =", text_of(Draft(EAST, WEST)), re.MULTILINE)
    own = ["mmtool." in key for key in keys]
    assert own == sorted(own)


@pytest.mark.parametrize(
    ("mechanism", "environ"),
    [("PLAIN", "secret"), ("SCRAM-SHA-256", "se cret;"), ("SCRAM-SHA-512", "$ecret")],
)
def test_a_login_takes_its_password_from_where_the_placeholder_says(tmp_path, mechanism, environ):
    east = DraftCluster("east", "e:9092", "SASL_PLAINTEXT", Login(mechanism, 'mm "tool"\\', ENV))
    (flow,) = loaded(tmp_path, Draft(east, WEST), {"EAST_PASSWORD": environ}).flows
    login = flow.source.security.sasl
    assert (login.username, login.password.get_secret_value()) == ('mm "tool"\\', environ)


def test_a_client_id_and_its_secret_are_an_oauth_login(tmp_path):
    login = Login("OAUTHBEARER", "mmtool", ENV, "https://id.example.org/token")
    east = DraftCluster("east", "e:9092", "SASL_PLAINTEXT", login)
    (flow,) = loaded(tmp_path, Draft(east, WEST), {"EAST_PASSWORD": "s"}).flows
    found = flow.source.security.sasl
    assert (found.client_id, found.client_secret.get_secret_value(), found.endpoint) == (
        "mmtool",
        "s",
        "https://id.example.org/token",
    )


@pytest.mark.parametrize("kind", ["env", "file", "directory"])
def test_a_placeholder_s_provider_is_declared_for_java(kind):
    secret = Placeholder("env", "NAME") if kind == "env" else Placeholder(kind, "/run/secrets/kafka:password")
    east = DraftCluster("east", "e:9092", "SASL_SSL", Login("PLAIN", "u", secret), Store("/ca.jks", secret))
    lines = lines_of(Draft(east, WEST))
    classes = {"env": "EnvVar", "file": "File", "directory": "Directory"}
    assert f"config.providers = {kind}" in lines
    name = f"org.apache.kafka.common.config.provider.{classes[kind]}ConfigProvider"
    assert f"config.providers.{kind}.class = {name}" in lines
    assert f"east.ssl.truststore.password = {secret}" in lines


def test_java_is_told_that_a_store_is_pem():
    east = DraftCluster("east", "e:9092", "SSL", trust_store=Store("/ca.pem"))
    assert "east.ssl.truststore.type = PEM" in lines_of(Draft(east, WEST))


@pytest.mark.parametrize(
    ("text", "placeholder"),
    [
        ("env:EAST_PASSWORD", "${env:EAST_PASSWORD}"),
        (" ${env:EAST_PASSWORD} ", "${env:EAST_PASSWORD}"),
        ("file:/etc/kafka/secrets.properties:east", "${file:/etc/kafka/secrets.properties:east}"),
        ("directory:/run/secrets:east", "${directory:/run/secrets:east}"),
    ],
)
def test_a_placeholder_is_read_with_and_without_its_braces(text, placeholder):
    assert str(Placeholder.parse(text)) == placeholder


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "env:",
        "env:9",
        "env:a b",
        'env:a"',
        "file:/only/path",
        "vault:a:b",
        "file:/a}:b",
        "directory::b",
    ],
)
def test_what_is_no_placeholder_is_refused_and_never_quoted(text):
    with pytest.raises(ValueError, match="expected") as caught:
        Placeholder.parse(text)
    said = "expected env:NAME, file:PATH:KEY or directory:PATH:FILE, never the secret itself"
    assert str(caught.value) == said
