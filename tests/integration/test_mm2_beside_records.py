"""What is mirrored beside records, judged by MM2's own client library: one flow, with all of MM2's switches on.

Both clusters have an authorizer, as rules about topics are mirrored as well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kit.acls import GUARDED
from kit.bench import Bench
from kit.kafka_tools import ask_mirror_client
from kit.load import Load, Transactions, produce
from kit.lookups import commit, groups_of
from kit.processes import run_mmtool
from mmtool.errors import MmtoolError
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, read_topic
from mmtool.translation.mm2_records import Heartbeat, decode_heartbeat

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config import FlowSettings

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

PATIENCE_SECONDS = 30
EVERY_SECOND = {
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "source->target.heartbeats.replication.enabled": "true",
}


@dataclass(frozen=True)
class Flow:
    """A flow that runs, with one topic of two partitions, half of whose records are in transactions."""

    fleet: Fleet
    settings: FlowSettings
    properties: Path
    topic: str = "mirrored"
    remote: str = "source.mirrored"

    def commit(self, group, *offsets):
        """Commits on the source, partition by partition; None leaves one out."""
        commit(self.fleet["source"].bootstrap, group, self.topic, *offsets)

    def there(self, group):
        """What is committed on the target, by partition."""
        commits = groups_of(self.fleet["target"].bootstrap).commits([group])[group]
        return {place.partition: commit.offset for place, commit in commits.items()}

    def comes(self, group, *offsets):
        expected = {number: offset for number, offset in enumerate(offsets) if offset is not None}
        wait_until(lambda: self.there(group) == expected, f"{expected} for {group}", PATIENCE_SECONDS)

    def translated(self, folder, group):
        """What translate-offsets answers, by partition."""
        line = ("translate-offsets", "-c", str(self.properties), "-g", group, "-o", "json")
        answer = run_mmtool(folder / f"asked-{time.monotonic_ns()}", *line)
        assert answer.code == 0, answer.stderr
        return {row["partition"]: row["downstream_offset"] for row in answer.rows}


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mm2")
    with Fleet.of(folder, "source", "target", shape=Shape(properties=GUARDED)) as fleet:
        source, bench = fleet["source"].bootstrap, Bench(fleet, folder)
        properties = bench.properties(f"{Flow.topic}.*", **EVERY_SECOND)
        create_topic(source, Flow.topic, 2)
        produce(source, Load(Flow.topic, 1000, 2, 100))
        in_transactions = Transactions(Flow.topic, 20, 3)
        produce(source, Load(Flow.topic, 1000, 2, 100, transactions=in_transactions, first_sequence=500))
        with bench.start(properties) as process:
            process.wait_line("caught_up")
            yield Flow(fleet, bench.flow(properties), properties)
            answer = process.stop()
            assert (answer.code, "tried again" in answer.stderr) == (143, False), answer.stderr
    fleet.remove_data()


# --- heartbeats -------------------------------------------------------------------------------------------


def beats(cluster, topic):
    """Which pairs of clusters a topic's heartbeats are of; none where the topic is not there."""
    try:
        records = read_topic(cluster.bootstrap, topic)
    except MmtoolError:  # it is to come
        return set()
    found = [decode_heartbeat(record.key, record.value) for record in records]
    return {(beat.source_alias, beat.target_alias) for beat in found if isinstance(beat, Heartbeat)}


def test_both_clusters_hear_that_the_flow_is_alive(flow):
    assert beats(flow.fleet["target"], "heartbeats") == {("source", "target")}
    assert beats(flow.fleet["source"], "heartbeats") == {("target", "source")}


def test_mm2_s_own_client_counts_the_hop(flow):
    wait_until(lambda: beats(flow.fleet["target"], "source.heartbeats"), "mirrored beats", PATIENCE_SECONDS)
    answers = ask_mirror_client(flow.fleet["target"].bootstrap, "upstreams", "hops:source", "hops:nobody")
    assert answers == {"upstreams": "[source]", "hops:source": "1", "hops:nobody": "-1"}


# --- checkpoints and group offsets ------------------------------------------------------------------------


def test_mm2_s_own_client_reads_where_each_group_goes_on(flow, tmp_path):
    """The same as translate-offsets answers: exact, behind markers and between transactions."""
    group = "app"
    flow.commit(group, 150, 731)
    flow.comes(group, *flow.translated(tmp_path, group).values())
    answers = ask_mirror_client(flow.fleet["target"].bootstrap, "checkpoints", f"offsets:source:{group}")
    expected = [f"{flow.remote}-{n}@{offset}" for n, offset in flow.translated(tmp_path, group).items()]
    assert answers[f"offsets:source:{group}"] == f"[{', '.join(expected)}]"
    assert "source.checkpoints.internal" in answers["checkpoints"]
