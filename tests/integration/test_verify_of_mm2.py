"""``mmtool verify`` of a flow whose MirrorMaker 2 was killed, and of one that was taken over from it."""

from __future__ import annotations

import os

import pytest

from kit.processes import run_mmtool
from kit.real_mirror_maker import MirrorMaker
from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.timeout(900)]

MARK = f"verify-mm2-{os.getpid()}"
COUNT = 2_000
_runs = iter(range(1_000))


def verify(directory, properties, *options):
    folder = directory / f"verify-{next(_runs)}"
    return run_mmtool(folder, "verify", "-c", str(properties), "-o", "json", *options)


def of_one_topic(bench, name):
    create_topic(bench.fleet["source"].bootstrap, f"{MARK}-{name}", 1)
    produce(bench.fleet["source"].bootstrap, Load(f"{MARK}-{name}", COUNT, 1, 150, keys="sequence"))
    return bench.properties(f"{MARK}-{name}", **{"offset.flush.interval.ms": "600000"})


def copied(bench, name, count):
    ends = end_offsets(bench.fleet["target"].bootstrap, f"source.{MARK}-{name}")
    return bool(ends) and ends[0] >= count


def test_what_mm2_copied_again_after_it_was_killed_is_told_as_duplicated(bench, tmp_path):
    properties = of_one_topic(bench, "killed")
    for number in (1, 2):
        with MirrorMaker(properties.read_text(), tmp_path / f"mm2-{number}") as mm2:
            mm2.wait_until(lambda count=number * COUNT: copied(bench, "killed", count), "copies")
            mm2.kill() if number == 1 else mm2.stop()
    (row,) = verify(tmp_path, properties).rows
    assert (row["verdict"], row["first_difference"]["kind"]) == ("different", "duplicated"), row
    assert (row["missing"], row["foreign"], row["mutated"], row["reordered"]) == (0, 0, 0, 0), row
    assert row["duplicated"] == COUNT


def test_a_flow_that_was_taken_over_from_mm2_is_identical(bench, tmp_path):
    properties = of_one_topic(bench, "over")
    with MirrorMaker(properties.read_text(), tmp_path / "mm2") as mm2:
        mm2.wait_until(lambda: copied(bench, "over", COUNT), "copies")
        mm2.stop()
    produce(bench.fleet["source"].bootstrap, Load(f"{MARK}-over", COUNT, 1, 150, first_sequence=COUNT))
    taken = bench.catch_up(properties, "--take-over")
    assert taken.code == 0, taken.stderr
    answer = verify(tmp_path, properties)
    (row,) = answer.rows
    assert (answer.code, row["verdict"]) == (0, "identical"), answer.stderr
    assert row["records_compared"] == 2 * COUNT
