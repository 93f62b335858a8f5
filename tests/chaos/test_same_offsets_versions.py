"""``mmtool.offsets = same`` on the oldest and the newest brokers, one and three of them, record by record.

And a group whose commits Kafka's own tool copied reads on the target what it has not read on the source.
"""

import time

import pytest

from kit.consumers import consume
from kit.kafka_tools import consumer_groups
from kit.lookups import groups_of
from kit.mirror_flow import flow_of, mirror
from kit.same_offsets import KINDS, check_growing, transactional
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(1800)]

IDENTICAL = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.fixture(
    scope="module",
    params=[(version, brokers) for version in ("3.9.1", "4.4.0") for brokers in (1, 3)],
    ids=lambda of: f"{of[0]}-{of[1]}",
)
def pair(request, tmp_path_factory):
    version, brokers = request.param
    fleet = Fleet.of(tmp_path_factory.mktemp("pair"), "source", "target", shape=Shape(brokers, version))
    with fleet:
        yield fleet
    fleet.remove_data()


@pytest.mark.parametrize("write", KINDS)
def test_every_record_has_its_sources_offset(pair, tmp_path, topic_name, write):
    topic, ends = topic_name("same"), (pair["source"].bootstrap, pair["target"].bootstrap)
    more = {"mmtool.offsets": "same", "replication.policy.class": IDENTICAL}
    flow = flow_of(pair, tmp_path, "source", "target", topic, **more)
    check_growing(ends, flow, topic, write)


def test_commits_that_kafkas_own_tool_copied_are_right(pair, tmp_path, topic_name):
    topic, (source, target) = topic_name("same"), (pair["source"].bootstrap, pair["target"].bootstrap)
    more = {"mmtool.offsets": "same", "replication.policy.class": IDENTICAL}
    flow, group = flow_of(pair, tmp_path, "source", "target", topic, **more), f"app-{time.monotonic_ns()}"
    transactional(source, topic)
    mirror(flow)
    commits = {TopicPartition(topic, number): Commit(100 + 31 * number) for number in range(2)}
    assert groups_of(source).alter(group, commits) == {}
    export = ("--group", group, "--topic", topic, "--reset-offsets", "--to-current", "--dry-run", "--export")
    lines = [line for line in consumer_groups(source, *export).splitlines() if topic in line]
    assert len(lines) > 0
    copied = tmp_path / "commits.csv"
    copied.write_text("\n".join(lines) + "\n")
    consumer_groups(target, "--group", group, "--reset-offsets", "--from-file", str(copied), "--execute")
    read = [(record.partition, record.offset) for record in consume(target, group, [topic])]
    whole = [(record.partition, record.offset) for record in read_topic(source, topic)]
    assert sorted(read) == [
        at for at in sorted(whole) if at[1] >= commits[TopicPartition(topic, at[0])].offset
    ]
