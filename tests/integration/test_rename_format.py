"""``mmtool.topic.rename.format``, both ways in one file: names as an operator wants them, and no record comes home."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kit.exactness import wrong_translations
from kit.kafka_tools import ask_mirror_client
from kit.lab_admin import compare_topics
from kit.load import Load, Transactions, produce
from kit.lookups import commit, groups_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.config import load_settings
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.replication.driver.timeline import StartStep
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from kit.processes import Answer

pytestmark = pytest.mark.kafka

WAYS = (("east", "west"), ("west", "east"))
TOPIC, GROUP = "orders", "app"
RECORDS = 600
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Renamed:
    """Both flows run: each cluster's ``orders`` is ``east-orders`` or ``west-orders`` on the other one."""

    fleet: Fleet
    properties: Path
    folder: Path
    first: Answer  # of a run to the end, when only one side had topics

    def mmtool(self, *words):
        answer = run_mmtool(self.folder / f"asked-{'-'.join(words[:1])}", *words, "-c", str(self.properties))
        assert answer.code == 0, answer.stderr
        return answer.rows

    def topics(self, name):
        return {topic for topic in topics_of(self.fleet[name].bootstrap) if TOPIC in topic}


def fill(bootstrap, size):
    create_topic(bootstrap, TOPIC, 2)
    produce(bootstrap, Load(TOPIC, RECORDS, 2, size))
    in_transactions = Transactions(TOPIC, 20, 3)
    produce(bootstrap, Load(TOPIC, RECORDS, 2, size, transactions=in_transactions, first_sequence=RECORDS))


@pytest.fixture(scope="module")
def renamed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("renamed")
    with Fleet.of(folder, "east", "west") as fleet:
        settings = {"topics": ".*", "mmtool.topic.rename.format": "${source}-${topic}"}
        every_second = {
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
        }
        properties = folder / "mm2.properties"
        properties.write_text(fleet.properties(WAYS, **settings, **every_second))
        fill(fleet["east"].bootstrap, 100)
        line = ("replicate", "-c", str(properties), "--until-caught-up", "--timings", "-o", "json")
        first = run_mmtool(folder / "first", *line)
        fill(fleet["west"].bootstrap, 130)
        with MmtoolProcess(folder / "run", "replicate", "-c", str(properties)) as process:
            process.wait_line("caught_up")
            yield Renamed(fleet, properties, folder, first)
            answer = process.stop()
            assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr


def test_a_way_back_that_has_only_heartbeats_yet_holds_nothing_up(renamed):
    assert renamed.first.code == 0, renamed.first.stderr
    assert re.search("west->east: owner of the flow; 1 partition to mirror", renamed.first.stderr)
    assert {row["state"] for row in renamed.first.rows if row["topic"] == TOPIC} == {"caught_up"}


def test_each_step_of_its_start_is_told_with_its_time(renamed):
    steps = json.loads(renamed.first.stdout)["timings"]
    assert [step["step"] for step in steps] == list(StartStep)
    job, fetched, answered = (step["at_seconds"] for step in steps[-3:])
    assert 0 < job <= fetched <= answered
    assert "first_answer" in renamed.first.stderr


def test_each_topic_comes_once_under_its_new_name_and_goes_no_further(renamed):
    for here, there in WAYS:
        source, target = renamed.fleet[here].bootstrap, renamed.fleet[there].bootstrap
        wait_until(lambda a=there, b=here: f"{b}-{TOPIC}" in renamed.topics(a), "the topic", PATIENCE_SECONDS)
        ends = end_offsets(source, TOPIC)
        assert all(ends.values())
        verdicts = compare_topics(source, TOPIC, target, f"{here}-{TOPIC}")
        assert all(v.is_identical for v in verdicts.values()), verdicts
    # some refreshes have passed by now: what came was looked at, and stays where it is
    assert renamed.topics("east") == {TOPIC, f"west-{TOPIC}"}
    assert renamed.topics("west") == {TOPIC, f"east-{TOPIC}"}


def test_every_offset_is_translated_exactly_both_ways(renamed):
    for here, there in WAYS:
        (flow,) = load_settings(renamed.properties, {}).select(here, there)
        asked, wrong = wrong_translations(flow, renamed.fleet[here], renamed.fleet[there], [TOPIC])
        ends = (
            end_offsets(renamed.fleet[here].bootstrap, TOPIC),
            end_offsets(renamed.fleet[there].bootstrap, f"{here}-{TOPIC}"),
        )
        assert (asked > sum(sum(end.values()) for end in ends) > 3 * RECORDS, wrong[:5]) == (True, [])


def test_a_group_moves_to_the_renamed_topic_and_its_commit_there_leads_back(renamed):
    there = TopicPartition(f"east-{TOPIC}", 0)
    commit(renamed.fleet["east"].bootstrap, GROUP, TOPIC, 333)
    ways = ("-s", "east", "-t", "west", "-g", GROUP, "-o", "json")
    renamed.mmtool("failover", "planned", *ways, "--fence", "none", "--execute", "--yes")
    moved = groups_of(renamed.fleet["west"].bootstrap).commits([GROUP])[GROUP]
    assert moved.keys() == {there}
    (row,) = [r for r in renamed.mmtool("translate-offsets", *ways, "--reverse") if r["partition"] == 0]
    assert (row["topic"], row["upstream_offset"], row["exactness"]) == (TOPIC, 333, "exact")
    assert row["downstream_offset"] == moved[there].offset


def test_mm2_s_own_client_finds_heartbeats_and_checkpoints_where_it_looks_for_them(renamed):
    west = renamed.fleet["west"].bootstrap
    wait_until(
        lambda: (
            ask_mirror_client(west, "upstreams", "checkpoints")
            == {"upstreams": "[east]", "checkpoints": "[east.checkpoints.internal]"}
        ),
        "MM2's client to see the flow",
        PATIENCE_SECONDS,
    )
