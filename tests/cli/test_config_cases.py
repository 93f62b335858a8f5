"""``config check`` is right about files that people run MirrorMaker 2 with (tests/scenarios/config/cases)."""

import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

CASES = Path(__file__).parents[1] / "scenarios" / "config" / "cases"
NAMES = {path.name[:2]: path for path in sorted(CASES.iterdir())}

STORE = re.compile(r"(?m)^\s*\S+\.ssl\.(truststore|keystore)\.location\s*=\s*\S+\.(jks|pfx)\s*$|"
                   r"^\s*\S*ssl\.truststore\.(location|type)\s*=\s*(\S+\.jks|JKS)\s*$")  # fmt: skip
"""Lines about Java's stores, which are not there."""


class Checked(NamedTuple):
    code: int
    errors: dict[str, str]
    warnings: dict[str | None, list[str]]
    loaded: str


@pytest.fixture
def check(mmtool, tmp_path):
    """Check a case; ``edit`` puts right what the case's place has of its own."""

    def run(number, *options, edit=lambda text: text):
        path = tmp_path / "case.properties"
        text = (NAMES[number] / "given.properties").read_text()
        path.write_text(edit(text))
        ended = mmtool("config", "check", "-c", path, "-o", "json", *options)
        document = json.loads(ended.stdout)
        errors, warnings = {}, {}
        for row in document["data"]:
            if row["severity"] == "error":
                assert row["key"] not in errors, "one line per key"
                errors[row["key"]] = row["message"]
            else:
                warnings.setdefault(row["key"], []).append(row["message"])
        assert bool(document["errors"]) == (ended.code == 2)
        assert "changeit" not in ended.stdout + ended.stderr
        return Checked(ended.code, errors, warnings, ended.stderr)

    return run


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate in PEM."""
    directory = tmp_path_factory.mktemp("authority")
    make = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=authority -keyout key.pem -out cert.pem"
    subprocess.run(make.split(), cwd=directory, check=True, capture_output=True)
    return str(directory / "cert.pem")


def without_stores(text):
    return STORE.sub("", text)


def test_every_case_file_is_here():
    assert sorted(NAMES) == ["01", "02", "04", "07", "09", "11", "12", "14", "16", "19", "21", "22", "25"]


@pytest.mark.parametrize(
    ("number", "flow"),
    [("01", "source->target"), ("04", "A->B"), ("11", "local->remote"), ("25", "dc-us->dc-eu")],
)
def test_a_file_without_stores_loads_as_it_is(number, flow, check):
    found = check(number)
    assert (found.code, found.errors) == (0, {})
    assert f"can be used; flows: {flow}" in found.loaded


@pytest.mark.parametrize(
    ("number", "flow"), [("12", "source->cloud"), ("19", "source->target"), ("22", "origin->destination")]
)
def test_a_file_with_stores_loads_once_they_are_left_to_the_system(number, flow, check, authority):
    found = check(number, edit=lambda text: without_stores(text).replace("/kafka-secrets/ca.crt", authority))
    assert (found.code, found.errors) == (0, {})
    assert f"can be used; flows: {flow}" in found.loaded


def test_02_a_doubled_equals_sign_is_refused_with_line_and_reason_and_loads_once_put_right(check):
    refused = check("02", edit=without_stores)
    assert (refused.code, list(refused.errors)) == (2, ["B.bootstrap.servers"])
    assert "remove the second =" in refused.errors["B.bootstrap.servers"]
    found = check("02", edit=lambda text: without_stores(text).replace("==", "="))
    assert (found.code, found.errors) == (0, {})
    for name in ("topics", "groups"):
        assert f"mmtool adds its patterns to {name}.exclude" in found.warnings[f"{name}.blacklist"][0]


def test_04_settings_without_a_role_are_one_line_and_nothing_is_guessed(check):
    (said,) = [
        line for lines in check("04").warnings.values() for line in lines if "A.max.poll.records" in line
    ]
    keys = ["A.message.max.bytes", "A.compression.type", "B.max.poll.records", "B.batch.size"]
    assert all(key in said for key in keys)
    assert "in MirrorMaker 2 as well" in said
    assert not [line for lines in check("04").warnings.values() for line in lines if "did you mean" in line]


def test_07_variables_of_a_shell_are_refused_with_the_way_to_write_them(check):
    found = check("07")
    assert found.code == 2
    assert list(found.errors) == [
        "XAA.bootstrap.servers", "XAA.sasl.jaas.config", "XBB.bootstrap.servers", "XBB.sasl.jaas.config"
    ]  # fmt: skip
    assert "`${env:SOURCE_REGION}` reads the environment" in found.errors["XAA.bootstrap.servers"]
    assert all("not substituted" in message for message in found.errors.values())


def test_09_each_key_with_a_variable_has_one_line_and_no_other_complaint(check):
    found = check("09")
    assert found.code == 2
    assert list(found.errors) == [
        "source.bootstrap.servers",
        "source.security.protocol",
        "target.bootstrap.servers",
        "target.security.protocol",
        "source->target.topics",
        "source->target.sync.group.offsets.interval.seconds",
    ]
    assert all("not substituted" in message for message in found.errors.values())
    assert not found.errors.keys() & found.warnings.keys()
    assert ["not substituted" in line for line in found.warnings["source->target.group.id"]] == [True]
    (said,) = found.warnings["source->target.sync.group.offsets.topic.replication.factor"]
    assert "no pair" not in said


def test_12_a_pair_that_is_none_and_an_escape_in_a_pattern_are_warned_of(check):
    found = check("12", edit=without_stores)
    assert "names no pair of the clusters" in found.warnings["source->target.emit.heartbeats.enabled"][0]
    honoured, escape = found.warnings["topics.blacklist"]
    assert "mmtool adds its patterns to topics.exclude" in honoured
    assert r"`.*\replica` contains a character that no topic or group name has" in escape
    (misplaced,) = found.warnings["cloud.checkpoints.topic.replication.factor"]
    assert "write `source->cloud.checkpoints.topic.replication.factor`" in misplaced


def test_14_a_missing_login_is_refused_with_where_to_put_it(check):
    found = check("14", edit=without_stores)
    assert (found.code, list(found.errors)) == (
        2,
        ["cluster-1.security.protocol", "cluster-2.security.protocol"],
    )
    assert "set cluster-1.sasl.jaas.config" in found.errors["cluster-1.security.protocol"]


def test_16_a_policy_of_ones_own_is_the_only_thing_refused(check):
    found = check("16")
    assert (found.code, list(found.errors)) == (2, ["replication.policy.class"])
    for way_out in ("IdentityReplicationPolicy", "mmtool.topic.rename.format"):
        assert way_out in found.errors["replication.policy.class"]
    kept = check(
        "16",
        edit=lambda text: re.sub(
            "com.amazonaws.*", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy", text
        ),
    )
    assert (kept.code, kept.errors) == (0, {})


def test_21_a_protocol_in_front_of_a_server_loads_and_a_comment_in_a_secret_is_said(check):
    found = check("21", "-s", "source", "-t", "target", edit=without_stores)
    assert (found.code, found.errors) == (0, {})
    for alias in ("source", "target"):
        assert any("part of the value" in line for line in found.warnings[f"{alias}.ssl.truststore.password"])
        assert f"{alias}.bootstrap.servers" not in found.warnings
    assert "mmtool adds its patterns to topics.exclude" in found.warnings["topics.blacklist"][0]


def test_21_a_file_that_has_mm2_send_heartbeats_alone_loads_and_says_that_no_flow_is_enabled(check):
    found = check("21", edit=without_stores)
    assert (found.code, found.errors) == (0, {})
    assert "enables no flow, only heartbeats of source->target" in found.loaded


def test_21_a_protocol_that_contradicts_is_said(check):
    other = "source.security.protocol = SASL_PLAINTEXT"
    found = check(
        "21", "-s", "source", "-t", "target",
        edit=lambda text: without_stores(text).replace("source.security.protocol = SASL_SSL", other),
    )  # fmt: skip
    (said,) = found.warnings["source.bootstrap.servers"]
    assert "says SASL_SSL, but security.protocol is SASL_PLAINTEXT" in said


def test_22_a_password_that_begins_with_a_dollar_is_used_as_it_stands(check, authority):
    found = check("22", edit=lambda text: without_stores(text).replace("/kafka-secrets/ca.crt", authority))
    assert found.code == 0
    assert "is used unchanged" in found.warnings["origin.ssl.key.password"][0]
