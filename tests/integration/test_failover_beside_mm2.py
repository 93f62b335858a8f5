"""Groups are moved while the real MirrorMaker 2 mirrors and producers write: the records are the witnesses."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from mmtool.lab.applications import consume
from mmtool.lab.mirror_maker import MirrorMaker
from mmtool.lab.topics import end_offsets, read_topic
from mmtool.testing.processes import run_mmtool
from mmtool.testing.replicating import Stage

pytestmark = [pytest.mark.kafka]

PATIENCE_SECONDS = 60
COPIED = 100  # records in every partition of a topic before a group is moved
READ = {"early": 150, "late": None, "fenced": 300}
"""How many records each application reads on the source; None reads to the end."""
FENCED = ("--fence", "watch")


def contents(read):
    return Counter((record.key, record.value) for record in read)


@pytest.fixture(scope="module")
def moved(bench, measured, tmp_path_factory):
    """Two groups, moved by two commands while all goes on; what each has read, before and after."""
    folder, name = tmp_path_factory.mktemp("beside"), f"beside-{os.getpid()}"
    source, target = (bench.fleet[alias].bootstrap for alias in ("source", "target"))
    stage = Stage(bench, name)
    stage.properties = bench.properties(f"{name}-.*", **{"source.consumer.isolation.level": "read_committed"})
    stage.targets = [bench.flow(stage.properties).remote_topic(topic) for topic in stage.topics]

    def copied():
        ends = [end_offsets(target, topic) for topic in stage.targets]
        return all(of and min(of.values()) >= COPIED for of in ends)

    def all_copied():
        there = [len(list(read_topic(target, topic))) for topic in stage.targets]
        return there == [len(list(read_topic(source, topic))) for topic in stage.topics]

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
    on_source = contents(record for topic in stage.topics for record in read_topic(source, topic))
    return answers, {group: contents(before[group]) + contents(after[group]) for group in READ}, on_source


@pytest.mark.parametrize("group", READ)
def test_a_group_reads_every_record_and_again_no_more_than_was_said(moved, group, measured):
    answers, read, on_source = moved
    (row,) = answers[group].rows
    assert (answers[group].code, row["state"], row["rpo_records"]) == (0, "completed", 0), answers[group]
    assert on_source - read[group] == Counter()
    again = read[group] - on_source
    assert again.total() <= row["reread_records"]
    measured(
        f"{group}: {again.total()} of {row['reread_records']} read again, of {on_source.total()} records"
    )


def test_at_the_places_of_living_groups_the_records_tell_exactly(moved):
    answers, _, _ = moved
    for answer in answers.values():
        (row,) = answer.rows
        assert row["reread_records"] == 0, row
