"""The file that ``mmtool init`` writes for real clusters is one that mirrors, and one that logs in."""

import json
from contextlib import suppress
from itertools import chain

import pytest

from kit.load import Load, produce
from kit.processes import run_mmtool
from kit.secure_pairs import logins
from mmtool.config.properties import read_properties
from mmtool.config.sasl import parse_jaas
from mmtool.lab.security.kinds import ADMIN, SecurityKind
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = pytest.mark.kafka

RECORDS = 500


def init(folder, servers, *more, **environ):
    """``mmtool init`` for these two clusters, whose aliases are their names; its file is in the folder."""
    sides = [
        word
        for side, (alias, address) in zip(("source", "target"), servers.items(), strict=True)
        for word in (f"--{side}", alias, f"--{side}-servers", address)
    ]
    return run_mmtool(folder, "init", "-c", str(folder / "mm2.properties"), *sides, *more, environ=environ)


@pytest.fixture
def addresses(fleet):
    return {cluster.name: cluster.bootstrap for cluster in fleet}


def values_in(folder):
    return {key: entry.raw for key, entry in read_properties(folder / "mm2.properties").entries.items()}


def test_a_first_file_is_checked_examined_and_mirrors(fleet, addresses, topic_name, tmp_path):
    topic = topic_name()
    create_topic(fleet["source"].bootstrap, topic, 2)
    produce(fleet["source"].bootstrap, Load(topic, RECORDS, 2, 100))
    begun = init(tmp_path, addresses, "--topics", topic, "-o", "json")
    assert begun.code == 0, begun.stderr
    assert [(row["cluster"], row["state"], row["brokers"]) for row in begun.rows] == [
        ("source", "answers", 1),
        ("target", "answers", 1),
    ]
    config = ("-c", str(tmp_path / "mm2.properties"))
    assert run_mmtool(tmp_path, "config", "check", *config).code == 0
    examined = run_mmtool(tmp_path, "doctor", *config, "-o", "json")
    assert [row["message"] for row in examined.rows if row["severity"] == "problem"] == []
    assert run_mmtool(tmp_path, "replicate", *config, "--until-caught-up").code == 0
    assert sum(end_offsets(fleet["target"].bootstrap, f"source.{topic}").values()) == RECORDS


def test_what_the_clusters_answer_is_in_the_file(addresses, tmp_path):
    begun = init(tmp_path, addresses, "-o", "json")
    found = values_in(tmp_path)
    assert begun.code == 0, begun.stderr
    for row in begun.rows:
        assert found[f"{row['cluster']}.mmtool.cluster.id"] == row["cluster_id"]
    factors = {value for key, value in found.items() if key.endswith("replication.factor")}
    assert factors == {"1"}


def test_one_cluster_under_two_aliases_is_refused(addresses, tmp_path):
    refused = init(tmp_path, dict.fromkeys(addresses, addresses["source"]), "-o", "json")
    (error,) = json.loads(refused.stdout)["errors"]
    assert (refused.code, (tmp_path / "mm2.properties").exists()) == (2, False)
    assert "source and target are the same cluster" in error["message"]


@pytest.mark.parametrize("kind", logins(SecurityKind.SCRAM))
def test_its_file_logs_in_to_a_secured_cluster_with_secrets_from_elsewhere(secured, kind, tmp_path):
    pair = secured(kind)
    options, secrets = login_options(pair.login(ADMIN))
    begun = init(tmp_path, pair.secured, *options, "-o", "json", **secrets)
    config = ("-c", str(tmp_path / "mm2.properties"))
    checked = run_mmtool(tmp_path, "config", "check", *config, environ=secrets)
    assert begun.code == 0, begun.stderr
    assert [(row["state"], row["message"]) for row in begun.rows] == [("answers", "")] * 2
    assert checked.code == 0, checked.stderr
    text = (tmp_path / "mm2.properties").read_text() + begun.stdout + begun.stderr
    assert [name for name, secret in secrets.items() if secret in text] == []


def test_a_refused_login_costs_a_row_and_not_the_file(secured, tmp_path):
    pair = secured(SecurityKind.SCRAM)
    options, secrets = login_options(pair.login(ADMIN))
    wrong = secrets | {"SOURCE_PASSWORD": "another-one"}
    begun = init(tmp_path, pair.secured, *options, "--timeout", "5s", "-o", "json", **wrong)
    assert (begun.code, [row["state"] for row in begun.rows][1]) == (0, "answers"), begun.stderr
    assert begun.rows[0]["state"] == "not_authorised"
    warning = json.loads(begun.stdout)["warnings"][0]
    assert "correct the user name and the password in source.sasl.jaas.config" in warning
    assert "another-one" not in begun.stdout + begun.stderr


def login_options(login):
    """The options of ``mmtool init`` that log in with these client properties, and the variables of their secrets."""
    plain = {"protocol": "security.protocol", "mechanism": "sasl.mechanism", "truststore": "ssl.truststore.location",
             "keystore": "ssl.keystore.location", "token-endpoint": "sasl.oauthbearer.token.endpoint.url"}  # fmt: skip
    given = {name: login[key] for name, key in plain.items() if key in login}
    secrets = {"TRUSTSTORE_PASSWORD": login.get("ssl.truststore.password"),
               "KEYSTORE_PASSWORD": login.get("ssl.keystore.password")}  # fmt: skip
    with suppress(KeyError):
        jaas = parse_jaas(login["sasl.jaas.config"]).options
        given["user"] = jaas.get("username") or jaas.get("clientId")
        secrets["PASSWORD"] = jaas.get("password") or jaas.get("clientSecret")
    sides = ("source", "target")
    options = chain.from_iterable(
        (f"--{side}-{name}", value) for side in sides for name, value in given.items()
    )
    return list(options), {
        f"{side.upper()}_{name}": value for side in sides for name, value in secrets.items() if value
    }
