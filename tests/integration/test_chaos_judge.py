"""The judge of the chaos suite on a real mirror: silent while all is well, and not when something is wrong."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import pytest

from kit.chaos.group import Watcher
from kit.chaos.judge import judge
from kit.chaos.sides import Sides
from kit.consumers import consume
from mmtool.lab.load import Load, produce
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

RECORDS, READ = 300, 100


@dataclass
class Mirror:
    """One topic of one partition that was mirrored, and a group that stands at the same record on both sides."""

    fleet: object
    flow: object
    topic: str

    def __post_init__(self):
        self.source, self.target = self.fleet["source"], self.fleet["target"]
        self.remote, self.group = self.flow.remote_topic(self.topic), f"{self.topic}-app"
        self.places = {TopicPartition(self.topic, 0): TopicPartition(self.remote, 0)}

    def seen(self):
        watcher = Watcher(self.source.bootstrap, self.target.bootstrap, self.group, self.places)
        with watcher:
            wait_until(lambda: sum(map(len, watcher.seen.values())) > 0, "a look at the group", 20)
        return watcher.seen

    def judged(self, seen):
        sides = Sides(self.source.bootstrap, self.target.bootstrap, {self.topic: self.remote})
        return judge(self.flow, self.source, self.target, sides.logs(), seen)

    def writes(self, first, count):
        produce(self.target.bootstrap, Load(self.remote, count, 1, 200, first_sequence=first))


@pytest.fixture
def mirror(bench):
    topic = f"judged-{time.monotonic_ns()}"
    properties = bench.properties(topic)
    made = Mirror(bench.fleet, bench.flow(properties), topic)
    create_topic(made.source.bootstrap, topic)
    produce(made.source.bootstrap, Load(topic, RECORDS, 1, 200))
    assert bench.catch_up(properties, "-s", "source", "-t", "target").code == 0
    consume(made.source.bootstrap, made.group, [topic], READ)
    consume(made.target.bootstrap, made.group, [made.remote], READ)
    return made


def test_what_is_wrong_with_a_mirror_and_its_group_is_named(mirror):
    well = mirror.judged(mirror.seen())
    assert (well.failures, well.records) == ([], RECORDS)
    assert (well.glances > 0, well.offsets_proven > RECORDS) == (True, True)

    mirror.writes(RECORDS - 1, 1)  # once more what is there already, at another time
    mirror.writes(RECORDS, 2)  # what the source never had
    consume(mirror.target.bootstrap, mirror.group, [mirror.remote], READ)
    wrong = mirror.judged(mirror.seen()).failures
    kinds = [line.split(":")[0].split(" ", 1)[1] for line in wrong if line[0].isdigit()]
    assert kinds == ["duplicate", "mutated", "foreign", "group-skip"], wrong


def test_a_group_that_nobody_saw_is_no_group_that_is_well(mirror):
    assert mirror.judged(defaultdict(list)).failures == ["the group was never seen on the target"]
