"""Clusters with certificates, users and the authorizer: who gets in, and who may do what."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kit.kafka_tools import list_topics
from kit.lookups import groups_of
from kit.processes import run_mmtool
from mmtool.lab.cluster import properties_text
from mmtool.lab.load import Load, produce
from mmtool.lab.security.certificates import StoreFormat
from mmtool.lab.security.kinds import ADMIN, GUEST, MMTOOL, SecurityKind
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

TOPIC = "parcels"
KINDS = tuple(SecurityKind)


@pytest.fixture(scope="module", params=KINDS, ids=str)
def pair(request, secured):
    """Two clusters; a topic with records and a group that has read a part of it."""
    started = secured(request.param)
    bootstrap = started.bench.fleet["source"].bootstrap
    create_topic(bootstrap, TOPIC, 2)
    produce(bootstrap, Load(TOPIC, 1_000, 2, 100))
    places = {TopicPartition(TOPIC, number): Commit(20) for number in (0, 1)}
    assert groups_of(bootstrap).alter("app", places) == {}
    return started


@pytest.fixture(scope="module")
def mirrored(pair):
    """The flow's properties file, once ``replicate`` has caught up as the user mmtool."""
    path = pair.properties(TOPIC)
    answer = pair.bench.catch_up(path, "-o", "json")
    assert answer.code == 0, answer.stderr
    return path


def failure_of(pair, user, topic=TOPIC):
    """The error that a user's record ends with; None where it was written."""
    failures = []
    producer = Producer({**pair.client(user), "message.timeout.ms": 15_000})
    producer.produce(topic, b"one", on_delivery=lambda error, _: failures.append(error))
    producer.flush(20)
    return failures[0] and failures[0].name()


def test_the_admin_writes_and_reads(pair):
    create_topic(pair.bench.fleet["source"].bootstrap, "letters")
    failure = failure_of(pair, ADMIN, "letters")
    consumer = Consumer(
        {**pair.client(ADMIN), "group.id": "readers", "auto.offset.reset": "earliest"},
    )
    consumer.subscribe(["letters"])
    message = consumer.poll(30)
    consumer.close()
    assert (failure, message.value()) == (None, b"one")


@pytest.mark.parametrize("user", [GUEST, MMTOOL])
def test_a_user_without_the_right_to_write_is_refused(pair, user):
    assert failure_of(pair, user) == "TOPIC_AUTHORIZATION_FAILED"


def test_a_guest_sees_no_topic(pair):
    assert set(AdminClient(pair.client(GUEST)).list_topics(timeout=20).topics) == set()


@pytest.mark.parametrize("store_format", StoreFormat, ids=str)
def test_mmtool_connects_with_each_format_of_stores(pair, store_format):
    topics = AdminClient(pair.client(ADMIN, store_format)).list_topics(timeout=20).topics
    assert TOPIC in topics


@pytest.mark.parametrize("store_format", StoreFormat, ids=str)
def test_java_clients_connect_with_each_format_of_stores(pair, store_format, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text(properties_text(pair.login(ADMIN, store_format)))
    assert TOPIC in list_topics(pair.secured["source"], config, pair.security.jvm_options())


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_nobody_gets_in_anonymously(pair, protocol):
    config = {
        "bootstrap.servers": pair.secured["source"],
        "security.protocol": protocol,
        "ssl.ca.location": str(pair.security.trust_store(StoreFormat.PEM)),
        "log_level": 0,
    }
    with pytest.raises(KafkaException):
        AdminClient(config).list_topics(timeout=3)


def test_records_are_mirrored_as_the_user_mmtool(pair, mirrored, tmp_path):
    answer = run_mmtool(tmp_path / "run", "status", "-c", str(mirrored), "-o", "json")
    found = {row["partition"]: row["lag_records"] for row in answer.rows if row["topic"] == TOPIC}
    assert (answer.code, found) == (0, {0: 0, 1: 0}), answer.stderr


def test_offsets_are_translated_as_the_user_mmtool(mirrored, tmp_path):
    answer = run_mmtool(tmp_path / "run", "translate-offsets", "-g", "app", "-c", str(mirrored), "-o", "json")
    found = [(row["partition"], row["downstream_offset"], row["exactness"]) for row in answer.rows]
    assert (answer.code, found) == (0, [(0, 20, "exact"), (1, 20, "exact")]), answer.stderr
