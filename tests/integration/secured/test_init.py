"""The file that ``mmtool init`` writes for real clusters is one that mirrors, and, once completed, one that logs in."""

import json

import pytest

from kit.processes import run_mmtool
from kit.secure_pairs import logins
from mmtool.config.properties import read_properties
from mmtool.config.sasl import parse_jaas
from mmtool.lab.load import Load, produce
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


def complete(folder, values):
    """Remove the # before these keys, and give them their values."""
    path = folder / "mm2.properties"
    lines = path.read_text().splitlines()
    for key, value in values.items():
        (number,) = [n for n, line in enumerate(lines) if line.startswith(f"#{key} =")]
        lines[number] = f"{key} = {value}"
    path.write_text("\n".join(lines) + "\n")


def test_a_first_file_is_checked_examined_and_mirrors(fleet, addresses, topic_name, tmp_path):
    topic = topic_name()
    create_topic(fleet["source"].bootstrap, topic, 2)
    produce(fleet["source"].bootstrap, Load(topic, RECORDS, 2, 100))
    begun = init(tmp_path, addresses, "-o", "json")
    assert begun.code == 0, begun.stderr
    assert [(row["cluster"], row["state"], row["brokers"]) for row in begun.rows] == [
        ("source", "answers", 1),
        ("target", "answers", 1),
    ]
    config = ("-c", str(tmp_path / "mm2.properties"))
    complete(tmp_path, {"source->target.topics": topic})
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


def test_one_cluster_that_is_away_leaves_the_answers_of_the_other(addresses, tmp_path):
    begun = init(tmp_path, addresses | {"target": "127.0.0.1:1"}, "--timeout", "3s", "-o", "json")
    found = values_in(tmp_path)
    assert [(row["cluster"], row["state"]) for row in begun.rows] == [
        ("source", "answers"),
        ("target", "unreachable"),
    ]
    assert (begun.code, "source.mmtool.cluster.id" in found, "target.mmtool.cluster.id" in found) == (
        0,
        True,
        False,
    )
    assert [key for key in found if key.endswith("replication.factor")] == []


@pytest.mark.parametrize("kind", logins(SecurityKind.SCRAM))
def test_its_completed_file_logs_in_to_a_secured_cluster_with_secrets_from_elsewhere(secured, kind, tmp_path):
    pair = secured(kind)
    login = pair.login(ADMIN)
    options = [
        word
        for side in ("source", "target")
        for name in ("protocol", "mechanism")
        if (value := login.get({"protocol": "security.protocol", "mechanism": "sasl.mechanism"}[name]))
        for word in (f"--{side}-{name}", value)
    ]
    init(tmp_path, pair.secured, "--no-probe", *options)
    values, secrets = completed_with(login)
    complete(tmp_path, values)
    config = ("-c", str(tmp_path / "mm2.properties"))
    checked = run_mmtool(tmp_path, "config", "check", *config, environ=secrets)
    assert checked.code == 0, checked.stderr
    examined = run_mmtool(tmp_path, "doctor", *config, "-o", "json", environ=secrets)
    logins_refused = [row for row in examined.rows if row["check"] in ("reachability", "authentication")]
    assert [row["message"] for row in logins_refused if row["severity"] == "problem"] == []
    text = (tmp_path / "mm2.properties").read_text() + examined.stdout + examined.stderr
    assert [name for name, secret in secrets.items() if secret in text] == []


def completed_with(login):
    """The values of the commented keys for these client properties, and the environment variables of their secrets."""
    values, secrets = {}, {}
    for side in ("source", "target"):
        for kind in ("truststore", "keystore"):
            if path := login.get(f"ssl.{kind}.location"):
                values[f"{side}.ssl.{kind}.location"] = path
                if secret := login.get(f"ssl.{kind}.password"):
                    variable = f"{side}_{kind}_PASSWORD".upper()
                    values[f"{side}.ssl.{kind}.password"] = f"${{env:{variable}}}"
                    secrets[variable] = secret
                if store := login.get(f"ssl.{kind}.type"):
                    values[f"{side}.ssl.{kind}.type"] = store
        if endpoint := login.get("sasl.oauthbearer.token.endpoint.url"):
            values[f"{side}.sasl.oauthbearer.token.endpoint.url"] = endpoint
        if jaas := login.get("sasl.jaas.config"):
            secret = next(
                parse_jaas(jaas).options[name] for name in ("password", "clientSecret") if name in jaas
            )
            values[f"{side}.sasl.jaas.config"] = jaas.replace(secret, f"${{env:{side.upper()}_PASSWORD}}")
            secrets[f"{side.upper()}_PASSWORD"] = secret
    return values, secrets
