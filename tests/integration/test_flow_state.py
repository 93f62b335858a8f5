"""``mmtool flow``: what is stored of a flow is moved, dropped and held, on real brokers; Spark is not needed for it.

The flow runs from ``target`` to ``source``, so that no other test's flow is taken over by accident.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from mmtool.commands.app import main
from mmtool.config import ClusterSettings
from mmtool.kafka.groups import KafkaGroups
from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic, read_topic
from mmtool.plan.group_facts import Commit
from mmtool.testing.mirror_flow import Owner, flow_of
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config import FlowSettings

pytestmark = pytest.mark.kafka

FROM, TO = "target", "source"
RECORDS = 100
KEYS = {
    "topic",
    "partition",
    "target_topic",
    "upstream_before",
    "upstream_after",
    "downstream_after",
    "records_skipped",
    "records_repeated",
    "action",
    "reason",
}


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        return json.loads(self.out)["data"]


@dataclass
class Flow:
    """One flow and its command line, in this process: starting a new one each time takes longer than all it does."""

    settings: FlowSettings
    properties: Path
    up: str
    down: str
    capsys: pytest.CaptureFixture[str]

    def mmtool(self, *words):
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([*map(str, words), "-c", str(self.properties), "-o", "json"])
        captured = self.capsys.readouterr()
        return Ended(caught.value.code, captured.out, captured.err)

    def run(self, *words, code=0):
        """``mmtool flow ...``."""
        ended = self.mmtool("flow", *words)
        assert ended.code == code, ended.err
        return ended

    def produce(self, topic, count=RECORDS):
        produce(self.up, Load(topic, count, 1, 100))

    def source(self, topic):
        return [record.value for record in read_topic(self.up, topic)]

    def target(self, topic):
        """What an independent consumer reads."""
        return [record.value for record in read_topic(self.down, self.settings.remote_topic(topic))]

    def translated(self, topic, offset):
        """Where a commit leads: its offset on the target, or why there is none."""
        group = f"{topic}-at-{offset}"
        groups = KafkaGroups(ClusterSettings(alias=FROM, bootstrap_servers=self.up), 30.0)
        groups.list_groups()
        assert groups.alter(group, {TopicPartition(topic, 0): Commit(offset)}) == {}
        (row,) = self.mmtool("translate-offsets", "--topic", topic, "-g", group).rows
        return row["downstream_offset"] if row["exactness"] == "exact" else row["reason"]


@pytest.fixture(scope="module")
def settings(fleet, tmp_path_factory):
    """The flow's settings, and the file that they are from."""
    directory = tmp_path_factory.mktemp("flow")
    stem = f"moved-{time.monotonic_ns()}"
    return flow_of(fleet, directory, FROM, TO, f"{stem}.*"), directory / f"{FROM}-{TO}.properties", stem


@pytest.fixture
def made(fleet, settings, capsys):
    flow, properties, _ = settings
    return Flow(flow, properties, fleet[FROM].bootstrap, fleet[TO].bootstrap, capsys)


@pytest.fixture(scope="module")
def topics(fleet, settings):
    """Topics of 100 records each, mirrored."""
    flow, _, stem = settings
    names = {what: f"{stem}-{what}" for what in ("forward", "back", "forgotten", "same")}
    for name in names.values():
        create_topic(fleet[FROM].bootstrap, name)
        produce(fleet[FROM].bootstrap, Load(name, RECORDS, 1, 100))
    mirror(flow)
    return names


def mirror(flow):
    """Everything there is, by an owner without Spark."""

    async def mirrored():
        owner = await Owner.take(flow)
        await owner.catch_up()
        await owner.close()

    asyncio.run(mirrored())


def test_a_rehearsal_shows_what_would_be_and_changes_nothing(made, topics):
    answer = made.run("seek", "--topic", topics["same"], "--to", "earliest")
    (row,) = answer.rows
    assert row.keys() >= KEYS
    found = {key: row[key] for key in ("upstream_before", "upstream_after", "downstream_after", "action")}
    assert found == {"upstream_before": 100, "upstream_after": 0, "downstream_after": 100, "action": "repeat"}
    assert (row["records_repeated"], row["records_skipped"]) == (100, 0)
    assert "nothing was changed" in answer.err
    assert made.translated(topics["same"], 40) == 40


def test_without_a_terminal_and_without_yes_nothing_is_done(made, topics):
    made.run("seek", "--topic", topics["same"], "--to", "earliest", "--execute", code=3)
    assert made.translated(topics["same"], 40) == 40


def test_forward_leaves_a_gap_that_no_commit_is_led_across(made, topics):
    topic = topics["forward"]
    made.produce(topic)
    (row,) = made.run("seek", "--topic", topic, "--to", "150", "--execute", "--yes").rows
    assert (row["action"], row["records_skipped"], row["upstream_after"]) == ("skip", 50, 150)
    mirror(made.settings)
    assert made.target(topic) == made.source(topic)[:100] + made.source(topic)[150:]
    assert [made.translated(topic, at) for at in (40, 99, 100, 149, 150, 200)] == [
        40,
        99,
        "not_mirrored",
        "not_mirrored",
        100,
        150,
    ]
    (row,) = made.run("seek", "--topic", topic, "--to", "150").rows
    assert row["action"] == "repeat"


def test_backward_mirrors_again_behind_the_first_copies(made, topics):
    topic = topics["back"]
    (row,) = made.run("seek", "--topic", topic, "--to", "70", "--execute", "--yes").rows
    assert (row["action"], row["records_repeated"], row["downstream_after"]) == ("repeat", 30, 100)
    assert [made.translated(topic, at) for at in (20, 70, 90)] == ["not_mirrored", 100, "beyond_mirror"]
    mirror(made.settings)
    assert made.target(topic) == made.source(topic) + made.source(topic)[70:]
    assert [made.translated(topic, at) for at in (20, 70, 99, 100)] == ["not_mirrored", 100, 129, 130]
    (row,) = made.run("seek", "--topic", topic, "--to", "latest", "--execute", "--yes").rows
    assert row["action"] == "keep"


def test_a_csv_says_where_each_partition_begins_before_the_first_start(made, settings, tmp_path):
    topic = f"{settings[2]}-fresh"
    create_topic(made.up, topic, 2)
    produce(made.up, Load(topic, 1_000, 2, 100))
    path = tmp_path / "reset.csv"
    path.write_text(f'"{topic}",0,4\n{topic},1,10\n')
    rows = made.run("seek", "--csv", path, "--execute", "--yes").rows
    assert [(row["action"], row["upstream_after"], row["records_skipped"]) for row in rows] == [
        ("begin", 4, 4),
        ("begin", 10, 10),
    ]
    mirror(made.settings)
    assert len(made.target(topic)) == 1_000 - 14


def test_forgotten_topics_are_mirrored_again_and_lead_nowhere_until_then(made, topics):
    topic = topics["forgotten"]
    (row,) = made.run("forget", "--topic", topic, "--execute", "--yes").rows
    assert (row["action"], row["upstream_before"], row["upstream_after"]) == ("forget", 100, None)
    assert (len(made.target(topic)), made.translated(topic, 40)) == (100, "never_ran")
    (row,) = made.run("forget", "--topic", topic).rows
    assert (row["action"], row["reason"]) == ("keep", "nothing is stored")
    mirror(made.settings)
    assert made.target(topic) == made.source(topic) * 2
    assert made.translated(topic, 40) == 140


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "101"), 3, "beyond_source_end"),
        (("--to", "yesterday"), 2, "neither an offset"),
        (("--to", "2026-01-31T12:00:00"), 2, "with its zone"),
        ((), 2, "one of|either"),
        (("--to", "1", "--csv", "nowhere.csv"), 2, "either"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(made, topics, words, code, said):
    answer = made.run("seek", "--topic", topics["same"], *words, code=code)
    errors = [line for line in answer.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert any(word in errors[0] for word in said.split("|")), errors
