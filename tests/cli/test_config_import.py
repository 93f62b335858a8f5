"""``mmtool config import`` writes a file that the other commands can use, or says what is missing."""

import json

import pytest

RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: dr, namespace: kafka}
spec:
  replicas: 2
  connectCluster: west
  clusters:
  - alias: east
    bootstrapServers: east:9092
    authentication: {type: plain, username: mm2, passwordSecret: {secretName: user, password: pw}}
  - {alias: west, bootstrapServers: "west:9092"}
  mirrors:
  - sourceCluster: east
    targetCluster: west
    sourceConnector: {config: {replication.factor: -1}}
    checkpointConnector: {}
    topicsPattern: "orders.*"
"""
CONNECTOR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "east",
    "target.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "east:9092",
    "target.cluster.bootstrap.servers": "west:9092",
}
CHECKPOINT = CONNECTOR | {"connector.class": "MirrorCheckpointConnector"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The current folder, with a resource, its mounted secret and two connectors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MMTOOL_CONFIG", raising=False)
    (tmp_path / "dr.yaml").write_text(RESOURCE)
    (tmp_path / "source.json").write_text(json.dumps(CONNECTOR))
    (tmp_path / "checkpoint.json").write_text(json.dumps({"name": "checkpoint", "config": CHECKPOINT}))
    secret = tmp_path / "secrets" / "user" / "pw"
    secret.parent.mkdir(parents=True)
    secret.write_text("hush\n")
    secret.chmod(0o600)
    return tmp_path


def strimzi(mmtool, place, *more):
    return mmtool("config", "import", "--strimzi", "dr.yaml", "--secrets-dir", place / "secrets", *more)


def test_a_resource_whose_secrets_are_in_place_becomes_a_file_that_the_check_accepts(mmtool, place):
    ended = strimzi(mmtool, place)
    assert ended.code == 0
    assert "mm2.properties can be used; flows: east->west" in ended.stderr
    assert "mmtool replicate -c mm2.properties --take-over" in ended.stderr
    assert mmtool("config", "check", "-c", "mm2.properties").code == 0
    assert "hush" not in ended.stdout + ended.stderr + (place / "mm2.properties").read_text()


def test_only_its_owner_can_read_the_file(mmtool, place):
    strimzi(mmtool, place, "-c", "west.properties")
    assert (place / "west.properties").stat().st_mode & 0o777 == 0o600


def test_a_missing_secret_ends_with_7_and_is_named(mmtool, place):
    (place / "secrets" / "user" / "pw").unlink()
    ended = strimzi(mmtool, place, "-o", "json")
    document = json.loads(ended.stdout)
    rows = {row["kind"]: row for row in document["data"]}
    assert (ended.code, document["errors"][-1]["code"]) == (7, "not_usable_yet")
    assert rows["secret"]["path"] == "Secret kafka/user, key pw"
    assert rows["error"]["path"] == "mm2.properties:18:east.sasl.jaas.config"
    assert rows["left_out"]["path"] == "dr: spec.replicas"
    assert (place / "mm2.properties").exists()


def test_a_file_that_is_there_is_kept_without_force(mmtool, place):
    (place / "mm2.properties").write_text("mine")
    kept, forced = strimzi(mmtool, place), strimzi(mmtool, place, "--force")
    assert (kept.code, forced.code) == (3, 0)
    assert "mm2.properties exists and was not changed" in kept.stderr
    assert (place / "mm2.properties").read_text() != "mine"


def test_connectors_are_read_from_several_files(mmtool, place):
    ended = mmtool("config", "import", "--connect", "source.json", "checkpoint.json")
    assert ended.code == 0
    assert "emit.checkpoints.enabled" not in (place / "mm2.properties").read_text()


def test_a_secret_in_clear_text_appears_in_no_output(mmtool, place):
    secret = CONNECTOR | {
        "source.cluster.ssl.key.password": "hush",
        "source.cluster.security.protocol": "SSL",
    }
    (place / "source.json").write_text(json.dumps(secret))
    for more in ((), ("--keep-secrets", "--force", "-o", "json")):
        ended = mmtool("config", "import", "--connect", "source.json", "checkpoint.json", *more)
        assert "hush" not in ended.stdout + ended.stderr
    assert "east.ssl.key.password = hush" in (place / "mm2.properties").read_text()


def test_a_transformation_has_to_be_removed_by_hand(mmtool, place):
    changed = CONNECTOR | {"transforms": "route", "transforms.route.type": "io.Route"}
    (place / "source.json").write_text(json.dumps(changed))
    ended = mmtool("config", "import", "--connect", "source.json", "checkpoint.json")
    assert ended.code == 7
    assert "mmtool runs no Java class but Filter and DropHeaders" in ended.stdout


def test_a_file_that_is_too_large_is_not_read(mmtool, place):
    (place / "dr.yaml").write_bytes(b" " * ((2 << 20) + 1))
    ended = strimzi(mmtool, place)
    assert (ended.code, "dr.yaml: more than 2 MiB" in ended.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to import"),
        (("--strimzi", "dr.yaml", "--connect", "source.json"), "--strimzi and --connect exclude each other"),
        (("--strimzi", "no.yaml"), "no.yaml: No such file or directory"),
        (("--strimzi", "source.json"), "source.json has no KafkaMirrorMaker2 with a connector"),
        (("--connect", "dr.yaml"), "dr.yaml:1: not valid JSON"),
        (("--connect", "source.json", "-c", "no/mm2.properties"), "no/mm2.properties cannot be written"),
    ],
)
def test_nothing_is_written_when_the_input_cannot_be_used(mmtool, place, arguments, message):
    ended = mmtool("config", "import", *arguments)
    assert (ended.code, message in ended.stderr) == (2, True)
    assert not list(place.glob("**/*mm2.properties*"))
