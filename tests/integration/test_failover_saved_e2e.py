"""A plan that is kept, and its runbook done by hand with Kafka's own tools, on real clusters."""

import json
import os
import re
import shlex
import subprocess
import time
from types import SimpleNamespace

import pytest

from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.processes import run_mmtool
from mmtool.lab.artifacts import classpath
from mmtool.lab.process import java_command
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

TOOLS = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
}
WRITTEN = (300, 500)


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """Runs a block of the page as a person does: in a shell, with Kafka's tools in PATH and files to log in by."""
    folder = tmp_path_factory.mktemp("by-hand")
    for name, main in TOOLS.items():
        command = java_command(classpath("tools"), main, jvm=("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"))
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    for alias in ("source", "target"):
        (folder / f"{alias}.properties").touch()

    def run(block):
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        answer = subprocess.run(
            ["sh", "-e"], input=block, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


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
    page = (folder / "page.md").read_text()
    blocks = dict(
        re.findall(r"^### \d+\. (\w+)\n(?:(?!###).)*?```sh\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    )
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
