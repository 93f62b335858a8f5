"""The file that ``mmtool init`` writes says what the operator answered, to mmtool and to Java."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config import load_settings
from mmtool.config.draft import Draft, DraftCluster, escaped, text_of
from mmtool.config.properties import read_properties
from mmtool.errors import ConfigError

EAST, WEST = DraftCluster("east", "e:9092"), DraftCluster("west", "w:9092")


def loaded(tmp_path, draft, environ=None, completed=""):
    """The file, where the commented keys that match a pattern are completed: the # is removed."""
    text = (
        re.sub(rf"^#(?={completed})", "", text_of(draft), flags=re.MULTILINE) if completed else text_of(draft)
    )
    path = tmp_path / "mm2.properties"
    path.write_text(text, encoding="latin-1")
    return load_settings(path, environ or {})


def lines_of(draft):
    return text_of(draft).splitlines()


@given(value=st.text().map(str.rstrip))
def test_any_value_is_read_back_as_it_was_given(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "escaped.properties"
    path.write_text(f"key = {escaped(value)}\n", encoding="ascii")
    assert read_properties(path).entries["key"].value == value


def test_the_answers_are_the_settings_of_the_flow(tmp_path):
    draft = Draft(EAST, WEST, replicas=1)
    (flow,) = loaded(tmp_path, draft).flows
    assert (flow.name, flow.source.bootstrap_servers, flow.target.bootstrap_servers) == (
        "east->west",
        "e:9092",
        "w:9092",
    )
    assert (flow.topics.include, flow.groups.include) == ((".*",), (".*",))
    assert (flow.keeps_names, flow.replication_factor) == (False, 1)


def test_topics_groups_and_names_are_commented_out_with_their_defaults(tmp_path):
    draft = Draft(EAST, WEST)
    assert "#east->west.topics = .*" in lines_of(draft)
    assert "#east->west.groups = .*" in lines_of(draft)
    assert any(line.startswith("#replication.policy.class = ") for line in lines_of(draft))
    (before,), (after,) = (loaded(tmp_path, draft, completed=keys).flows for keys in ("", "[a-z]"))
    assert (after.topics, after.groups, after.keeps_names) == (
        before.topics,
        before.groups,
        before.keeps_names,
    )


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
    ("mechanism", "secret"),
    [("PLAIN", "secret"), ("SCRAM-SHA-256", "se cret;"), ("SCRAM-SHA-512", "$ecret")],
)
def test_a_login_is_a_commented_line_that_takes_its_password_from_the_environment(
    tmp_path, mechanism, secret
):
    draft = Draft(DraftCluster("east", "e:9092", "SASL_PLAINTEXT", mechanism), WEST)
    with pytest.raises(ConfigError, match="needs a login"):
        loaded(tmp_path, draft)
    (flow,) = loaded(tmp_path, draft, {"EAST_PASSWORD": secret}, completed="east.sasl").flows
    login = flow.source.security.sasl
    assert (login.username, login.password.get_secret_value()) == ("mmtool", secret)


def test_a_client_id_its_secret_and_the_endpoint_are_commented_lines_of_an_oauth_login(tmp_path):
    draft = Draft(DraftCluster("east", "e:9092", "SASL_PLAINTEXT", "OAUTHBEARER"), WEST)
    (flow,) = loaded(tmp_path, draft, {"EAST_PASSWORD": "s"}, completed="east.sasl").flows
    found = flow.source.security.sasl
    assert (found.client_id, found.client_secret.get_secret_value(), found.endpoint) == (
        "mmtool",
        "s",
        "https://id.example.org/token",
    )


def test_an_iam_login_needs_nothing_more(tmp_path):
    east = DraftCluster("east", "b-1.x.kafka.eu-west-1.amazonaws.com:9098", "SASL_SSL", "AWS_MSK_IAM")
    (flow,) = loaded(tmp_path, Draft(east, WEST)).flows
    assert flow.source.security.sasl.mechanism == "AWS_MSK_IAM"


def test_the_provider_of_secrets_is_declared_for_java():
    name = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    declared = {"config.providers = env", f"config.providers.env.class = {name}"}
    assert declared <= set(lines_of(Draft(DraftCluster("east", "e:9092", "SASL_SSL", "PLAIN"), WEST)))
    assert not declared & set(lines_of(Draft(EAST, WEST)))


@pytest.mark.parametrize(
    ("protocol", "mechanism", "stores"),
    [
        ("PLAINTEXT", None, []),
        ("SASL_PLAINTEXT", "PLAIN", []),
        ("SSL", None, ["truststore", "keystore"]),
        ("SASL_SSL", "PLAIN", ["truststore"]),
    ],
)
def test_stores_are_commented_lines_where_the_protocol_has_them(protocol, mechanism, stores):
    lines = lines_of(Draft(DraftCluster("2-east", "e:9092", protocol, mechanism), WEST))
    for kind in ("truststore", "keystore"):
        expected = [
            f"#2-east.ssl.{kind}.location = /etc/mmtool/2-east-{kind}.pem",
            f"#2-east.ssl.{kind}.type = PEM",
            f"#2-east.ssl.{kind}.password = ${{env:_2_EAST_{kind.upper()}_PASSWORD}}",
        ]
        assert [line for line in lines if f".ssl.{kind}." in line] == (expected if kind in stores else [])
