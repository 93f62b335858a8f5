"""``mmtool failover`` killed at any moment: resumed, it ends as if all was well."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kit.bench import Bench
from kit.consumers import consume
from kit.exactness import flow_identity
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.processes import Answer, MmtoolProcess, run_mmtool
from mmtool.kafka.state.flow_state import KafkaFlowState
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, read_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

GROUPS, PARTITIONS, RECORDS = 80, 3, 1_500
WRITING = r"^write: commit"
MOMENTS = {
    "planned": [
        *(r"^1\. check_groups", r"^operation ", r"^drain: done", r"^validate: done"),
        *(WRITING, WRITING, r"^write: done", r"^hand_over: done"),
    ],
    "emergency": [
        *(r"^operation ", r"^mark_failed_over: done", r"^translate: done", r"^validate: done"),
        *(WRITING, WRITING, r"^write: done", r"^read_back: done"),
    ],
}
"""What it says, with -v, shortly before it is killed; each gets some more milliseconds by chance."""
ROLLBACKS = 8
JITTER_SECONDS, WRITE_SECONDS = 0.12, 0.02
"""Of the second, a write of all groups takes several."""


@dataclass
class Case:
    """One topic and its groups, whose failover meets with something."""

    fleet: Fleet
    properties: Path
    topic: str
    folder: Path

    @property
    def groups(self):
        return [f"{self.topic}-{number}" for number in range(GROUPS)]

    @property
    def remote(self):
        return f"source.{self.topic}"

    def begin(self, mode, *more):
        words = ("-c", str(self.properties), "--groups", f"{self.topic}-.*", "-v", "-o", "json", *more)
        risk = ["--accept-data-loss"] if mode == "emergency" else []
        return MmtoolProcess(self.folder / "begun", "failover", mode, *words, *risk, "--execute", "--yes")

    def run(self, command, *words) -> Answer:
        number = len(list(self.folder.iterdir()))
        line = ("failover", command, *words, "-c", str(self.properties), "-o", "json")
        answer = run_mmtool(self.folder / f"{command}-{number}", *line)
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    def recorded(self):
        """The operation as ``list`` has it; None where it is not on record."""
        answer = self.run("list")
        assert answer.code == 0, answer.stderr
        found = [row for row in answer.rows if set(row["group_names"]) == set(self.groups)]
        return found[0] if found else None

    def stands(self):
        """Which offsets groups have on the target."""
        found = groups_of(self.fleet["target"].bootstrap).commits(self.groups)
        return {
            name: {at.partition: commit.offset for at, commit in of.items()} for name, of in found.items()
        }

    def wanted(self):
        return {name: dict.fromkeys(range(PARTITIONS), number) for number, name in enumerate(self.groups)}

    def marks(self):
        target = self.fleet["target"]
        identity = flow_identity(self.fleet["source"], target)
        settings = Bench(self.fleet, self.folder).flow(self.properties)
        control = KafkaFlowState(settings.target).control(identity)
        return self.topic in control.failed_over, set(control.moved) & set(self.groups)

    def prove(self, mode, chance):
        """It has ended as one that met with nothing; an application goes on exactly where it stopped."""
        row = self.recorded()
        assert (row["state"], {step["state"] for step in row["steps"]}) == ("completed", {"done"})
        assert self.stands() == self.wanted()
        assert self.marks() == (mode == "emergency", set(self.groups))
        number = chance.randrange(GROUPS)
        source = read_topic(self.fleet["source"].bootstrap, self.topic)
        left = sorted((r.partition, r.value) for r in source if r.offset >= number)
        after = consume(self.fleet["target"].bootstrap, self.groups[number], [self.remote])
        assert sorted((r.partition, r.value) for r in after) == left

    def resume(self, name):
        answer = self.run("resume", name, "--execute", "--yes")
        assert (answer.code, answer.rows[0]["state"]) == (0, "completed"), answer.stderr


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Clusters of our own, a topic for each case, all mirrored and told of; ``cases("planned", 3)`` is one of them."""
    directory, stem = tmp_path_factory.mktemp("killed"), f"killed-{os.getpid()}"
    names = [f"{stem}-{mode}-{n}" for mode in MOMENTS for n in range(len(MOMENTS[mode]))]
    names += [f"{stem}-rollback-{n}" for n in range(ROLLBACKS)]
    fleet = Fleet.of(directory / "fleet", "source", "target")
    with fleet:
        source = fleet["source"].bootstrap
        groups = groups_of(source)
        for topic in names:
            create_topic(source, topic, PARTITIONS)
            produce(source, Load(topic, RECORDS, PARTITIONS, 100, keys="sequence"))
            for number in range(GROUPS):
                read = {TopicPartition(topic, n): Commit(number) for n in range(PARTITIONS)}
                assert groups.alter(f"{topic}-{number}", read) == {}
        bench = Bench(fleet, directory)
        properties = bench.properties(f"{stem}-.*", **{"source->target.groups": f"{stem}-.*"})
        answer = bench.catch_up(properties)
        assert answer.code == 0, answer.stderr

        def case(mode, n):
            return Case(fleet, properties, f"{stem}-{mode}-{n}", tmp_path_factory.mktemp(f"{mode}-{n}"))

        yield case
    fleet.remove_data()


def killed(case, mode, moment, delay):
    """Begins it and kills it; the seconds it lived."""
    with case.begin(mode) as process:
        process.wait_line(moment)
        time.sleep(delay)
        process.kill("driver")
        return process.wait().seconds


@pytest.mark.parametrize("mode", MOMENTS)
def test_killed_at_any_moment_and_resumed_it_ends_the_same(cases, mode, chance, measured):
    halfway, lived, said = 0, [], []
    for number, moment in enumerate(MOMENTS[mode]):
        case = cases(mode, number)
        most = WRITE_SECONDS if moment == WRITING else JITTER_SECONDS
        lived.append(killed(case, mode, moment, chance.uniform(0, most)))
        row = case.recorded()
        if row is None:
            assert (set(map(len, case.stands().values())), case.marks()) == ({0}, (False, set()))
            with case.begin(mode) as process:
                assert process.wait().code == 0, process.stderr
            case.prove(mode, chance)
            said.append("not on record")
            continue
        states = {step["name"]: step["state"] for step in row["steps"]}
        halfway += states["write"] in {"running", "done"} and states["read_back"] != "done"
        said.append(next((name for name, state in states.items() if state != "done"), "ended"))
        if not row["point_of_no_return_passed"]:
            assert set(map(len, case.stands().values())) == {0}
        case.resume(row["operation_id"])
        case.prove(mode, chance)
    measured(
        f"{mode} killed {len(lived)} times, {min(lived):.1f} to {max(lived):.1f} s after its start, at"
        f" {', '.join(said)}; {halfway} times between a write and its check"
    )
    assert halfway >= 2


def moved_and_known(case):
    """Moved by a planned failover, and every other group stood there before."""
    groups = groups_of(case.fleet["target"].bootstrap)
    before = {name: dict.fromkeys(range(PARTITIONS), 0) for name in case.groups[::2]}
    first = {TopicPartition(case.remote, n): Commit(0) for n in range(PARTITIONS)}
    assert [groups.alter(name, first) for name in before] == [{}] * len(before)
    with case.begin("planned") as process:
        assert process.wait().code == 0, process.stderr
    return {name: before.get(name, {}) for name in case.groups}


def rolled_back(case, seconds):
    """Begins to take it back, and kills that after so many seconds; how long it lived."""
    words = (case.recorded()["operation_id"], "-c", str(case.properties), "-o", "json", "--execute", "--yes")
    with MmtoolProcess(case.folder / "back", "failover", "rollback", *words) as process:
        if seconds is not None:
            time.sleep(seconds)
            process.kill("driver")
        return process.wait().seconds


def test_a_rollback_killed_at_any_moment_and_typed_again_puts_back_all_that_stood_there(
    cases, chance, measured
):
    halfway, whole = [], None
    for number in range(ROLLBACKS):
        case = cases("rollback", number)
        before = moved_and_known(case)
        lived = rolled_back(case, whole and chance.uniform(whole / 3, whole))
        whole = whole or lived
        there, wanted = case.stands(), case.wanted()
        assert all(there[one] in (before[one], wanted[one]) for one in case.groups)
        halfway.append(sum(there[one] == before[one] != wanted[one] for one in case.groups))
        if case.recorded()["state"] != "rolled_back":
            answer = case.run("rollback", case.recorded()["operation_id"], "--execute", "--yes")
            assert answer.code == 0, answer.stderr
        assert (case.stands(), case.marks()) == (before, (False, set()))
        assert case.recorded()["state"] == "rolled_back"
    measured(
        f"rollback killed {ROLLBACKS - 1} times in its {whole:.1f} s, with {halfway[1:]} of {GROUPS} groups back"
    )
