"""An emergency failover from end to end: the source does not answer, the mirror hangs, the records are witnesses.

The mirror has seen more of the source than it holds when it is cut off, and groups have read on since anybody looked.
Where an application goes on it skips nothing that the target holds, and what it reads again or never sees is what
was said before.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kit.black_hole import BlackHole
from kit.consumers import consume
from kit.exactness import flow_identity
from kit.load import Load, Transactions, produce
from kit.lookups import groups_of
from kit.processes import run_mmtool
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.kafka.state.flow_state import KafkaFlowState
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from kit.bench import Bench

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
PARTITIONS, FIRST, BURST = 3, 300, 1_200
READ = {"slow": (137, 150), "quick": (455, 300), "done": (2 * FIRST, 100)}
"""How many records each application has read when it is looked at, and how many more before the source is lost."""
THROTTLE = "24000"
BOUND_SECONDS = 10
PROCESS_SECONDS = 25
"""With its start and its rows, beside other tests; who asks the source waits for 30, the default of --timeout."""


@dataclass
class Lost:
    """A flow whose source is gone."""

    bench: Bench
    hole: BlackHole
    properties: Path
    unreachable: Path
    topics: list[str]
    groups: dict[str, str]
    folder: Path
    before: dict[str, list] = field(default_factory=dict)
    count: int = 0

    @property
    def source(self):
        return self.bench.fleet["source"].bootstrap

    @property
    def target(self):
        return self.bench.fleet["target"].bootstrap

    @property
    def remotes(self):
        flow = self.bench.flow(self.properties)
        return {flow.remote_topic(topic): topic for topic in self.topics}

    def run(self, command, *words, within=PROCESS_SECONDS):
        """A command that only knows of the source that it is gone."""
        self.count += 1
        line = ("failover", command, *words, "-c", str(self.unreachable), "-o", "json")
        answer = run_mmtool(self.folder / f"run-{self.count}", *line)
        assert "Traceback" not in answer.stderr
        assert answer.seconds < patience(within), answer.stderr
        return answer

    def emergency(self, *consent):
        chosen = [word for group in self.groups.values() for word in ("-g", group)]
        return self.run("emergency", *chosen, *consent)


def told(lost):
    """Every group's positions are on the target."""
    held = Mm2Topics(lost.bench.flow(lost.properties), target_only=True).checkpoints().checkpoints
    wanted = {name: groups_of(lost.source).commits([name])[name] for name in lost.groups.values()}
    return all(
        {at: told.pair.upstream for at, told in held.get(name, {}).items()}
        == {at: commit.offset for at, commit in places.items()}
        for name, places in wanted.items()
    )


def behind(lost):
    """The pumps have seen where the source ends, and are not there yet."""
    fleet, flow = lost.bench.fleet, lost.bench.flow(lost.properties)
    control = KafkaFlowState(flow.target).control(flow_identity(fleet["source"], fleet["target"]))
    seen = {(at.topic, at.partition): at for at in control.positions.values() if at.topic in lost.topics}
    ends = {(topic, n): end for topic in lost.topics for n, end in end_offsets(lost.source, topic).items()}
    return {at: position.source_end for at, position in seen.items()} == ends and all(
        any(position.upstream_position < ends[at] for at, position in seen.items() if at[0] == topic)
        for topic in lost.topics
    )


def fill(lost, count, first):
    for topic, transactions in zip(lost.topics, (None, Transactions(lost.topics[1], 20, 0)), strict=True):
        how = {"first_sequence": first, "codec": "none", "batch_bytes": 2_000, "transactions": transactions}
        produce(lost.source, Load(topic, count, PARTITIONS, 100, keys="sequence", **how))


def read_on(lost, looks):
    """Every application reads some more on the source."""
    most = {name: looks(*counts) for name, counts in READ.items()}
    with ThreadPoolExecutor(len(most)) as pool:
        found = pool.map(lambda n: consume(lost.source, lost.groups[n], lost.topics, most[n]), most)
    for name, read in zip(most, found, strict=True):
        lost.before.setdefault(name, []).extend(read)


def prepare(lost):
    """What has happened before the source is lost; the mirror runs."""
    everywhere = {TopicPartition(topic, n): Commit(0) for topic in lost.topics for n in range(PARTITIONS)}
    for name in READ:
        assert groups_of(lost.source).alter(lost.groups[name], everywhere) == {}
    read_on(lost, lambda looked_at, _: looked_at)
    wait_until(lambda: told(lost), "checkpoints of every group", PATIENCE_SECONDS)
    fill(lost, BURST, FIRST)
    read_on(lost, lambda _, more: more)
    wait_until(lambda: behind(lost), "a mirror that has seen more than it holds", PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def lost(bench, tmp_path_factory):
    """The mirror is cut off from both clusters; for the command the source is a black hole."""
    stem = f"lost-{time.monotonic_ns()}"
    how = {
        "source->target.groups": f"{stem}-.*",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "mmtool.throttle.bytes.per.second": THROTTLE,
    }
    with BlackHole() as hole:
        # an end that the mirror has seen counts for so long
        gone = {"source.bootstrap.servers": hole.bootstrap, "emit.checkpoints.interval.seconds": "600"}
        found = Lost(
            bench,
            hole,
            bench.properties(f"{stem}-.*", **how),
            bench.properties(f"{stem}-.*", **how | gone),
            [f"{stem}-plain", f"{stem}-tx"],
            {name: f"{stem}-{name}" for name in READ},
            tmp_path_factory.mktemp("emergency"),
        )
        for topic in found.topics:
            create_topic(found.source, topic, PARTITIONS)
        fill(found, FIRST, 0)
        with bench.start(found.properties) as process:
            prepare(found)
            process.freeze()
            found.mirror = process
            yield found


@pytest.fixture(scope="module")
def moved(lost):
    """The emergency itself, rehearsed and executed."""
    rehearsal = lost.emergency()
    return rehearsal, lost.emergency("--accept-data-loss", "--execute", "--yes")


def partitions(answer):
    (row,) = answer.rows
    return {
        (group["group"], p["topic"], p["partition"]): p
        for group in row["groups"]
        for p in group["partitions"]
    }


def on_source(lost):
    return {
        (topic, record.partition, record.key, record.value): record.offset
        for topic in lost.topics
        for record in read_topic(lost.source, topic)
    }


def on_target(lost):
    return {
        (topic, record.partition, record.key, record.value)
        for remote, topic in lost.remotes.items()
        for record in read_topic(lost.target, remote)
    }


def test_what_it_costs_is_told_before_anybody_agrees(moved, lost):
    rehearsal, _ = moved
    assert (rehearsal.code, rehearsal.rows[0]["state"]) == (0, "planned"), rehearsal.stderr
    found = partitions(rehearsal).values()
    assert any(p["lost_max"] > 0 for p in found)
    assert all(p["reread_max"] >= 0 and 0 <= p["knowledge_age_seconds"] < PATIENCE_SECONDS for p in found)


def names_transactional_topic_only(lost, stderr):
    (line,) = [line for line in stderr.splitlines() if "transactions may be on target in part: " in line]
    plain, transactional = lost.topics
    return f"{transactional}-" in line and f"{plain}-" not in line


def test_partitions_in_which_a_transaction_may_be_incomplete_are_named(moved, lost):
    rehearsal, _ = moved
    assert names_transactional_topic_only(lost, rehearsal.stderr), rehearsal.stderr


def test_it_completes_without_a_wait_and_asks_the_source_nothing(moved, lost, measured):
    _, answer = moved
    assert (answer.code, answer.rows[0]["state"]) == (0, "completed"), answer.stderr
    assert all(p["written"] for p in partitions(answer).values())
    measured(f"emergency failover, source a black hole: {answer.seconds:.1f} s from process start")
    assert (answer.rows[0]["rto_seconds"] < patience(BOUND_SECONDS), lost.hole.attempts) == (True, 0)


def test_no_more_is_lost_than_was_said(moved, lost):
    """By partition, and in all."""
    _, answer = moved
    there, missing = on_target(lost), {}
    for record in on_source(lost):
        missing.setdefault(record[:2], []).append(record not in there)
    said = {(topic, number): p["lost_max"] for (_, topic, number), p in partitions(answer).items()}
    assert {at: sum(of) for at, of in missing.items() if sum(of) > said[at]} == {}
    assert 0 < sum(map(sum, missing.values())) <= answer.rows[0]["rpo_records"] == sum(said.values())


def test_applications_go_on_skip_nothing_and_read_again_no_more_than_was_said(moved, lost, measured):
    _, answer = moved
    told, source, target = partitions(answer), on_source(lost), on_target(lost)
    again_in_all = 0
    for name in READ:
        read = {(r.topic, r.partition, r.key, r.value) for r in lost.before[name]}
        after = [
            (lost.remotes[r.topic], r.partition, r.key, r.value)
            for r in consume(lost.target, lost.groups[name], list(lost.remotes))
        ]
        assert len(set(after)) == len(after)
        assert target - read - set(after) == set(), f"{name} skipped records"
        for topic in lost.topics:
            for number in range(PARTITIONS):
                again = [record for record in after if record[:2] == (topic, number) and record in read]
                again_in_all += len(again)
                assert len(again) <= told[lost.groups[name], topic, number]["reread_max"]
        assert set(after) <= source.keys()
    assert again_in_all <= answer.rows[0]["reread_records"]
    measured(
        f"of {answer.rows[0]['reread_records']} records that might be read again {again_in_all} were, and"
        f" {len(source) - len(target)} of {answer.rows[0]['rpo_records']} are lost"
    )


def test_verify_of_transactions_tells_what_the_target_alone_knows(moved, lost):
    line = ("verify", "-c", str(lost.unreachable), "--transactions", "--timeout", "5s", "-o", "json")
    answer = run_mmtool(lost.folder / "verify", *line)
    assert answer.code == 9, answer.stderr
    assert names_transactional_topic_only(lost, answer.stderr), answer.stderr


def test_the_source_returns_its_mirror_goes_on_only_when_it_is_released_and_nothing_is_lost_or_twice(
    moved, lost, bench
):
    fast = lost.properties.read_text().replace(THROTTLE, "1000000000")
    lost.properties.write_text(fast)
    lost.mirror.thaw()
    lost.mirror.wait_line("not mirrored: failed over by", PATIENCE_SECONDS)
    before = on_target(lost)
    time.sleep(2)
    assert on_target(lost) == before < on_source(lost).keys()
    released = lost.run("release", "--execute", "--yes")
    assert released.code == 0, released.stderr
    source = on_source(lost).keys()
    wait_until(lambda: on_target(lost) == source, "everything of the source", PATIENCE_SECONDS, poll=1)
    assert sum(len(read_topic(lost.target, remote)) for remote in lost.remotes) == len(source)
    assert lost.mirror.stop().code == 143
