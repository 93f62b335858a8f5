"""Needed topics as commands of Kafka's tools, and as Strimzi's documents."""

import re
import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.plan.topics.facts import CreateTopic
from mmtool.plan.topics.requirements import needed_topic
from mmtool.rights.topic_texts import kafka_topics, strimzi_topics

SERVERS = {"b": "b-1:9092,b-2:9092"}
ORDERS = CreateTopic("orders", "a.orders", 4, 2, {"cleanup.policy": "compact,delete", "segment.ms": "1000"})
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def commands(*topics):
    return [
        shlex.split(line) for line in kafka_topics(topics, SERVERS).splitlines() if not line.startswith("#")
    ]


def test_a_missing_topic_is_created_with_partitions_replicas_and_configs():
    assert commands(needed_topic("b", ORDERS, None, {})) == [
        ["kafka-topics.sh", "--bootstrap-server", SERVERS["b"], "--create", "--if-not-exists", "--topic", "a.orders",
         "--partitions", "4", "--replication-factor", "2", "--config", "cleanup.policy=compact,delete",
         "--config", "segment.ms=1000"]
    ]  # fmt: skip


def test_the_brokers_default_is_no_replication_factor():
    topic = needed_topic("b", CreateTopic("", "t", 1, -1, {}), None, {})
    assert "--replication-factor" not in commands(topic)[0]
    assert "replicas" not in yaml.safe_load(strimzi_topics([topic]))["spec"]


def test_what_differs_is_changed_and_named():
    there = {"cleanup.policy": ConfigEntry("delete", ConfigOrigin.OVERRIDE, on_topic=True)}
    text = kafka_topics([needed_topic("b", ORDERS, 1, there)], SERVERS)
    create, reason, grow, alter = text.splitlines()[1:]
    assert "--create --if-not-exists" in create
    assert reason.startswith("# topic a.orders on b has 1 partition instead of 4")
    assert grow.endswith("--alter --topic a.orders --partitions 4")
    assert shlex.split(alter)[-1] == "cleanup.policy=[compact,delete]"


def test_a_topic_that_is_ready_gets_no_other_command_than_its_creation():
    assert [words[3] for words in commands(needed_topic("b", ORDERS, 6, {}))] == ["--create"]


def test_partitions_that_are_too_many_have_no_command():
    topic = CreateTopic("", "mmtool-control.a.internal", 1, 1, {})
    text = kafka_topics([needed_topic("b", topic, 3, {})], SERVERS)
    assert "# no command removes partitions" in text
    assert "--alter" not in text


def test_a_document_has_the_topic_as_it_has_to_be():
    (document,) = yaml.safe_load_all(strimzi_topics([needed_topic("b", ORDERS, 6, {})]))
    assert (document["kind"], document["metadata"]["labels"]) == ("KafkaTopic", {"strimzi.io/cluster": "b"})
    assert document["spec"] == {
        "topicName": "a.orders",
        "partitions": 6,
        "replicas": 2,
        "config": dict(ORDERS.configs),
    }


@given(st.lists(st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True), unique=True, max_size=5))
def test_every_topic_gets_a_name_of_its_own_that_kubernetes_accepts(names):
    topics = [needed_topic("b", CreateTopic("", name, 1, 1, {}), None, {}) for name in names]
    documents = list(yaml.safe_load_all(strimzi_topics(topics)))
    found = [document["metadata"]["name"] for document in documents]
    assert [document["spec"]["topicName"] for document in documents] == names
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", name) and len(name) <= 253 for name in found)


def test_a_topic_of_two_clusters_has_two_names_in_one_namespace():
    topics = [needed_topic(alias, CreateTopic("", "heartbeats", 1, 1, {}), None, {}) for alias in "ab"]
    documents = list(yaml.safe_load_all(strimzi_topics(topics)))
    assert [one["metadata"]["name"] for one in documents] == ["heartbeats.a", "heartbeats.b"]
    assert {one["spec"]["topicName"] for one in documents} == {"heartbeats"}


@pytest.mark.parametrize("name", ["Orders", "orders_eu", "-orders", "a..b"])
def test_a_name_that_kubernetes_refuses_is_replaced(name):
    (document,) = yaml.safe_load_all(
        strimzi_topics([needed_topic("b", CreateTopic("", name, 1, 1, {}), 1, {})])
    )
    assert document["metadata"]["name"] != name
