"""The scenarios that say ``on_brokers``, on real ones: real records, one real mirror for all, mmtool as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kit.bench import Bench
from kit.exactness import flow_identity
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.processes import Answer
from kit.scenario_ends import differences, operation_of, standing_differences
from kit.scenarios import SIDES, Scenario, SceneState, read_scenario
from mmtool.config import load_settings
from mmtool.failover.operation.records import recorded
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.kafka.state.journal import KafkaJournal
from mmtool.kafka.state.state_log import read_control
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.groups.facts import Commit

pytestmark = pytest.mark.kafka

FOLDERS = [
    path.parent
    for path in sorted(Path(__file__).parent.glob("*/situation.toml"))
    if read_scenario(path.parent).situation.on_brokers
]
SECONDS, PATIENCE_SECONDS = 30.0, 60.0
SMALL, LARGE = 100, 13_000
LARGEST = "12000"
"""What a target takes where the mirror must not get past a place, though it sees what lies behind it."""
NOWHERE = "127.0.0.1:1"


def renamed(folder, suffix):
    """Its topics and groups have names of their own, and its clusters are the fleet's."""
    said = read_scenario(folder).situation
    names = "|".join([*said.topics, *(group.name for group in said.groups)])

    def rename(text):
        text = re.sub(r"\beast\b", "source", re.sub(r"\bwest\b", "target", text))
        return re.sub(rf"\b({names})\b", rf"\1-{suffix}", text)

    return read_scenario(folder, rename)


@dataclass
class BrokerStage:
    """One scenario's situation on real brokers."""

    scenario: Scenario
    bench: Bench

    @property
    def said(self):
        return self.scenario.situation

    @property
    def groups(self):
        return [group.name for group in self.said.groups]

    def bootstrap(self, side):
        return self.bench.fleet[side].bootstrap

    def before_the_mirror(self):
        for said in self.said.partitions:
            topic, source = said.place.topic, self.bootstrap("source")
            create_topic(source, topic)
            self._produce(said.place.topic, said.frontier)
            if said.halted:
                create_topic(self.bootstrap("target"), f"source.{topic}", **{"max.message.bytes": LARGEST})
        for group in self.said.groups:
            seen = {place: Commit(pair[0], group.metadata) for place, pair in group.checkpoints.items()}
            self._commit("source", group.name, seen | group.commits["source"])

    def is_mirrored(self):
        """Whether the target has what it is to have, and knows of the groups what it is to know."""
        ends = {
            said: end_offsets(self.bootstrap("target"), f"source.{said.place.topic}").get(0)
            for said in self.said.partitions
        }
        held = Mm2Topics(self.bench.flow(self.properties()), target_only=True).checkpoints().checkpoints
        told = {
            g.name: {at: tuple(t.pair[:2]) for at, t in held.get(g.name, {}).items()}
            for g in self.said.groups
        }
        return all(said.frontier == end for said, end in ends.items()) and all(
            told[group.name] == group.checkpoints for group in self.said.groups if group.checkpoints
        )

    def out_of_reach(self):
        """What the mirror sees and does not get past; the topics that are halted then."""
        halted = [said for said in self.said.partitions if said.halted]
        for said in halted:
            self._produce(said.place.topic, said.seen_end - said.frontier, LARGE)
        return [said.place.topic for said in halted]

    def behind_the_mirror(self):
        for said in self.said.partitions:
            self._produce(said.place.topic, said.source[1] - said.seen_end)
        for group in self.said.groups:
            self._commit("target", group.name, group.commits["target"])

    def _produce(self, topic, count, size=SMALL):
        if count:
            produce(self.bootstrap("source"), Load(topic, count, 1, size, codec="none", batch_bytes=900_000))

    def _commit(self, side, group, commits):
        if commits:
            assert groups_of(self.bootstrap(side)).alter(group, commits) == {}

    def properties(self):
        away = {"source.bootstrap.servers": NOWHERE} if self.said.sides["source"].unreachable else {}
        return self.bench.properties("|".join(self.said.topics), **away)

    @contextmanager
    def members(self):
        """Consumers that are in their groups when the body begins."""
        with ExitStack() as stack:
            for side in SIDES:
                for group in self.said.groups:
                    for client_id in group.members[side]:
                        consumer = self._consumer(side, group.name, client_id)
                        stack.callback(consumer.close)
            yield

    def _consumer(self, side, group, client_id):
        settings = {"group.id": group, "client.id": client_id, "enable.auto.commit": False, "log_level": 2}
        consumer = Consumer({"bootstrap.servers": self.bootstrap(side), **settings})
        prefix = "source." if side == "target" else ""
        consumer.subscribe([f"{prefix}{topic}" for topic in self.said.topics])
        deadline = time.monotonic() + SECONDS
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        return consumer

    def typed(self, number, arguments, folder):
        """A command of its own process; one that is killed at the place that the situation names."""
        kills = [one for one in self.said.happenings if (one.kind, one.command) == ("killed", number)]
        module = ["kit.killed_at", kills[0].when.replace(" ", "-"), kills[0].what] if kills else ["mmtool"]
        began = time.monotonic()
        line = [sys.executable, "-P", "-m", *module, *arguments]
        ended = subprocess.run(
            line,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Answer(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - began)

    def standing(self):
        (flow,) = load_settings(self.properties(), os.environ).flows
        control = read_control(flow.target, flow_identity(*(self.bench.fleet[side] for side in SIDES)))
        known = recorded(KafkaJournal(flow.target, 1, SECONDS).entries())
        return SceneState(
            {
                side: {g: of for g, of in groups_of(self.bootstrap(side)).commits(self.groups).items() if of}
                for side in SIDES
            },
            frozenset(control.failed_over) & frozenset(self.said.topics),
            frozenset(control.moved) & frozenset(self.groups),
            tuple(one.state for one in known if set(one.group_names) & set(self.groups)),
        )


@pytest.fixture(scope="module")
def stages(fleet, tmp_path_factory):
    """All of them, behind one run of the mirror."""
    bench = Bench(fleet, tmp_path_factory.mktemp("scenarios"))
    found = {
        folder: BrokerStage(renamed(folder, f"{os.getpid()}-{number}"), bench)
        for number, folder in enumerate(FOLDERS)
    }
    for stage in found.values():
        stage.before_the_mirror()
    topics = "|".join(topic for stage in found.values() for topic in stage.said.topics)
    extra = {"sync.topic.configs.enabled": "false", "emit.checkpoints.interval.seconds": "1"}
    with bench.start(bench.properties(topics, **extra)) as mirror:
        for stage in found.values():
            wait_until(stage.is_mirrored, f"the mirror of {stage.scenario.name}", PATIENCE_SECONDS)
        for topic in [topic for stage in found.values() for topic in stage.out_of_reach()]:
            mirror.wait_line(f"{topic}-0 is halted")
        assert mirror.stop().code == 143
    for stage in found.values():
        stage.behind_the_mirror()
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_ends_the_same_on_real_brokers(folder, stages, tmp_path):
    stage, properties = stages[folder], str(stages[folder].properties())
    scenario, operation = stage.scenario, "OPERATION"
    with stage.members():
        before, found = stage.standing(), []
        for number, (words, end) in enumerate(zip(scenario.commands, scenario.ends, strict=True), 1):
            arguments = [operation if word == "OPERATION" else word for word in words[1:]]
            answer = stage.typed(number, [*arguments, "-c", properties, "-o", "json"], tmp_path)
            operation = operation_of(answer) or operation
            found += [f"command {number}: {difference}" for difference in differences(end, answer)]
            assert (end.code is None) == (answer.code == -9), answer.stderr
        found += standing_differences(scenario.expected(before), stage.standing())
    assert not found, "\n".join(found)
