"""Real share and streams groups on the target that have the name of a consumer group of the source."""

import json
import subprocess

import pytest
from confluent_kafka import Consumer

from kit.consumers import consume
from kit.kafka_tools import java_source
from kit.load import Load, produce
from kit.mirror_flow import mirror
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic

RECORDS = 20
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def flow(bench):
    """A topic that is mirrored; groups ``fans``, ``words`` and ``app`` have read it on the source."""
    source = bench.fleet["source"].bootstrap
    create_topic(source, "kinds", 1)
    produce(source, Load("kinds", RECORDS, 1, 100))
    for group in ("fans", "words", "app"):
        consume(source, group, ["kinds"])
    properties = bench.properties("kinds")
    mirror(bench.flow(properties))
    return properties


def leave_a_static_member(bootstrap, group, protocol):
    """A consumer reads the topic, commits, and closes."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": "host-1",
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["kinds"])
    wait_until(lambda: consumer.poll(1.0) is not None, "a record", PATIENCE_SECONDS)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(("protocol", "closed"), [("classic", ""), ("consumer", ", closed")])
def test_a_static_member_that_has_closed_is_named_and_can_be_removed(mmtool, flow, bench, protocol, closed):
    source, group = bench.fleet["source"].bootstrap, f"static-{protocol}"
    leave_a_static_member(source, group, protocol)
    line = ("failover", "planned", "-c", flow, "-g", group, "-o", "json")
    refused = mmtool(*line)
    (error,) = json.loads(refused.stdout)["errors"]
    assert (refused.code, error["code"]) == (3, "active_on_source"), refused
    assert f"(group.instance.id host-1{closed})" in error["message"]
    assert "a static member that has closed stays until its session times out" in error["message"]
    assert (
        f"removeMembersFromConsumerGroup for group {group} with group.instance.id host-1" in error["remedy"]
    )
    with java_source("RemoveStaticMember", source, group, "host-1") as command:
        subprocess.run(command, check=True, capture_output=True)
    answer = mmtool(*line)
    assert answer.code == 0, answer
