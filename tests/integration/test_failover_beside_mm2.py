"""Groups are moved while the real MirrorMaker 2 mirrors and producers write: the records are the witnesses."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kit.bench import Stage
from kit.consumers import consume
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.processes import run_mmtool
from kit.real_mirror_maker import MirrorMaker
from kit.tail_files import exported_records
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.lab.topics import end_offsets, read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from kit.processes import Answer

pytestmark = [pytest.mark.kafka]

PATIENCE_SECONDS = 60
COPIED = 100  # records in every partition of a topic before a group is moved
READ = {"early": 150, "late": None, "fenced": 300}
"""How many records each application reads on the source; None reads to the end."""
LOST = ("ended", "behind")
"""Groups that are moved when the source is lost."""
LEFT = 60  # offsets that those have not read in each partition
FENCED = ("--fence", "watch")


@dataclass
class Moved:
    """What each group has read, before and after, and what the source holds."""

    stage: Stage
    name: str
    folder: Path
    answers: dict[str, Answer]
    read: dict[str, Counter]
    on_source: Counter
    lost: dict[str, list]


def contents(read):
    return Counter((record.key, record.value) for record in read)


def read_some(bootstrap, group, stage):
    """What an application has read that stands some records before the end of every partition."""
    ends = {(topic, n): end for topic in stage.topics for n, end in end_offsets(bootstrap, topic).items()}
    commits = {TopicPartition(*at): Commit(end - LEFT) for at, end in ends.items()}
    assert groups_of(bootstrap).alter(group, commits) == {}
    records = [(topic, record) for topic in stage.topics for record in read_topic(bootstrap, topic)]
    return [record for topic, record in records if record.offset < ends[topic, record.partition] - LEFT]


@pytest.fixture(scope="module")
def moved(bench, measured, tmp_path_factory):
    """Two groups, moved by two commands while all goes on; what each has read, before and after."""
    folder, name = tmp_path_factory.mktemp("beside"), f"beside-{os.getpid()}"
    source, target = (bench.fleet[alias].bootstrap for alias in ("source", "target"))
    stage = Stage(bench, name)
    stage.properties = bench.properties(
        f"{name}-.*",
        **{
            "source.consumer.isolation.level": "read_committed",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
        },
    )
    stage.targets = [bench.flow(stage.properties).remote_topic(topic) for topic in stage.topics]

    def copied():
        ends = [end_offsets(target, topic) for topic in stage.targets]
        return all(of and min(of.values()) >= COPIED for of in ends)

    def all_copied():
        there = [len(list(read_topic(target, topic))) for topic in stage.targets]
        return there == [len(list(read_topic(source, topic))) for topic in stage.topics]

    def all_told():
        held = Mm2Topics(bench.flow(stage.properties)).checkpoints().checkpoints
        return all(
            held.get(group, {}).keys() >= groups_of(source).commits([group])[group].keys()
            for group in (f"{name}-{lost}" for lost in LOST)
        )

    line = ["failover", "planned", "-c", str(stage.properties), "-o", "json", "--execute", "--yes"]
    before, answers, after = {}, {}, {}
    with stage, MirrorMaker(stage.properties.read_text(), folder) as mm2:
        mm2.wait_until(copied, "copies")
        for group, most in READ.items():
            before[group] = consume(source, f"{name}-{group}", stage.topics, most)
            words = ["-g", f"{name}-{group}", "--timeout", "60s"]
            if group == "fenced":
                stage.stop_writing()
                words += FENCED
            began = time.monotonic()
            answers[group] = run_mmtool(folder / group, *line, *words)
            measured(f"planned beside MirrorMaker 2, {group}: {time.monotonic() - began:.1f} s")
            after[group] = consume(target, f"{name}-{group}", stage.targets, 1)
        mm2.wait_until(all_copied, "the last records", PATIENCE_SECONDS)
        for group in READ:
            after[group] += consume(target, f"{name}-{group}", stage.targets)
        lost = {group: read_some(source, f"{name}-{group}", stage) for group in LOST}
        mm2.wait_until(all_told, "checkpoints", PATIENCE_SECONDS)
    on_source = contents(record for topic in stage.topics for record in read_topic(source, topic))
    read = {group: contents(before[group]) + contents(after[group]) for group in READ}
    return Moved(stage, name, folder, answers, read, on_source, lost)


@pytest.mark.parametrize("group", READ)
def test_a_group_reads_every_record_and_again_no_more_than_was_said(moved, group, measured):
    answer, read = moved.answers[group], moved.read[group]
    (row,) = answer.rows
    assert (answer.code, row["state"], row["rpo_records"]) == (0, "completed", 0), answer
    assert moved.on_source - read == Counter()
    again = (read - moved.on_source).total()
    assert again <= row["reread_records"]
    measured(f"{group}: {again} of {row['reread_records']} read again, of {read.total()} records")


def test_at_the_places_of_living_groups_the_records_tell_exactly(moved):
    for answer in moved.answers.values():
        (row,) = answer.rows
        assert row["reread_records"] == 0, row


def test_home_again_who_had_read_all_is_behind_what_diverged_and_who_had_not_reads_it(moved, measured):
    """MM2 has stopped, and then came records that it never copied: an emergency, and the way home."""
    stage, groups = moved.stage, [f"{moved.name}-{group}" for group in LOST]
    source, target = (stage.bench.fleet[alias].bootstrap for alias in ("source", "target"))
    read = {group: moved.lost[lost] for group, lost in zip(groups, LOST, strict=True)}
    produce(source, Load(stage.topics[0], 40, stage.partitions, 100, keys="sequence", first_sequence=10**9))

    def failover(mode, *words):
        line = ["failover", mode, "-c", str(stage.properties), "-o", "json", *words]
        named = [word for group in groups for word in ("-g", group)]
        answer = run_mmtool(moved.folder / mode, *line, *named, "--execute", "--yes")
        assert (answer.code, answer.rows[0]["state"]) == (0, "completed"), answer
        return answer.rows[0]["reread_records"]

    again = failover("emergency", "--accept-data-loss")
    ended, behind = groups
    read[ended] += consume(target, ended, stage.targets)
    again += failover("failback")
    (file,) = (moved.folder / "failback").glob("mmtool-diverged-*.jsonl")
    exported = Counter((found.record.key, found.record.value) for found in exported_records(file))
    everything = contents(record for topic in stage.topics for record in read_topic(source, topic))
    diverged = everything - moved.on_source
    assert (diverged.total(), diverged - exported) == (40, Counter())

    assert consume(source, ended, stage.topics) == []
    assert moved.on_source - contents(read[ended]) == Counter()
    read[behind] += consume(source, behind, stage.topics)
    assert everything - contents(read[behind]) == Counter()
    twice = sum((contents(read[group]) - everything).total() for group in groups)
    assert twice <= again
    measured(f"there and home: {twice} of {again} read again; {exported.total()} exported, 40 diverged")
