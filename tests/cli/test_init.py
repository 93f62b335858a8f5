"""``mmtool init`` writes a file that ``config check`` takes; no secret gets into it, and none is overwritten."""

import json
import re
import sys

import pytest

from kit.terminal import on_a_terminal
from mmtool.config import load_settings

CLOSED = "127.0.0.1:1"
BOTH = ("-s", "east", "--source-servers", CLOSED, "-t", "west", "--target-servers", "127.0.0.1:2")
LOGIN = ("--source-protocol", "SASL_PLAINTEXT", "--source-user", "mmtool")


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MMTOOL_CONFIG", raising=False)
    monkeypatch.delenv("EAST_PASSWORD", raising=False)
    return tmp_path / "mm2.properties"


@pytest.fixture
def init(mmtool, path):
    """``mmtool init`` with both aliases and servers, on no cluster unless asked."""
    return lambda *more: mmtool("init", "-c", path, *BOTH, "--no-probe", *more)


def settings_in(path):
    lines = path.read_text().splitlines()
    return dict(line.split(" = ", 1) for line in lines if line and line[0] != "#")


def test_its_file_passes_config_check(init, path, mmtool):
    ended, checked = init(), mmtool("config", "check", "-c", path, "-o", "json")
    assert (ended.code, checked.code, json.loads(checked.stdout)["data"]) == (0, 0, [])


def test_it_says_what_config_check_says_and_what_to_do_next(init, path):
    said = init().stderr
    assert f"{path} was written\n{path} can be used; flows: east->west\n" in said
    assert f"   mmtool doctor -c {path}\n" in said
    assert f"   mmtool replicate -c {path} --until-caught-up\n" in said


def test_mmtool_config_names_the_file(mmtool, path, monkeypatch):
    monkeypatch.setenv("MMTOOL_CONFIG", "named.properties")
    assert (mmtool("init", *BOTH, "--no-probe").code, path.with_name("named.properties").exists()) == (
        0,
        True,
    )


def test_an_existing_file_is_refused_and_forced(init, path):
    path.write_text("mine")
    assert (init().code, path.read_text()) == (3, "mine")
    assert (init("--force").code, settings_in(path)["clusters"]) == (0, "east, west")


def test_only_its_owner_can_read_the_file(init, path):
    init()
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_cluster_is_asked_with_no_probe(init):
    rows = json.loads(init("-o", "json").stdout)["data"]
    assert [(row["cluster"], row["side"], row["state"]) for row in rows] == [
        ("east", "source", "not_asked"),
        ("west", "target", "not_asked"),
    ]


def test_a_cluster_that_is_away_costs_its_row_and_a_warning_not_the_file(mmtool, path):
    ended = mmtool("init", *BOTH, "--timeout", "2s", "-o", "json")
    document = json.loads(ended.stdout)
    assert (ended.code, path.exists(), document["errors"]) == (0, True, [])
    assert [(row["state"], row["cluster_id"], row["brokers"]) for row in document["data"]] == [
        ("unreachable", None, None)
    ] * 2
    assert f"cluster east does not answer at {CLOSED}" in document["warnings"][0]
    assert "can be used" not in ended.stderr
    assert ended.seconds < 20


def test_every_option_has_its_key(init, path, monkeypatch):
    monkeypatch.setenv("EAST_PASSWORD", "s")
    ended = init(*LOGIN, "--topics", r"orders\..*, payments", "--groups", "a, b", "--topic-names", "same")
    (flow,) = load_settings(path, {"EAST_PASSWORD": "s"}).flows
    assert ended.code == 0, ended.stderr
    assert (flow.name, flow.source.bootstrap_servers, flow.target.bootstrap_servers) == (
        "east->west",
        CLOSED,
        "127.0.0.1:2",
    )
    assert (flow.topics.include, flow.groups.include) == ((r"orders\..*", "payments"), ("a", "b"))
    assert flow.keeps_names


@pytest.mark.parametrize(
    ("mechanism", "secret"),
    [("PLAIN", "secret"), ("scram-sha-256", "se cret;"), ("SCRAM-SHA-512", "$ecret")],
)
def test_a_login_takes_its_password_from_where_the_placeholder_says(
    init, path, monkeypatch, mechanism, secret
):
    monkeypatch.setenv("EAST_PASSWORD", secret)
    ended = init(*LOGIN[:2], "--source-mechanism", mechanism, "--source-user", 'mm "tool"\\')
    assert ended.code == 0, ended.stderr
    (flow,) = load_settings(path, {"EAST_PASSWORD": secret}).flows
    login = flow.source.security.sasl
    assert (login.mechanism, login.username, login.password.get_secret_value()) == (
        mechanism.upper(),
        'mm "tool"\\',
        secret,
    )


def test_a_client_id_and_its_secret_are_an_oauth_login(init, path):
    endpoint = "https://id.example.org/token"
    init(*LOGIN, "--source-mechanism", "OAUTHBEARER", "--source-token-endpoint", endpoint)
    (flow,) = load_settings(path, {"EAST_PASSWORD": "s"}).flows
    found = flow.source.security.sasl
    assert (found.client_id, found.client_secret.get_secret_value(), found.endpoint) == (
        "mmtool",
        "s",
        endpoint,
    )


@pytest.mark.parametrize("kind", ["EnvVar", "File", "Directory"])
def test_a_placeholder_s_provider_is_declared_for_java(init, path, kind):
    name = {"EnvVar": "env", "File": "file", "Directory": "directory"}[kind]
    place = "env:NAME" if kind == "EnvVar" else f"{name}:/run/secrets/kafka:password"
    stores = ("--source-truststore", "/ca.jks", "--source-truststore-password-from", place)
    init(*LOGIN[2:], "--source-protocol", "SASL_SSL", "--source-password-from", place, *stores)
    found = settings_in(path)
    assert found["config.providers"] == name
    provider = f"org.apache.kafka.common.config.provider.{kind}ConfigProvider"
    assert found[f"config.providers.{name}.class"] == provider
    assert found["east.ssl.truststore.password"] == f"${{{place}}}"


def test_java_is_told_that_a_store_is_pem(init, path):
    init("--source-protocol", "SSL", "--source-truststore", "/ca.pem")
    assert settings_in(path)["east.ssl.truststore.type"] == "PEM"


def test_every_key_has_one_line_of_comment_and_mirror_maker_s_come_first(init, path):
    init("--source-protocol", "SSL", "--target-protocol", "SSL")
    lines = path.read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"#?[\w.>-]+ =", line)]
    own = ["mmtool." in lines[number] for number in keys]
    assert (len(keys) > 15, own) == (True, sorted(own))
    assert [lines[number] for number in keys if not lines[number - 1].startswith("# ")] == []
    assert [lines[number] for number in keys if lines[number - 2].strip()] == []


def test_a_secret_that_is_not_in_place_yet_is_named_and_the_file_is_there(init, path):
    ended = init(*LOGIN, "-o", "json")
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.code, path.exists(), error["code"]) == (7, True, "not_usable_yet")
    assert "the environment variable EAST_PASSWORD is not set" in error["message"]
    assert error["remedy"].endswith(f"`mmtool config check -c {path}`")


def test_a_password_instead_of_a_place_is_refused_and_not_repeated(init, path):
    ended = init(*LOGIN, "--source-password-from", "canary-5eCr3t", "-o", "json")
    assert (ended.code, path.exists()) == (2, False)
    assert "canary-5eCr3t" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--source-servers", "east-1"), "--source-servers: expected a comma list of host:port"),
        (("-t", "east"), "--target: east is the alias of the source"),
        (("-s", "a b"), "--source: topic names cannot contain ' '"),
        (("--topics", "("), "--topics: "),
        (("--topics", " "), "--topics: a value is needed"),
        (("--source-protocol", "TLS"), "--source-protocol: expected PLAINTEXT, SSL"),
        (("--source-protocol", "SASL_SSL"), "--source-user is missing"),
        (("--source-user", "u"), "without effect beside the other options: --source-user"),
        (("--target-keystore", "k.pem", "--target-protocol", "SASL_SSL", "--target-user", "u"),
         "without effect beside the other options: --target-keystore"),
        ((*LOGIN, "--source-mechanism", "GSSAPI"), "--source-mechanism: expected PLAIN"),
        ((*LOGIN, "--source-mechanism", "OAUTHBEARER"), "--source-token-endpoint is missing"),
        ((*LOGIN, "--source-mechanism", "OAUTHBEARER", "--source-token-endpoint", "x", "--source-password-from",
          "env:HOME"), "expected the token endpoint's URL"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_and_nothing_is_written(init, path, more, says):
    ended = init(*more)
    assert (ended.code, ended.stdout, list(path.parent.iterdir())) == (2, "", [])
    assert says in ended.stderr


def test_without_a_terminal_missing_options_are_listed(mmtool, path):
    ended = mmtool("init", "-s", "east", "--target-servers", CLOSED)
    assert (ended.code, path.exists()) == (2, False)
    assert ended.stderr.startswith("error: options are missing: --source-servers, --target\n")


TYPED = (
    (b"mirror from, for example east: ", b"east\n"),
    (b"servers of east, as host:port,host:port: ", b"nonsense\n"),
    (b"it has no port", b""),
    (b"servers of east, as host:port,host:port: ", b"127.0.0.1:1\n"),
    (b"protocol of east", b"sasl_plaintext\n"),
    (b"mechanism of east", b"\n"),
    (b"mirror to, for example west: ", b"east\n"),
    (b"the target needs another one", b""),
    (b"mirror to, for example west: ", b"west\n"),
    (b"servers of west", b"127.0.0.1:2\n"),
    (b"protocol of west", b"\n"),
)


def test_on_a_terminal_it_asks_for_servers_and_logins_until_an_answer_can_be_used(path):
    code, said = on_a_terminal([sys.executable, "-m", "mmtool", "init", "--no-probe"], *TYPED)
    found = settings_in(path)
    assert (code, b"complete the commented lines of the login" in said) == (7, True), said.decode()
    assert (found["clusters"], found["east.bootstrap.servers"], found["west.bootstrap.servers"]) == (
        "east, west",
        "127.0.0.1:1",
        "127.0.0.1:2",
    )
    text = path.read_text()
    assert re.search(
        '^#east.sasl.jaas.config = .* username="mmtool" password="[$]{env:EAST_PASSWORD}";$',
        text,
        re.MULTILINE,
    )
    assert "\n#east->west.topics = .*\n" in text
    path.write_text(text.replace("#east.sasl.jaas", "east.sasl.jaas"))
    (flow,) = load_settings(path, {"EAST_PASSWORD": "s"}).flows
    assert flow.source.security.sasl.username == "mmtool"


@pytest.mark.parametrize(("typed", "code"), [(b"\x04", 3), (b"\x03", 130)], ids=["end of input", "Ctrl-C"])
def test_leaving_the_questions_writes_nothing(path, typed, code):
    line = [sys.executable, "-m", "mmtool", "init"]
    ended, said = on_a_terminal(line, (b"mirror from", b"east\n"), (b"servers of east", typed))
    assert (ended, list(path.parent.iterdir())) == (code, []), said.decode()
