"""MirrorMaker 2 and mmtool on one flow: never both at once, and mmtool goes on where the real MM2 stopped."""

import os
import time
from pathlib import Path

import pytest

from kit.bench import Stage
from kit.doc_blocks import cases, difference
from kit.exactness import stored_maps
from kit.processes import untimed
from kit.real_mirror_maker import MirrorMaker
from mmtool.lab.topics import end_offsets, topics_of

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60
COPIED = 150  # records in every partition of a topic, before anybody takes over


def refused_below_the_cuts(stage):
    """Wrong answers that are no refusal of what MM2 mirrored; how many were refused, and how many should be."""
    fleet = stage.bench.fleet
    maps = stored_maps(stage.flow, fleet["source"], fleet["target"])
    starts = {topic: known.mirror_start for topic, known in maps.items() if topic[0] in stage.topics}
    _, different = stage.wrong_translations()
    wrong = []
    for found in different:
        start = starts[found.topic, found.partition]
        cut = start.upstream if found.direction == "forward" else start.downstream
        if found.commit >= cut or "not_mirrored" not in found.answer:
            wrong.append(found)
    below = sum(start.upstream + start.downstream for start in starts.values())
    return wrong, len(different) - below, below


def different_from_the_page(said):
    """How what was said differs from what docs/how-to/from-mirror-maker-2.md shows, for clusters east and west."""
    said = untimed(said).replace("source", "east").replace("target", "west")
    (case,) = cases(ROOT, "lab", name="mirror_maker")
    every = (difference(typed, said, counts=True) for block in case.blocks for typed in block.typed)
    return [found for found in every if found]


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.chaos)])
def test_a_flow_is_taken_over_from_mm2_and_every_record_crosses_once(bench, measured, tmp_path, end):
    """Producers write all along; the two never mirror at once; a second start goes on from the books of the first."""
    target, name = bench.fleet["target"], f"over-{end}-{os.getpid()}"
    stage = Stage(bench, name)
    stage.properties = bench.properties(f"{name}-.*", **{"source.consumer.isolation.level": "read_committed"})

    def copied():
        ends = [end_offsets(target.bootstrap, topic) for topic in stage.targets]
        return all(of and min(of.values()) >= COPIED / 10 for of in ends) and min(ends[0].values()) >= COPIED

    with stage, MirrorMaker(stage.properties.read_text(), tmp_path) as mm2:
        measured(
            f"MirrorMaker 2: {COPIED} records of each partition after {mm2.wait_until(copied, 'copies'):.1f} s"
        )
        before = topics_of(target.bootstrap)
        refused = bench.catch_up(stage.properties)
        assert (refused.code, refused.stdout) == (10, "")
        assert "MirrorMaker 2 runs flow source->target: its group source-mm2 on target has" in refused.stderr
        assert f"`mmtool replicate -c {stage.properties} --take-over`" in refused.stderr
        assert topics_of(target.bootstrap) == before

        first = stage.start("--take-over")
        first.wait_line("waiting until MirrorMaker 2 has stopped: its group source-mm2", PATIENCE_SECONDS)
        ended = time.monotonic()
        getattr(mm2, end)()
        first.wait_line("6 partitions continue where MirrorMaker 2 stopped$", PATIENCE_SECONDS)
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        measured(f"MirrorMaker 2, {end}: mirrored by mmtool {time.monotonic() - ended:.1f} s later")
        assert "twice" not in first.stderr
        assert different_from_the_page(first.stderr) == []

        first.kill_all()
        second = stage.start("--take-over")
        stage.wait_for_new_records(PATIENCE_SECONDS)
        stage.stop_writing()
        stage.wait_until_identical(PATIENCE_SECONDS)
        answer = second.stop()
        assert (answer.code, "where MirrorMaker 2 stopped" in answer.stderr) == (143, False), answer.stderr
        wrong, more, below = refused_below_the_cuts(stage)
        assert (wrong, more, below > 6 * COPIED) == ([], 0, True)
