"""``mmtool flow``: what is stored of a flow is moved, dropped and held, on real brokers; Spark is not needed for it.

The flow runs from ``target`` to ``source``, so that no other test's flow is taken over by accident.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kit.exactness import stored_maps, wrong_translations
from kit.lab_admin import delete_records, delete_topic
from kit.load import Load, Transactions, produce
from kit.lookups import commit
from kit.mirror_flow import Owner, flow_of, mirror
from mmtool.errors import RefusedError
from mmtool.kafka.state import own_log
from mmtool.kafka.state.state_log import read_control, read_runs_log
from mmtool.lab.topics import create_topic, read_topic
from mmtool.replication.driver import flow_run
from mmtool.replication.driver.context import connect
from mmtool.replication.flow_state import flow_moves, rebuild
from mmtool.replication.ownership.checks import refuse_lost_runs
from mmtool.replication.pump import mirror as pump_mirror
from mmtool.replication.pump import state_writer
from mmtool.translation.block_codec import decode_block

if TYPE_CHECKING:
    from collections.abc import Callable
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


@dataclass
class Flow:
    """One flow and its command line."""

    settings: FlowSettings
    properties: Path
    up: str
    down: str
    command: Callable[..., Any]

    def mmtool(self, *words):
        return self.command(*words, "-c", self.properties, "-o", "json")

    def run(self, *words, code=0):
        """``mmtool flow ...``."""
        ended = self.mmtool("flow", *words)
        assert ended.code == code, ended.stderr
        return ended

    def produce(self, topic, count=RECORDS):
        produce(self.up, Load(topic, count, 1, 100))

    def source(self, topic):
        return [record.value for record in read_topic(self.up, topic)]

    def target(self, topic):
        """What an independent consumer reads."""
        return [record.value for record in read_topic(self.down, self.settings.remote_topic(topic))]

    def places(self, topic):
        """Where its records lie. Another test's halted partition in a shard leaves a marker at each takeover."""
        return [record.offset for record in read_topic(self.down, self.settings.remote_topic(topic))]

    def translated(self, topic, offset):
        """Where a commit leads: its offset on the target, or why there is none."""
        group = f"{topic}-at-{offset}"
        commit(self.up, group, topic, offset)
        (row,) = self.mmtool("translate-offsets", "--topic", topic, "-g", group).rows
        return row["downstream_offset"] if row["exactness"] == "exact" else row["reason"]


@pytest.fixture(scope="module")
def settings(fleet, tmp_path_factory):
    """The flow's settings, and the file that they are from."""
    directory = tmp_path_factory.mktemp("flow")
    stem = f"moved-{time.monotonic_ns()}"
    return flow_of(fleet, directory, FROM, TO, f"{stem}.*"), directory / f"{FROM}-{TO}.properties", stem


@pytest.fixture
def made(fleet, settings, mmtool):
    flow, properties, _ = settings
    return Flow(flow, properties, fleet[FROM].bootstrap, fleet[TO].bootstrap, mmtool)


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


def test_a_time_that_no_record_has_reached_yet_means_the_end_and_is_said_to(made, topics):
    answer = made.run("seek", "--topic", topics["same"], "--to", "2126-01-31T12:00:00Z")
    assert (
        "1 partition has no record at or after the time of --to: the new position is the log end"
        in answer.stderr
    )
    answer = made.run("seek", "--topic", topics["same"], "--to", "1999-01-31T12:00:00Z")
    assert "the new position is the log end" not in answer.stderr


def test_a_rehearsal_shows_what_would_be_and_changes_nothing(made, topics):
    answer = made.run("seek", "--topic", topics["same"], "--to", "earliest")
    (row,) = answer.rows
    assert row.keys() >= KEYS
    found = {key: row[key] for key in ("upstream_before", "upstream_after", "downstream_after", "action")}
    assert found == {"upstream_before": 100, "upstream_after": 0, "downstream_after": 100, "action": "repeat"}
    assert (row["records_repeated"], row["records_skipped"]) == (100, 0)
    assert "nothing was changed" in answer.stderr
    assert made.translated(topics["same"], 40) == 40


def test_forward_leaves_a_gap_that_no_commit_is_led_across(made, topics):
    topic = topics["forward"]
    made.produce(topic)
    (row,) = made.run("seek", "--topic", topic, "--to", "150", "--execute", "--yes").rows
    assert (row["action"], row["records_skipped"], row["upstream_after"]) == ("skip", 50, 150)
    mirror(made.settings)
    assert made.target(topic) == made.source(topic)[:100] + made.source(topic)[150:]
    places = made.places(topic)
    assert [made.translated(topic, at) for at in (40, 99, 100, 149, 150, 200)] == [
        40,
        99,
        "not_mirrored",
        "not_mirrored",
        places[100],
        places[149] + 1,
    ]
    (row,) = made.run("seek", "--topic", topic, "--to", "150").rows
    assert row["action"] == "repeat"


def test_backward_mirrors_again_behind_the_first_copies(made, topics):
    topic = topics["back"]
    (row,) = made.run("seek", "--topic", topic, "--to", "70", "--execute", "--yes").rows
    assert (row["action"], row["records_repeated"]) == ("repeat", 30)
    there = row["downstream_after"]
    assert there >= 100
    assert [made.translated(topic, at) for at in (20, 70, 90)] == ["not_mirrored", there, "beyond_mirror"]
    mirror(made.settings)
    assert made.target(topic) == made.source(topic) + made.source(topic)[70:]
    again = made.places(topic)[100:]
    assert [made.translated(topic, at) for at in (20, 99, 100)] == ["not_mirrored", again[29], again[29] + 1]
    assert there <= made.translated(topic, 70) <= again[0]
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
    again = read_topic(made.down, made.settings.remote_topic(topic))
    assert [record.value for record in again] == made.source(topic) * 2
    assert made.translated(topic, 40) == again[140].offset  # an owner in doubt leaves markers before them


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "101"), 3, "beyond_source_end"),
        (("--to", "yesterday"), 2, "expected an offset"),
        (("--to", "2026-01-31T12:00:00"), 2, "with its zone"),
        ((), 2, "one of|either"),
        (("--to", "1", "--csv", "nowhere.csv"), 2, "either"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(made, topics, words, code, said):
    answer = made.run("seek", "--topic", topics["same"], *words, code=code)
    errors = [line for line in answer.said if line.startswith("error:")]
    assert len(errors) == 1
    assert any(word in errors[0] for word in said.split("|")), errors


# --- rebuilt ----------------------------------------------------------------------------------------------


def write(cluster, topic, partition, key, value):
    """One record, by somebody who should not."""
    producer = Producer({"bootstrap.servers": cluster, "log_level": 2})
    producer.produce(topic, value, key, partition)
    assert producer.flush(20) == 0


def runs_records(made):
    """Every record of the runs topic, newest per key."""
    topic = f"mmtool-offset-runs.{FROM}.internal"
    found = {record.key: record for record in read_topic(made.down, topic, isolation="read_uncommitted")}
    return topic, {key: record for key, record in found.items() if record.value}


def lost_runs(made):
    """What a start of `replicate` is refused with."""

    async def asked():
        flow = await connect(made.settings)
        positions = read_control(flow.settings.target, flow.identity).positions
        stored = read_runs_log(flow.settings.target, flow.identity).keys
        try:
            await refuse_lost_runs(flow, positions, stored)
        except RefusedError as refusal:
            return str(refusal)
        finally:
            await flow.close()

    return asyncio.run(asked())


def test_runs_that_are_lost_or_damaged_are_derived_from_both_logs(made, fleet, settings, measured):
    """Commands refuse to guess until then; afterwards every offset is exact, and nothing is mirrored twice."""
    plain, holed = f"{settings[2]}-plain", f"{settings[2]}-holed"
    for topic, transactions in ((plain, None), (holed, Transactions(f"{holed}-writer", 7, abort_every=3))):
        create_topic(made.up, topic)
        produce(made.up, Load(topic, 300, 1, 100, transactions=transactions))
    mirror(made.settings)
    topic, records = runs_records(made)
    for key, record in records.items():
        about = decode_block(record.value).about
        if about.source_topic == plain:
            write(made.down, topic, record.partition, key, b"not a block")
        elif about.source_topic == holed:
            write(made.down, topic, record.partition, key, None)
    write(made.down, topic, 0, b"whose is this", b"nobody's")

    refusal = lost_runs(made)
    assert (
        f"(the map of source offsets to target offsets) of 1 partition are lost, for example of {holed}-0, mirrored up"
        " to offset" in refusal
    )
    made.run("seek", "--topic", plain, "--to", "5", code=3)
    rows = {row["topic"]: row for row in made.run("rebuild").rows}
    assert {name: rows[name]["action"] for name in (plain, holed)} == {plain: "rebuild", holed: "rebuild"}
    assert made.run("rebuild", "--topic", plain, code=0).rows[0]["records_mapped"] == 300
    began = time.monotonic()
    made.run("rebuild", "--execute", "--yes")
    measured(f"runs lost: derived again in {time.monotonic() - began:.1f} s")
    assert {row["action"] for row in made.run("rebuild").rows} <= {"keep"}
    assert lost_runs(made) is None

    asked, wrong = wrong_translations(made.settings, fleet[FROM], fleet[TO], [plain, holed])
    assert (asked > 600, wrong[:5]) == (True, [])
    made.produce(plain)
    mirror(made.settings)
    assert [made.target(name) for name in (plain, holed)] == [made.source(name) for name in (plain, holed)]


def test_lost_runs_of_what_the_file_does_not_match_any_more_are_derived_as_well_and_of_deleted_topics_not_asked_for(
    made, fleet, settings, tmp_path, mmtool
):
    """A file may match them again, and their records must not come twice then."""
    kept, left, gone = (f"{settings[2]}-{what}" for what in ("kept", "left", "gone"))
    for topic in (kept, left, gone):
        create_topic(made.up, topic)
        made.produce(topic)
    mirror(made.settings)
    topic, records = runs_records(made)
    for key, record in records.items():
        if decode_block(record.value).about.source_topic in (left, gone):
            write(made.down, topic, record.partition, key, None)
    delete_topic(made.up, gone)
    narrow = flow_of(fleet, tmp_path, FROM, TO, kept)
    file = tmp_path / f"{FROM}-{TO}.properties"
    narrowed = Flow(narrow, file, made.up, made.down, mmtool)

    assert f"offsets) of 1 partition are lost, for example of {left}-0" in lost_runs(narrowed)
    (row,) = narrowed.run("rebuild", "--execute", "--yes").rows
    assert (row["topic"], row["action"], row["records_mapped"]) == (left, "rebuild", RECORDS)
    assert lost_runs(narrowed) is None
    made.produce(left)
    mirror(made.settings)
    assert made.target(left) == made.source(left)


# --- cut off in the middle --------------------------------------------------------------------------------


class CutOff:
    """Ends a command at its n-th write of state, as a kill would: nothing behind it is written."""

    def __init__(self, monkeypatch, module, at):
        self.left = at
        for name in ("store_owned", "store_records", "write_documents"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, self._counting(getattr(module, name)))

    def _counting(self, write):
        async def counted(*args, **options):
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("cut off")
            return await write(*args, **options)

        return counted


def unsound(made, fleet, topic):
    """Runs that do not lead from a record to the same record."""
    known = stored_maps(made.settings, fleet[FROM], fleet[TO])[topic, 0]
    here = {record.offset: record.value for record in read_topic(made.up, topic)}
    there = {
        record.offset: record.value for record in read_topic(made.down, made.settings.remote_topic(topic))
    }
    return [
        (run.upstream_start + i, run.downstream_start + i)
        for run in known.runs
        for i in range(run.count)
        if here[run.upstream_start + i] != there[run.downstream_start + i]
    ]


@pytest.fixture
def holed(made, settings, monkeypatch, topic_name):
    """A mirrored topic of 100 records whose runs fill many blocks, as transaction markers lie between them."""
    topic = f"{settings[2]}-{topic_name('holed')}"
    create_topic(made.up, topic)
    produce(made.up, Load(topic, RECORDS, 1, 100, transactions=Transactions(f"{topic}-writer", 7)))
    monkeypatch.setattr(pump_mirror, "OPEN_RUNS", 2)
    mirror(made.settings)
    return topic


@pytest.mark.chaos  # a minute of seeks that are cut off
def test_a_seek_that_is_cut_off_anywhere_leaves_a_true_map_and_can_be_done_again(
    made, fleet, holed, monkeypatch
):
    """Before anything, between the older blocks and the newest, and before the positions."""
    whole, again = made.source(holed), made.source(holed)[60:]
    middle = [record.offset for record in read_topic(made.up, holed)][60]
    for writes, repeated in ((0, 0), (1, 0), (2, 1)):
        before = made.target(holed)
        with monkeypatch.context() as patched:
            CutOff(patched, flow_moves, writes)
            made.run("seek", "--topic", holed, "--to", middle, "--execute", "--yes", code=1)
        assert unsound(made, fleet, holed) == []
        mirror(made.settings)
        assert (unsound(made, fleet, holed), made.target(holed)) == ([], before + again * repeated)
    made.run("seek", "--topic", holed, "--to", middle, "--execute", "--yes")
    mirror(made.settings)
    assert (unsound(made, fleet, holed), made.target(holed)) == ([], whole + again + again)


@pytest.mark.chaos
def test_a_rebuild_that_is_cut_off_is_refused_or_true_and_never_forgotten(made, fleet, holed, monkeypatch):
    """New blocks lie over old ones by then, one by one."""
    mirrored = made.target(holed)
    monkeypatch.setattr(rebuild, "OPEN_RUNS", 2)
    monkeypatch.setattr(own_log, "_BATCH_BYTES", 1)  # one record per batch: the finest cuts there are
    for appended in (1, 5):
        with monkeypatch.context() as patched:
            _after(patched, appended)
            made.run("rebuild", "--topic", holed, "--execute", "--yes", code=1)
        made.run("rebuild", "--execute", "--yes")
        assert unsound(made, fleet, holed) == []
        made.run("rebuild", "--topic", holed, "--execute", "--yes")
    mirror(made.settings)
    assert (made.target(holed), unsound(made, fleet, holed)) == (mirrored, [])


def _after(patched, appended):
    """The n-th batch of state is the last one."""
    left, append = [appended], state_writer.append

    async def counted(cluster, entry, *more):
        if entry.topic.startswith("mmtool-offset-runs."):
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("cut off")
        return await append(cluster, entry, *more)

    patched.setattr(state_writer, "append", counted)


def test_offset_runs_go_once_both_clusters_have_deleted_their_records(made, settings, monkeypatch):
    """Retention bounds the stored state; later commits are translated as before, by readers and by the next owner."""
    monkeypatch.setattr(pump_mirror, "OPEN_RUNS", 4)
    monkeypatch.setattr(flow_run, "_SECOND_ROUND_SECONDS", 0.0)
    topic = f"{settings[2]}-old"
    remote = made.settings.remote_topic(topic)
    create_topic(made.up, topic)
    produce(made.up, Load(topic, 40, 1, 100, transactions=Transactions(f"{topic}-writer", 1)))
    mirror(made.settings)
    first = made.places(topic)[0]
    answers = [made.translated(topic, offset) for offset in (42, 60)]
    blocks = block_keys(made, topic)
    assert len(blocks) == 10

    delete_records(made.down, remote, first + 30)
    tidied(made)
    assert block_keys(made, topic) == blocks  # the source still has their records
    delete_records(made.up, topic, 42)
    tidied(made)
    assert block_keys(made, topic) == blocks[5:]

    assert [made.translated(topic, offset) for offset in (20, 60)] == ["target_log_start_passed", answers[1]]
    assert answers[0] == first + 21
    made.produce(topic)
    mirror(made.settings)
    assert made.target(topic) == made.source(topic)[9:]

    delete_records(made.down, remote, made.places(topic)[-1] + 1)
    delete_records(made.up, topic, 180)
    tidied(made)
    assert block_keys(made, topic) == [80]  # the newest one, from which the next owner goes on
    made.produce(topic, 3)
    mirror(made.settings)
    assert made.target(topic) == made.source(topic)


def block_keys(made, topic):
    """Where the stored blocks of a topic's only partition begin."""
    blocks = [decode_block(record.value) for record in runs_records(made)[1].values()]
    return sorted(block.block_start for block in blocks if block.about.source_topic == topic)


def tidied(made):
    """An owner takes the flow, and comes to its second round."""

    async def second_round():
        owner = await Owner.take(made.settings)
        await owner.run.tidy()
        await owner.close()

    asyncio.run(second_round())
