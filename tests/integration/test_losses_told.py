"""One running flow to which everything happens that loses records: each is told, with its place; the rest goes on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kit.lab_admin import alter_topic, delete_records, delete_topic
from kit.load import Load, produce
from kit.lookups import commit
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

FIRST, MORE = 20, 10
PATIENCE_SECONDS = 60.0
TOLD_SECONDS = 30.0
"""From the cause until a running ``replicate`` says it."""

HOURS_AHEAD_MS = 48 * 3_600_000
FOR_EVER = str((1 << 63) - 1)
SETTINGS = {"sync.topic.configs.enabled": "false"}
SAID = {
    "deleted": rf"deleted-0 is halted: the source deleted offsets {FIRST} to {FIRST + MORE - 6} before they were",
    "again": r"source topic .*again was deleted and created again",
    "gone": r"gone.* was deleted",
    "lost": r"source topic .*lost was deleted; all its known records are on the target",
    "large": rf"large-0 is halted: .*offset {FIRST}\b",
    "late": rf"late-0 is halted: the target refuses the batch at source offset {FIRST}: INVALID_TIMESTAMP",
    "keyless": rf"keyless-0 is halted: the target refuses the batch at source offset {FIRST}: INVALID_RECORD",
    "theirs": rf"theirs-0: another producer wrote into .*theirs-0 on the target: {MORE} offsets, the last one"
    rf" {FIRST + MORE - 1}",
}
"""What is said of each topic, by the end of its name."""

NOT_HALTED = {"theirs": "caught_up", "lost": "waiting"}
"""Nothing of these is missing."""


@dataclass
class Year:
    """A flow of a topic for each thing that happens, and of one to which nothing does."""

    bench: object
    folder: Path
    stem: str = field(default_factory=lambda: f"year-{os.getpid()}")

    def __post_init__(self):
        fleet = self.bench.fleet
        self.up, self.down = fleet["source"].bootstrap, fleet["target"].bootstrap
        self.properties = self.bench.properties(f"{self.stem}-.*", **SETTINGS)
        for name in (*SAID, "well"):
            create_topic(self.up, self.of(name), 1, 1)
            self.write(name)

    def of(self, name):
        return f"{self.stem}-{name}"

    def mirror_of(self, name):
        return f"source.{self.of(name)}"

    def write(self, name, count=FIRST, first=0, size=100, **load):
        """Into one batch, with keys unless it is said otherwise."""
        client = {"message.max.bytes": 10_000_000}
        given = {"keys": "sequence", **load}
        produce(self.up, Load(self.of(name), count, 1, size, first_sequence=first, client=client, **given))

    def run(self, *words):
        return self.bench.ask(self.properties, *words)

    def drain(self, name):
        """A planned failover of a group that has read some of a topic."""
        group, topic = f"{self.stem}-group", self.of(name)
        commit(self.up, group, topic, MORE // 2)
        return self.run("failover", "planned", "-g", group, "--execute", "--yes", "--timeout", "60s")

    # --- what happens -------------------------------------------------------------------------------------

    def deleted(self):
        """Nobody mirrors it for a while, and retention does not wait."""
        topic = ("--topic", self.of("deleted"))
        assert self.run("flow", "pause", *topic, "--reason", "a test").code == 0
        self.write("deleted", MORE, FIRST)
        delete_records(self.up, self.of("deleted"), FIRST + MORE - 5)
        assert self.run("flow", "resume", *topic).code == 0

    def again(self):
        delete_topic(self.up, self.of("again"))
        create_topic(self.up, self.of("again"), 1, 1)
        self.write("again", MORE)

    def gone(self):
        delete_topic(self.down, self.mirror_of("gone"))
        self.write("gone", MORE, FIRST)

    def lost(self):
        delete_topic(self.up, self.of("lost"))

    def large(self):
        alter_topic(self.up, self.of("large"), max_message_bytes="9000000")
        self.write("large", 1, FIRST, 3_000_000, codec="none")

    def late(self):
        alter_topic(self.up, self.of("late"), message_timestamp_after_max_ms=FOR_EVER)
        self.write("late", MORE, FIRST, first_timestamp_ms=int(time.time() * 1000) + HOURS_AHEAD_MS)

    def keyless(self):
        alter_topic(self.down, self.mirror_of("keyless"), cleanup_policy="compact")
        self.write("keyless", MORE, FIRST, keys="none")

    def theirs(self):
        produce(self.down, Load(self.mirror_of("theirs"), MORE, 1, 100))


@pytest.fixture(scope="module")
def year(bench, tmp_path_factory):
    """All of it has happened, one after the other; how long each took to be told, and what was said in the end."""
    made = Year(bench, tmp_path_factory.mktemp("year"))
    made.told = {}
    with bench.start(made.properties) as process:
        process.wait_line(r"partitions \d+ caught_up$", PATIENCE_SECONDS)  # a canary of smoke may be one
        for name, said in SAID.items():
            began = time.monotonic()
            getattr(made, name)()
            process.wait_line(said, PATIENCE_SECONDS)
            made.told[name] = time.monotonic() - began
        made.write("well", MORE, FIRST)
        wait_until(
            lambda: end_offsets(made.down, made.mirror_of("well")) == {0: FIRST + MORE},
            "the one that is well",
            30,
        )
        made.status = made.run("status")
        made.drained = made.drain("again")
        made.gate = made.run("status", "--max-lag-seconds", "3600")
        made.ended = process.stop()
    return made


def test_each_is_told_by_a_running_flow_soon(year, measured):
    measured(", ".join(f"{name}: told after {seconds:.1f} s" for name, seconds in year.told.items()))
    assert max(year.told.values()) < patience(TOLD_SECONDS)


@pytest.mark.parametrize("name", SAID)
def test_status_names_the_topic_and_why(year, name):
    (row,) = [row for row in year.status.rows if row["topic"] == year.of(name)]
    assert row["state"] == NOT_HALTED.get(name, "halted")
    assert row["reason"]


def test_a_failover_does_not_wait_for_a_topic_that_nobody_mirrors(year):
    assert year.drained.code == 3, year.drained.stderr
    again = year.of("again")
    said = f"{again} of source->target is halted: source topic {again} was deleted and created again"
    assert said in year.drained.stdout + year.drained.stderr


def test_what_is_well_goes_on(year):
    (row,) = [row for row in year.status.rows if row["topic"] == year.of("well")]
    assert (row["state"], row["reason"]) == ("caught_up", "")


def test_exit_codes_are_loud(year, bench):
    """A gate for scripts is closed; a run that is to catch up says that it could not."""
    assert (year.gate.code, year.ended.code) == (4, 143)
    ended = bench.catch_up(year.properties, "-o", "json")
    assert ended.code == 6
    lags = {row["topic"]: row["lag_records"] for row in ended.rows}
    assert [lags[year.of(name)] for name in ("late", "keyless", "large", "well")] == [MORE, MORE, 1, 0]
