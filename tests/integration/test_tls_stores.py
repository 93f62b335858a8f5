"""Brokers that ask each client for a certificate, and mmtool with the JKS and PKCS12 stores of Java's clients."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kit.bench import Bench
from kit.keytool import STORE_PASSWORD, Keytool
from kit.lookups import groups_of
from kit.processes import run_mmtool
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.load import Load, produce
from mmtool.lab.ports import PortReservation
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

HERE = "127.0.0.1"
TOPIC = "parcels"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Clients have certificates of an authority in between: brokers trust the root alone."""
    keytool = Keytool(tmp_path_factory.mktemp("stores"))
    root = keytool.key("root", "PKCS12", "-ext", "bc:c")
    middle = keytool.key("middle", "PKCS12", "-ext", "bc:c")
    chain = keytool.issue(middle, root, "-ext", "bc:c")
    authority = keytool.certificate(root)
    for store_type, ending in (("JKS", "jks"), ("PKCS12", "pfx")):
        keytool.trust(f"trust.{ending}", authority, store_type)
        keytool.issue(keytool.key(f"broker.{ending}", store_type), root, "-ext", f"san=ip:{HERE}")
        own = ("-keypass", "of-the-key") if store_type == "JKS" else ()
        client = keytool.key(f"client.{ending}", store_type)
        keytool.issue(client, middle, chain=chain)
        if own:
            keytool.run(
                *("-keypasswd", "-keystore", client, "-storepass", STORE_PASSWORD, "-alias", "own"),
                *("-keypass", STORE_PASSWORD, "-new", "of-the-key"),
            )
    return keytool.folder


def shape(stores, ending, port):
    own, tls = f"PLAINTEXT://{HERE}:{{port}}", f"SSL://{HERE}:{port}"
    return Shape(
        properties={
            "listeners": f"{own},CONTROLLER://{HERE}:{{controller_port}},{tls}",
            "advertised.listeners": f"{own},{tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.client.auth": "required",
            "ssl.keystore.location": f"{stores}/broker.{ending}",
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.location": f"{stores}/trust.{ending}",
            "ssl.truststore.password": STORE_PASSWORD,
        }
    )


@pytest.fixture(scope="module")
def bench(stores, tmp_path_factory):
    """The source's clients have JKS stores, the target's PKCS12 stores whose type is not set."""
    directory = tmp_path_factory.mktemp("tls")
    ports = PortReservation()
    lines, clusters = {}, []
    for name, ending in (("source", "jks"), ("target", "pfx")):
        port = ports.take()
        lines |= {
            f"{name}.bootstrap.servers": f"{HERE}:{port}",
            f"{name}.security.protocol": "SSL",
            f"{name}.ssl.truststore.location": f"{stores}/trust.{ending}",
            f"{name}.ssl.truststore.password": STORE_PASSWORD,
            f"{name}.ssl.keystore.location": f"{stores}/client.{ending}",
            f"{name}.ssl.keystore.password": STORE_PASSWORD,
        }
        clusters.append(Cluster(name, directory / name, shape(stores, ending, port)))
    lines["source.ssl.key.password"] = "of-the-key"
    with ExitStack() as ends, Fleet(clusters) as fleet:
        ends.callback(ports.release)
        yield Bench(fleet, directory, lines)


@pytest.fixture(scope="module")
def mirrored(bench):
    """A topic, a group that has read a part of it, and ``replicate`` that has caught up."""
    bootstrap = bench.fleet["source"].bootstrap
    create_topic(bootstrap, TOPIC, 2)
    produce(bootstrap, Load(TOPIC, 1_000, 2, 100))
    places = {TopicPartition(TOPIC, number): Commit(20) for number in (0, 1)}
    assert groups_of(bootstrap).alter("app", places) == {}
    path = bench.properties(TOPIC)
    answer = bench.catch_up(path, "-o", "json")
    assert answer.code == 0, answer.stderr
    return path


def test_offsets_are_translated_with_jks_and_pkcs12_stores(mirrored, tmp_path):
    answer = run_mmtool(tmp_path / "run", "translate-offsets", "-g", "app", "-c", str(mirrored), "-o", "json")
    found = [(row["partition"], row["downstream_offset"], row["exactness"]) for row in answer.rows]
    assert (answer.code, found) == (0, [(0, 20, "exact"), (1, 20, "exact")]), answer.stderr
