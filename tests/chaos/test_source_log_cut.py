"""The source's log is cut by an unclean leader election and grows again past where the mirror stood (KIP-320)."""

import os
import time
from collections import Counter

import pytest

from kit.bench import Bench
from kit.load import Load, produce
from kit.log_cut import LogCut
from kit.processes import run_mmtool
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

KEPT, LOST, GROWN = 100, 50, 80
PATIENCE_SECONDS = 60


def reason_of(answer, topic):
    (row,) = [row for row in answer.rows if row["topic"] == topic]
    return row["state"], row["reason"]


def values(cluster, topic):
    return Counter(record.value for record in read_topic(cluster.bootstrap, topic))


@pytest.mark.parametrize("running", [False, True], ids=["between two runs", "under a running flow"])
def test_records_that_a_source_lost_are_not_taken_for_those_that_were_written_after_them(
    threes, tmp_path, measured, running
):
    """The other topic goes on; a seek to where the log was cut mirrors what is there now, once."""
    bench, stem = Bench(threes, tmp_path), f"cut-{int(running)}-{os.getpid()}"
    source, target = threes["source"], threes["target"]
    other, remote = f"{stem}-other", f"source.{stem}-cut"
    properties = bench.properties(f"{stem}-.*", **{"replication.factor": "1"})
    create_topic(source.bootstrap, other, 1, 3)
    with LogCut(source, f"{stem}-cut") as cut:
        cut.write(KEPT, 0)
        cut.only_one_replica()
        cut.write(LOST, KEPT)
        assert bench.catch_up(properties).code == 0

        def go_on():
            """Past where the mirror stands: nothing but the epoch tells the new records from the old ones."""
            cut.lose_it()
            cut.write(GROWN, 1_000)
            cut.heal()
            produce(source.bootstrap, Load(other, 10, 1, 100))

        if running:
            with bench.start(properties) as process:
                process.wait_line("caught_up", PATIENCE_SECONDS)
                go_on()
                began = time.monotonic()
                process.wait_line(f"was cut at offset {KEPT}", PATIENCE_SECONDS)
                measured(f"told {time.monotonic() - began:.1f} s after both brokers were there again")
        else:
            go_on()
    stopped = bench.catch_up(properties, "-o", "json")
    state, reason = reason_of(stopped, cut.topic)
    assert (stopped.code, state) == (6, "halted"), stopped.stderr
    assert reason.startswith(f"the source's log was cut at offset {KEPT}"), reason
    assert f"offsets {KEPT} to {KEPT + LOST - 1} were mirrored and are gone" in reason
    assert values(target, f"source.{other}").total() == 10
    assert values(target, remote).total() == KEPT + LOST
    csv = tmp_path / "seek.csv"
    csv.write_text(f"{cut.topic},0,{KEPT}\n")
    moved = run_mmtool(
        tmp_path / "seek", "flow", "seek", "-c", str(properties), "--csv", str(csv), "--execute", "--yes"
    )
    assert moved.code == 0, moved.stderr
    assert bench.catch_up(properties).code == 0
    found, home = values(target, remote), values(source, cut.topic)
    assert (found.total(), set(found.values())) == (KEPT + LOST + GROWN, {1})
    assert home.total() == KEPT + GROWN
    assert not home - found
