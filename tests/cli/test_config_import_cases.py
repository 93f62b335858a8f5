"""``config import`` is right about resources that people run MirrorMaker 2 with (tests/cli/import_cases)."""

from pathlib import Path

import pytest

CASES = Path(__file__).parent / "import_cases"
STRIMZI, CONNECT = ("--strimzi",), ("--connect",)


@pytest.fixture
def imported(mmtool, tmp_path, monkeypatch):
    """Import a case; returns the answer, the file's keys, and its path."""
    monkeypatch.chdir(tmp_path)

    def run(option, case, code=0, edit=lambda text: text):
        given = tmp_path / case
        given.write_text(edit((CASES / case).read_text()))
        path = tmp_path / "mm2.properties"
        ended = mmtool("config", "import", *option, given, "-c", path, "--force")
        assert ended.code == code, ended
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        return ended, dict(line.split(" = ", 1) for line in lines)

    return run


def test_a_failback_leg_whose_source_connector_is_stopped_is_not_enabled(imported):
    ended, keys = imported(STRIMZI, "01-v1-failback-leg-stopped.yaml")
    assert (keys["primary->dr.enabled"], keys["dr->primary.enabled"]) == ("true", "false")
    assert "can be used; flows: primary->dr\n" in ended.stderr
    assert "is stopped, so dr->primary.enabled is false" in ended.stdout
    for flow in ("primary->dr", "dr->primary"):
        assert (keys[f"{flow}.topics"], keys[f"{flow}.groups"]) == ("drc-demo-topic", "cg-drc")
        assert keys[f"{flow}.sync.group.offsets.enabled"] == "true"
    assert keys["emit.heartbeats.enabled"] == "false"
    for alias, other in (("dr", "primary-to-dr"), ("primary", "dr-to-primary")):
        assert keys[f"{alias}.group.id"] == f"mirrormaker2-{other}-cluster"
        assert keys[f"{alias}.offset.storage.topic"] == f"mm2-{other}-offsets"


def test_a_resource_of_event_streams_is_one_of_strimzi_and_its_braces_are_nobodys_text(imported):
    braces = "{{ namespace_prefix }}"
    ended, _ = imported(STRIMZI, "02-eventstreams-restore-from-backup.yaml", code=7)
    assert f"contains text that was not substituted: `{braces}`" in ended.stdout
    assert "same bootstrap servers" not in ended.stdout
    ended, keys = imported(
        STRIMZI,
        "02-eventstreams-restore-from-backup.yaml",
        code=7,
        edit=lambda text: text.replace(braces, ""),
    )
    assert "bootstrap.servers" not in ended.stdout
    flow = {name.removeprefix("europe->northamerica."): value for name, value in keys.items() if "->" in name}
    assert (flow["topics"], flow["groups"], flow["enabled"]) == ("LH.*", "consumer-.*", "true")
    assert (flow["refresh.topics.enabled"], flow["refresh.groups.enabled"]) == ("false", "false")
    assert (flow["offset-syncs.topic.location"], flow["offset.lag.max"]) == ("target", "1")
    assert (flow["emit.checkpoints.enabled"], flow["sync.group.offsets.interval.seconds"]) == ("true", "60")
    assert keys["northamerica.group.id"] == "mm2-restore"
    assert keys["northamerica.offset.storage.topic"] == "__mm2_restore_offsets"
    assert keys["europe.sasl.mechanism"] == "SCRAM-SHA-512"
    assert keys["europe.ssl.truststore.certificates"].endswith("eu-eventstreams-cluster-ca-cert:ca.crt}")
    assert "spec.clusters[0].config.exactly.once.source.support" in ended.stdout


def test_a_key_that_stands_twice_in_json_is_said_and_the_last_value_counts(imported, tmp_path):
    ended, keys = imported(CONNECT, "04-connect-to-event-hubs-key-twice.json", code=7)
    assert keys["AZ.bootstrap.servers"] == "localhost:29093"
    twice = [line for line in ended.stdout.splitlines() if "is set more than once" in line]
    assert len(twice) == 1
    assert "test_mirror: target.cluster.bootstrap.servers" in twice[0]
    assert keys["CC->AZ.topics"] == "demo-azure-json"
    assert keys["CC->AZ.emit.checkpoints.enabled"] == "false"
    text = (tmp_path / "mm2.properties").read_text() + ended.stdout + ended.stderr
    assert "example/Secret" not in text
    assert "ZXhhbXBsZQ" not in text
    assert not [line for line in ended.stdout.splitlines() if line.startswith("differs")]


def test_two_aliases_with_one_set_of_servers_are_said_and_a_misspelt_key_gets_its_nearest(
    imported, mmtool, tmp_path
):
    ended, keys = imported(CONNECT, "06-connect-three-connectors-same-brokers.json")
    assert "sync.topic.configs.enabl" in ended.stdout
    assert "did you mean sync.topic.configs.enabled?" in ended.stdout
    assert keys["kafka-A->kafka-B.sync.group.offsets.enabled"].strip() == "true"
    path = tmp_path / "mm2.properties"
    checked = mmtool("config", "check", "-c", path)
    assert checked.code == 0
    assert checked.stdout.count("kafka-A and kafka-B have the same bootstrap servers") == 1
    both = path.read_text() + "kafka-B->kafka-A.enabled = true\n"
    path.write_text(
        both.replace("kafka-B.bootstrap.servers = \\ ", "kafka-B.bootstrap.servers = LOCALHOST:29094, ")
    )
    assert mmtool("config", "check", "-c", path).stdout.count("have the same bootstrap servers") == 1
    path.write_text(
        both.replace("kafka-B.bootstrap.servers = \\ ", "kafka-B.bootstrap.servers = other:9092,")
    )
    assert "have the same bootstrap servers" not in mmtool("config", "check", "-c", path).stdout
