"""``translate-offsets --execute`` killed at any moment: no group is moved in part, what was replaced is not lost."""

import os
import time

import pytest

from kit.bench import Bench
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

GROUPS, PARTITIONS, KILLS = 300, 4, 12
BEFORE, AFTER = 3, 50


@pytest.fixture(scope="module")
def moving(fleet, tmp_path_factory):
    """A mirrored topic, and groups that have read a part of it; half of them have been on the target before."""
    bench, topic = Bench(fleet, tmp_path_factory.mktemp("moving")), f"moving-{os.getpid()}"
    source = fleet["source"].bootstrap
    create_topic(source, topic, PARTITIONS)
    produce(source, Load(topic, 8_000, PARTITIONS, 100))
    properties = bench.properties(topic)
    assert bench.catch_up(properties).code == 0
    names = [f"{topic}-{number}" for number in range(GROUPS)]
    for name in names:
        read = {TopicPartition(topic, partition): Commit(AFTER) for partition in range(PARTITIONS)}
        assert groups_of(source).alter(name, read) == {}
    return properties, fleet["target"].bootstrap, f"source.{topic}", names


def stands(target, names):
    """How often groups stand where."""
    return {
        name: tuple(sorted(c.offset for c in of.values()))
        for name, of in groups_of(target).commits(names).items()
    }


def begin(target, topic, names):
    groups = groups_of(target)
    for number, name in enumerate(names):
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        groups.forget(name, places)
        if number % 2:
            assert groups.alter(name, dict.fromkeys(places, Commit(BEFORE))) == {}


def test_a_group_is_moved_whole_or_not_at_all_and_every_kept_file_leads_back(
    moving, chance, tmp_path, measured
):
    properties, target, topic, names = moving
    whole, first = (AFTER,) * PARTITIONS, (BEFORE,) * PARTITIONS
    begin(target, topic, names)
    beginning, halfway = stands(target, names), 0
    words = ("-c", str(properties), "--execute", "--yes")
    command = ("translate-offsets", "--groups", f"{topic.split('.')[1]}-.*", *words)
    for number in range(KILLS):
        state = tmp_path / f"state-{number}"
        environ = {"XDG_STATE_HOME": str(state)}
        with MmtoolProcess(tmp_path / f"run-{number}", *command, environ=environ) as process:
            moved = 0
            deadline, wanted = time.monotonic() + 30, chance.randrange(GROUPS)
            while process.alive and moved <= wanted and time.monotonic() < deadline:
                moved = sum(at == whole for at in stands(target, names).values())
            process.kill("driver")
        there = stands(target, names)
        assert set(there.values()) <= {whole, first, ()}
        halfway += 0 < sum(at == whole for at in there.values()) < GROUPS
        for file in state.glob("mmtool/undo/*.json"):
            back = run_mmtool(tmp_path / f"back-{number}", "groups", "import", str(file), *words)
            assert back.code == 0, back.stderr
        assert stands(target, names) == beginning
    measured(f"killed {KILLS} times, {halfway} times with some of {GROUPS} groups moved and others not")
    again = run_mmtool(tmp_path / "again", *command)
    assert (again.code, set(stands(target, names).values())) == (0, {whole}), again.stderr
