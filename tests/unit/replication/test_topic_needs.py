"""The list of needed topics also has those that exist only once the others of the list do."""

import os
from types import SimpleNamespace

import pytest

from mmtool.config import load_settings
from mmtool.insight.flow_now import FlowClusters
from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.plan.topics.facts import TopicFacts
from mmtool.plan.topics.requirements import needed_topic
from mmtool.replication.topics import topic_needs
from mmtool.replication.topics.topic_needs import TopicNeeds

FILE = """\
clusters = a, b, c
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
c.bootstrap.servers = c:9092
a->b.enabled = true
b->c.enabled = true
topics = orders, a.orders
emit.offset-syncs.enabled = false
emit.checkpoints.enabled = false
"""
ORDERS = {
    "cleanup.policy": ConfigEntry("compact", ConfigOrigin.OVERRIDE, on_topic=True),
    "min.insync.replicas": ConfigEntry("2", ConfigOrigin.OVERRIDE, on_topic=True),
    "segment.ms": ConfigEntry("100", ConfigOrigin.DEFAULT, on_topic=False),
}


class Admin:
    """Shows the configs of ``orders`` on a; no cluster has any other topic."""

    shows = True

    def __init__(self, cluster):
        self.alias = cluster.alias

    def configs(self, names):
        return {name: ORDERS for name in names if self.shows}

    def compare(self, topics):
        return [needed_topic(self.alias, topic, None, {}) for topic in topics]


@pytest.fixture
def needs(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_needs, "TopicAdmin", Admin)

    def of(*lines, **options):
        path = tmp_path / "mm2.properties"
        path.write_text(FILE + "\n".join(lines))
        settings = load_settings(path, os.environ)

        def cluster(alias):
            there = {"orders": TopicFacts("orders", "id", 3)} if alias == "a" else {}
            return SimpleNamespace(alias=alias, topics=lambda: there, probe=lambda: f"id-{alias}")

        flows = [
            FlowClusters(flow, cluster(flow.source.alias), cluster(flow.target.alias), None)
            for flow in settings.flows
        ]
        return TopicNeeds(flows, settings.heartbeats_only, **options)

    return of


def mirrors(needs):
    return {
        (topic.cluster, topic.topic): (topic.source_topic, topic.partitions)
        for topic in needs.topics()
        if topic.source_topic and "heartbeats" not in topic.topic
    }


def test_a_mirror_of_a_mirror_is_listed_before_the_first_mirror_exists(needs):
    assert mirrors(needs()) == {("b", "a.orders"): ("orders", 3), ("c", "b.a.orders"): ("a.orders", 3)}


def test_a_mirror_has_the_configs_of_its_topic_and_those_of_defaults_are_left_out(needs):
    found = {topic.topic: topic.configs for topic in needs().topics()}
    assert found["a.orders"] == found["b.a.orders"]
    assert found["a.orders"]["cleanup.policy"] == "compact"
    assert "segment.ms" not in found["a.orders"]


def test_heartbeats_and_their_mirrors_are_listed_for_each_pair(needs):
    found = {(topic.cluster, topic.topic) for topic in needs().topics()}
    beats = {(alias, name) for alias, name in found if "heartbeats" in name}
    assert {("a", "heartbeats"), ("b", "heartbeats"), ("b", "a.heartbeats"), ("c", "b.heartbeats")} <= beats
    assert ("c", "b.a.heartbeats") in beats


def test_each_flow_has_its_own_internal_topics_once(needs):
    found = [(topic.cluster, topic.topic) for topic in needs().topics() if topic.topic.startswith("mmtool-")]
    assert len(found) == len(set(found)) == 8
    assert {("b", "mmtool-control.a.internal"), ("c", "mmtool-control.b.internal")} <= set(found)


def test_dead_letter_topics_are_listed_where_a_flow_writes_them(needs):
    found = {topic.topic: topic.partitions for topic in needs("mmtool.on.oversize = dead-letter").topics()}
    assert found["a.orders.mmtool-dlq"] == 3
    assert not any(name.endswith(".mmtool-dlq") for name in (topic.topic for topic in needs().topics()))


def test_the_canary_and_its_mirrors_are_listed_only_where_they_are_asked_for(needs):
    assert ("a", "mmtool-canary") not in {(topic.cluster, topic.topic) for topic in needs().topics()}
    assert ("b", "a.mmtool-canary") in mirrors(needs(canary=True))


def test_a_topic_that_hides_its_configs_is_left_out_with_a_warning(needs, monkeypatch):
    monkeypatch.setattr(Admin, "shows", False)
    found = needs()
    assert mirrors(found) == {}
    (said,) = found.warnings
    assert said.startswith("mirrors were left out: topic orders of a does not show its configuration: ")
    assert said.endswith("has DESCRIBE_CONFIGS on it")
