"""From a Strimzi resource to records on the target of secured clusters."""

import pytest
import yaml

from kit.lab_admin import compare_topics
from kit.load import Load, produce
from kit.processes import run_mmtool
from mmtool.lab.security.certificates import StoreFormat
from mmtool.lab.security.kinds import MMTOOL, SecurityKind
from mmtool.lab.topics import create_topic, topics_of

pytestmark = pytest.mark.kafka

TOPIC, LEFT = "pallets", "invoices"
CONNECTOR = {
    "replication.factor": -1,
    "offset-syncs.topic.replication.factor": 1,
    "sync.topic.acls.enabled": False,
}
LOGIN = {
    "type": "scram-sha-512",
    "username": MMTOOL,
    "passwordSecret": {"secretName": "mm2-user", "password": "password"},
}
CHECKPOINT = {"checkpoints.topic.replication.factor": 1, "sync.group.offsets.enabled": True}


@pytest.fixture(scope="module")
def pair(secured):
    """Two clusters that require TLS and a login, two topics with records, and the rights of the flow."""
    started = secured(SecurityKind.SCRAM)
    bootstrap = started.bench.fleet["source"].bootstrap
    for topic in (TOPIC, LEFT):
        create_topic(bootstrap, topic, 2)
        produce(bootstrap, Load(topic, 1_000, 2, 100))
    started.properties(TOPIC, **{"source->target.heartbeats.replication.enabled": "true"})
    return started


@pytest.fixture
def secrets(pair, tmp_path):
    """A folder with a mounted Secret each for the authority and for the user."""
    contents = {
        "cluster-ca-cert/ca.crt": pair.security.trust_store(StoreFormat.PEM).read_text(),
        "mm2-user/password": pair.security.credentials.passwords[MMTOOL],
    }
    for name, content in contents.items():
        path = tmp_path / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(content)
    return tmp_path / "secrets"


def cluster(pair, side):
    return {
        "alias": side,
        "bootstrapServers": pair.secured[side],
        "tls": {"trustedCertificates": [{"secretName": "cluster-ca-cert", "certificate": "ca.crt"}]},
        "authentication": LOGIN,
    }


def mirrors_as_imported(pair, properties):
    """Mirror once as the user mmtool; the mirrored topics, and the verdicts about their records."""
    answer = pair.bench.catch_up(properties)
    assert answer.code == 0, answer.stderr
    source, target = (pair.bench.fleet[side].bootstrap for side in ("source", "target"))
    verdicts = compare_topics(source, TOPIC, target, f"source.{TOPIC}")
    mirrors = {topic for topic in topics_of(target) if topic.endswith((TOPIC, LEFT))}
    return mirrors, {partition: verdict.is_identical for partition, verdict in verdicts.items()}


def test_a_resource_becomes_a_flow_that_mirrors_its_topics(pair, secrets, tmp_path):
    spec = {
        "replicas": 1,
        "target": cluster(pair, "target")
        | {"groupId": "dr", "configStorageTopic": "c", "offsetStorageTopic": "o", "statusStorageTopic": "s"},
        "mirrors": [
            {
                "source": cluster(pair, "source"),
                "sourceConnector": {"tasksMax": 1, "config": CONNECTOR},
                "checkpointConnector": {"config": CHECKPOINT},
                "topicsPattern": TOPIC,
            }
        ],
    }
    resource = {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "dr"},
        "spec": spec,
    }
    (tmp_path / "dr.yaml").write_text(yaml.safe_dump(resource))
    properties = tmp_path / "strimzi.properties"
    options = ("--strimzi", str(tmp_path / "dr.yaml"), "--secrets-dir", str(secrets), "-c", str(properties))
    imported = run_mmtool(tmp_path / "import", "config", "import", *options)
    assert imported.code == 0, imported.stderr
    assert mirrors_as_imported(pair, properties) == ({f"source.{TOPIC}"}, {0: True, 1: True})
