"""A plan that is kept, and its runbook done by hand with Kafka's own tools, on real clusters."""

import json
import time
from types import SimpleNamespace

import pytest

from kit.kafka_tools import blocks_of
from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.processes import run_mmtool
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

WRITTEN = (300, 500)


@pytest.fixture(scope="module")
def kept(bench, tmp_path_factory):
    """A group has read 300 and 500 of 1,000 records, all of them mirrored; its move is planned, and kept."""
    folder, topic = tmp_path_factory.mktemp("kept"), f"kept-{time.monotonic_ns()}"
    source = bench.fleet["source"].bootstrap
    create_topic(source, topic, 2)
    produce(source, Load(topic, 1_000, 2, 100))
    commit(source, f"{topic}-app", topic, *WRITTEN)
    path = bench.properties(f"{topic}.*")
    mirrored = run_mmtool(folder / "replicate", "replicate", "-c", str(path), "--until-caught-up")
    assert mirrored.code == 0, mirrored.stderr
    files = ["--out", str(folder / "plan.json"), "--runbook", str(folder / "page.md")]

    def planned(*more):
        line = ["failover", "planned", "-c", str(path), "-o", "json", *more]
        return run_mmtool(folder / str(time.monotonic_ns()), *line)

    rehearsal = planned("-g", f"{topic}-app", *files)
    assert rehearsal.code == 0, rehearsal.stderr
    blocks = blocks_of((folder / "page.md").read_text())
    remote, target = bench.flow(path).remote_topic(topic), bench.fleet["target"].bootstrap

    def written():
        """The group's offsets on the target, by partition."""
        return {
            number: at for (name, number), at in committed(target, f"{topic}-app").items() if name == remote
        }

    return SimpleNamespace(
        planned=planned, plan=str(folder / "plan.json"), blocks=blocks, written=written,
    )  # fmt: skip


@pytest.mark.parametrize("step", ["check_groups", "drain", "prove_boundary"])
def test_what_the_page_says_to_do_by_hand_before_anything_is_written_can_be_done(kept, by_hand, step):
    first = kept.blocks[step].splitlines(keepends=True)[:2]  # one partition's, on both sides
    assert by_hand("".join(first)) is not None


def test_by_hand_the_same_offsets_are_written_and_taken_back_and_the_plan_knows_of_both(kept, by_hand):
    write, _, back = kept.blocks["write"].partition("# to undo:\n")
    by_hand(write)
    assert kept.written() == dict(enumerate(WRITTEN))
    stale = kept.planned("--plan", kept.plan)
    assert (stale.code, "is stale" in json.loads(stale.stdout)["errors"][0]["message"]) == (5, True)
    by_hand("".join(line.removeprefix("# ") for line in back.splitlines(keepends=True)))
    assert kept.written() == {}
    assert kept.planned("--plan", kept.plan).code == 0
