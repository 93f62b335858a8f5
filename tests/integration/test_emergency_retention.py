"""An emergency behind the target's retention, where both clusters write one topic: the loss is told, and is no larger.

The group has read the source's log in part, so some records that the target deleted are read, and some are not.
"""

from __future__ import annotations

import time

import pytest

from kit.black_hole import BlackHole
from kit.consumers import consume
from kit.lab_admin import delete_records
from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]

PER_SIDE, READ, DELETED = 40, 50, 70
WAYS = (("source", "target"), ("target", "source"))


def bare(records):
    return {(record.key, record.value) for record in records}


@pytest.fixture
def pair(bench):
    """Two stretches of each side's records among each other; the group has read a part on the source."""
    topic = f"retained-{time.monotonic_ns()}"
    how = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "target->source.enabled": "true",
        "target->source.topics": topic,
        "groups": f"{topic}-.*",
    }
    properties = bench.properties(topic, **how)
    for side, _ in WAYS:
        create_topic(bench.fleet[side].bootstrap, topic, 1)
    for number in range(2):
        for at, (here, there) in enumerate(WAYS):
            first = (2 * number + at) * PER_SIDE
            load = Load(topic, PER_SIDE, 1, 100, keys="sequence", first_sequence=first)
            produce(bench.fleet[here].bootstrap, load)
            assert bench.catch_up(properties, "-s", here, "-t", there).code == 0
    read = consume(bench.fleet["source"].bootstrap, f"{topic}-app", [topic], READ)
    assert bench.catch_up(properties, "-s", "source", "-t", "target").code == 0
    return topic, read, lambda **extra: bench.properties(topic, **how, **extra)


def test_what_the_target_deleted_unread_is_told_as_lost_with_one_name_on_both_sides(
    pair, bench, mmtool, measured
):
    topic, read, properties = pair
    target = bench.fleet["target"].bootstrap
    before = bare(read_topic(target, topic))
    delete_records(target, topic, DELETED)
    deleted = before - bare(read_topic(target, topic))
    with BlackHole() as hole:
        gone = {"source.bootstrap.servers": hole.bootstrap, "emit.checkpoints.interval.seconds": "600"}
        lost = properties(**gone)  # so long an end that was seen counts
        line = ("failover", "emergency", "-s", "source", "-t", "target", "-g", f"{topic}-app", "-c", lost)
        rehearsal = mmtool(*line, "-o", "json")
        refused = mmtool(*line, "--execute", "--yes", "-o", "json")
        moved = mmtool(*line, "--accept-data-loss", "--execute", "--yes", "-o", "json")
    (found,) = rehearsal.rows[0]["groups"][0]["partitions"]
    unread = len(deleted - bare(read))
    measured(
        f"one name, {len(deleted)} deleted: {unread} unread, {found['lost_max']} told as lost at the most"
    )
    assert (found["downstream_offset"], 0 < unread <= found["lost_max"] <= DELETED) == (DELETED, True), found
    assert f"at most {found['lost_max']} records are lost" in rehearsal.stderr
    assert (refused.code, moved.code) == (3, 0), moved.stderr
    after = bare(consume(target, f"{topic}-app", [topic]))
    assert before - deleted - bare(read) <= after
