"""Values that only Java's clients take, on real brokers: the flow runs, and what they mean is what happens."""

import json
import time

import pytest
from confluent_kafka import Producer

from kit.lookups import commit
from mmtool.lab.topics import create_topic, end_offsets, topics_of

pytestmark = pytest.mark.kafka

CONNECTING = {
    "receive.buffer.bytes": "134217728",
    "send.buffer.bytes": "-1",
    "connections.max.idle.ms": "-1",
    "metadata.max.age.ms": "0",
    "retry.backoff.ms": "0",
    "reconnect.backoff.ms": "20000",
    "reconnect.backoff.max.ms": "0",
    "socket.connection.setup.timeout.ms": "500",
    "client.dns.lookup": "default",
}
OF_CONSUMERS = {
    "fetch.max.bytes": "500000",
    "max.partition.fetch.bytes": "2147483647",
    "max.poll.interval.ms": "30000",
    "session.timeout.ms": "600000",
    "fetch.min.bytes": "0",
}
DAY_MS = 86_400_000


def odd_settings(fleet):
    """Extremes for every client of both clusters, servers with their protocol, and a cluster that cannot be used."""
    lines = {}
    for cluster in fleet:
        lines[f"{cluster.name}.bootstrap.servers"] = f"PLAINTEXT://{cluster.bootstrap},"
        for role in ("admin", "consumer", "producer"):
            lines |= {f"{cluster.name}.{role}.{name}": value for name, value in CONNECTING.items()}
        lines |= {f"{cluster.name}.consumer.{name}": value for name, value in OF_CONSUMERS.items()}
        lines[f"{cluster.name}.producer.acks"] = "0"
    lines["clusters"] = ", ".join([*fleet.clusters, "idle"])
    lines["idle.sasl.mechanism"] = "NTLM"
    lines["idle.security.protocol"] = "SASL_SSL"
    lines["idle->source.topics"] = "(["
    return lines


def beats(fleet):
    return {
        cluster.name: sum(end_offsets(cluster.bootstrap, "heartbeats").values())
        for cluster in fleet
        if "heartbeats" in topics_of(cluster.bootstrap)
    }


def rows_of(ended):
    assert ended.code == 0, ended.stderr
    return json.loads(ended.stdout)["data"]


def test_a_flow_runs_with_every_value_that_java_takes(fleet, bench, topic_name, mmtool):
    topic, secret = topic_name("week"), topic_name("secret")
    source, target = fleet["source"].bootstrap, fleet["target"].bootstrap
    now_ms = int(time.time() * 1000)
    for name in (topic, secret):
        create_topic(source, name, 1)
        producer = Producer({"bootstrap.servers": source, "log_level": 2})
        for days in (9, 8, 6, 0):
            producer.produce(name, str(days).encode(), partition=0, timestamp=now_ms - days * DAY_MS)
            producer.flush(10)
    before = beats(fleet)
    properties = bench.properties(
        f"{topic}, {secret}",
        **odd_settings(fleet),
        **{
            "source.consumer.auto.offset.reset": "by_duration:P7D",
            "topics.blacklist": f"{secret.rpartition('-')[0]}.*",
            "emit.heartbeats.interval.seconds": "-1",
            "sync.topic.acls.interval.seconds": "-1",
            "refresh.topics.interval.seconds": "-1",
        },
    )

    answer = bench.catch_up(properties)

    assert answer.code == 0, answer.stderr
    mirrored = f"source.{topic}"
    assert end_offsets(target, mirrored) == {0: 2}
    assert f"source.{secret}" not in topics_of(target)
    assert beats(fleet) == before
    group = topic_name("readers")
    commit(source, group, topic, 3)
    (row,) = rows_of(mmtool("translate-offsets", "-c", properties, "-g", group, "-o", "json"))
    assert (row["upstream_offset"], row["downstream_offset"], row["exactness"]) == (3, 1, "exact")
    assert [
        found["group"]
        for found in rows_of(mmtool("groups", "audit", "-c", properties, "-g", group, "-o", "json"))
    ]
