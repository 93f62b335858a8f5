"""The target's log is cut by an unclean leader election: told, whether records come or not, and mended.

A mirror that keeps the source's offsets mends itself.
"""

import os
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from kit.bench import Bench
from kit.exactness import stored_maps
from kit.load import Load, Transactions, produce
from kit.log_cut import LogCut
from kit.processes import run_mmtool
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.replication.driver.round import FIRST_RETRY_SECONDS

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

KEPT, LOST, MORE, FOREIGN = 100, 50, 30, 5_000
PATIENCE_SECONDS = 60


def values(cluster, topic):
    return Counter(record.value for record in read_topic(cluster.bootstrap, topic))


BETWEEN_RUNS = ("between two runs", "and grew again")
MOMENTS = pytest.mark.parametrize("when", [*BETWEEN_RUNS, "at rest", "while records come"])


@contextmanager
def mirror_cut(cut, when, write, bench, properties):
    """The mirror's log loses the last records; yields the flow that runs meanwhile, None where none does."""
    with cut:
        write(KEPT, 0)
        assert bench.catch_up(properties).code == 0
        cut.only_one_replica()
        write(LOST, KEPT)
        if when in BETWEEN_RUNS:
            for _ in range(2):  # the second run has nothing to mirror
                assert bench.catch_up(properties).code == 0
            cut.lose_it()
            if when == "and grew again":
                cut.write(LOST + MORE, FOREIGN)
            yield None
        else:
            with bench.start(properties) as process:
                process.wait_line("caught_up", PATIENCE_SECONDS)
                cut.lose_it()
                if when == "while records come":
                    write(MORE, KEPT + LOST)
                yield process
        cut.heal()


@MOMENTS
def test_records_that_a_target_lost_are_told_and_come_again_once(threes, tmp_path, measured, when):
    """Whoever wrote since; others go on. ``flow rebuild`` finds what is left, the next start mirrors what is not."""
    bench, stem = Bench(threes, tmp_path), f"short-{when.replace(' ', '-')}-{os.getpid()}"
    source, target = threes["source"], threes["target"]
    topic, other = f"{stem}-cut", f"{stem}-other"
    # with one replica, the other topic would lie on the broker that is killed, one time in three
    properties = bench.properties(f"{stem}-.*", **{"replication.factor": "3"})
    for name in (topic, other):
        create_topic(source.bootstrap, name, 1, 3)

    def write(count, first, name=topic):
        produce(source.bootstrap, Load(name, count, 1, 100, first_sequence=first))

    cut = LogCut(target, f"source.{topic}")
    with mirror_cut(cut, when, write, bench, properties) as process:
        if process:
            began = time.monotonic()
            process.wait_line(f"was cut at offset {KEPT}", PATIENCE_SECONDS)
            measured(f"{when}: told {time.monotonic() - began:.1f} s after another broker led")
            write(MORE, 0, other)
            wait_until(
                lambda: values(target, f"source.{other}") == values(source, other), "the other topic", 30
            )
            time.sleep(2 * FIRST_RETRY_SECONDS)  # what was halted for another reason would be tried again
    for _ in range(2):  # a clean end settles nothing
        stopped = bench.catch_up(properties, "-o", "json")
        (row,) = [row for row in stopped.rows if row["topic"] == topic]
        assert (stopped.code, row["state"]) == (6, "halted"), stopped.stderr
        assert f"offsets {KEPT} to {KEPT + LOST - 1} of source.{topic}-0 are gone" in row["reason"]
    foreign = values(target, f"source.{topic}") - values(source, topic)
    assert foreign.total() == (LOST + MORE if when == "and grew again" else 0)
    assert values(target, f"source.{topic}").total() == KEPT + foreign.total()
    line = ("flow", "rebuild", "-c", str(properties), "--topic", topic, "--execute", "--yes")
    rebuilt = run_mmtool(tmp_path / "rebuild", *line)
    assert rebuilt.code == 0, rebuilt.stderr
    assert bench.catch_up(properties).code == 0
    assert values(target, f"source.{topic}") == values(source, topic) + foreign
    assert_exact(bench.flow(properties), source, target, topic)


@MOMENTS
def test_a_mirror_that_keeps_offsets_goes_on_where_its_log_was_cut(threes, tmp_path, measured, when):
    """Unless other records have taken the places of those that are lost."""
    bench, topic = Bench(threes, tmp_path), f"same-cut-{when.replace(' ', '-')}-{os.getpid()}"
    source, target = threes["source"], threes["target"]
    properties = bench.properties(topic, **{"replication.factor": "3", "mmtool.offsets": "same"})
    create_topic(source.bootstrap, topic, 1, 3)

    def write(count, first):
        how = Transactions(f"{topic}-{first}", 10, 3)
        produce(source.bootstrap, Load(topic, count, 1, 100, first_sequence=first, transactions=how))

    def is_equal():
        records = read_topic(target.bootstrap, f"source.{topic}") == read_topic(source.bootstrap, topic)
        return records and end_offsets(target.bootstrap, f"source.{topic}") == end_offsets(
            source.bootstrap, topic
        )

    cut = LogCut(target, f"source.{topic}")
    with mirror_cut(cut, when, write, bench, properties) as process:
        if process:
            took = wait_until(is_equal, "the records that were lost", PATIENCE_SECONDS)
            measured(f"{when}: equal again {took:.1f} s after another broker led")
            assert process.stop().code == 143
    again = bench.catch_up(properties, "-o", "json")
    if when == "and grew again":
        assert again.rows[0]["state"] == "halted", again.stderr
    else:
        assert again.code == 0, again.stderr
        assert is_equal()


def assert_exact(flow, source, target, topic):
    """Every record of the source has its place on the target, whatever lies between."""
    maps = stored_maps(flow, source, target)
    places = {
        run.upstream_start + i: run.downstream_start + i
        for run in maps[topic, 0].runs
        for i in range(run.count)
    }
    here, there = (
        {r.offset: r.value for r in read_topic(c.bootstrap, t)}
        for c, t in ((source, topic), (target, f"source.{topic}"))
    )
    assert {offset: there.get(place) for offset, place in places.items()} == here
