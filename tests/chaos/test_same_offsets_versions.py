"""``mmtool.offsets = same`` on the oldest and the newest brokers, one and three of them, record by record.

And a group whose commits Kafka's own tool copied reads on the target what it has not read on the source.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from kit.consumers import consume
from kit.kafka_tools import consumer_groups
from kit.mirror_flow import flow_of
from kit.same_offsets import KINDS, RECORDS, check_same, compacted, mirror
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import end_offsets

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
    write(ends[0], topic)
    asyncio.run(mirror(flow))
    check_same(ends, flow, topic)
    before = end_offsets(ends[0], topic)
    write(ends[0], topic, RECORDS)
    asyncio.run(mirror(flow))
    check_same(ends, flow, topic, before if write is compacted else None)


def test_commits_that_kafkas_own_tool_copied_are_right(pair, tmp_path, topic_name):
    topic, (source, target) = topic_name("same"), (pair["source"].bootstrap, pair["target"].bootstrap)
    more = {"mmtool.offsets": "same", "replication.policy.class": IDENTICAL}
    flow, group = flow_of(pair, tmp_path, "source", "target", topic, **more), f"app-{time.monotonic_ns()}"
    KINDS[1](source, topic)
    asyncio.run(mirror(flow))
    read = consume(source, group, [topic], RECORDS // 3)
    export = ("--group", group, "--topic", topic, "--reset-offsets", "--to-current", "--dry-run", "--export")
    lines = [line for line in consumer_groups(source, *export).splitlines() if line.startswith(f'"{topic}"')]
    copied = tmp_path / "commits.csv"
    copied.write_text("\n".join(lines) + "\n")
    consumer_groups(target, "--group", group, "--reset-offsets", "--from-file", str(copied), "--execute")
    read += consume(target, group, [topic])
    places = [(record.partition, record.offset) for record in read]
    whole = [(record.partition, record.offset) for record in consume(source, f"{group}-all", [topic])]
    assert sorted(places) == sorted(whole)
