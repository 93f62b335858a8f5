"""What groups are expected to read again after an emergency, by the rates at which `replicate` saw them commit."""

from __future__ import annotations

import threading
import time

import pytest

from kit.black_hole import BlackHole
from kit.exactness import flow_identity
from kit.lookups import groups_of
from mmtool.kafka.state.flow_state import KafkaFlowState
from mmtool.lab.load import Load, produce
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]

PATIENCE_SECONDS = 60
RECORDS, PER_SECOND, MEASURED_SECONDS, UNSEEN_SECONDS = 20_000, 100, 8, 4


class Committing:
    """A group that commits steadily on the source; a context manager."""

    def __init__(self, bootstrap, group, place):
        self._groups, self._group, self._place = groups_of(bootstrap), group, place
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.offset = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        began = time.monotonic()
        while not self._stopped.wait(0.2):
            offset = int((time.monotonic() - began) * PER_SECOND)
            assert self._groups.alter(self._group, {self._place: Commit(offset)}) == {}
            self.offset = offset


def test_a_group_that_commits_steadily_is_expected_to_read_again_what_it_read_unseen_and_an_idle_one_nothing(
    bench, mmtool, measured
):
    topic = f"expected-{time.monotonic_ns()}"
    steady, idle, place = f"{topic}-steady", f"{topic}-idle", TopicPartition(topic, 0)
    source = bench.fleet["source"].bootstrap
    how = {"source->target.groups": f"{topic}-.*", "emit.checkpoints.interval.seconds": "1"}
    properties = bench.properties(topic, **how)
    create_topic(source, topic, 1)
    produce(source, Load(topic, RECORDS, 1, record_bytes=100))
    assert groups_of(source).alter(idle, {place: Commit(100)}) == {}
    state = KafkaFlowState(bench.flow(properties).target)
    identity = flow_identity(bench.fleet["source"], bench.fleet["target"])

    def rates():
        return {r.group: r.rate(*place) for r in state.control(identity).rates.values()}

    with Committing(source, steady, place) as committing, bench.start(properties) as process:
        wait_until(lambda: {steady, idle} <= rates().keys(), "both groups' rates", PATIENCE_SECONDS)
        time.sleep(MEASURED_SECONDS)
        process.freeze()
        time.sleep(UNSEEN_SECONDS)
        with BlackHole() as hole:
            unreachable = bench.properties(topic, **how, **{"source.bootstrap.servers": hole.bootstrap})
            ended = mmtool(
                *("failover", "emergency", "-g", steady, "-g", idle, "-c", unreachable, "-o", "json")
            )
        read = committing.offset
    assert ended.code == 0, ended
    (row,) = ended.rows
    found = {group["group"]: group["partitions"][0] for group in row["groups"]}
    unseen, expected = read - found[steady]["downstream_offset"], found[steady]["reread_expected"]
    measured(f"emergency: {expected} records expected to be read again, {unseen} were committed unseen")
    assert unseen >= UNSEEN_SECONDS * PER_SECOND / 2
    assert unseen / 3 <= expected <= unseen * 3
    assert found[idle]["reread_expected"] == 0
    assert found[idle]["reread_max"] == RECORDS - 100
    assert row["reread_expected"] == expected
    assert (
        f"records are read again, and probably about {expected:,}, estimated from how fast the groups"
        in ended.stderr
    )
