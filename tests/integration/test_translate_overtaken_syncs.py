"""Beside the real MirrorMaker 2, where an offset sync comes after a later one, or the first ones are missing.

MM2 4.3.1 sends syncs from two threads, and seldom the other way round: that is replayed here with records of its own
format behind those that it wrote.
"""

from __future__ import annotations

import os
import time

import pytest

from kit.batches import PlainRecord, batch_of
from kit.beside_mm2 import offset_syncs
from kit.lab_admin import delete_topic
from kit.lookups import groups_of
from kit.mm2_truth import Sighted, copied_partitions
from kit.raw_producer import append_batches
from kit.real_mirror_maker import MirrorMaker
from mmtool.config import load_settings
from mmtool.kafka.mm2.mirror_maker import Mm2Topics, syncs_place
from mmtool.lab.load import Load, Transactions, produce
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.plan.groups.facts import Commit
from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(280)]

TOPIC = f"overtaken-{os.getpid()}"
REMOTE = f"source.{TOPIC}"
PLACES = [TopicPartition(TOPIC, n) for n in range(2)]
GROUPS = 8
IN_TRANSACTIONS = Load(
    TOPIC, 1200, len(PLACES), record_bytes=100, transactions=Transactions(f"{TOPIC}-writer", 10, 3)
)


class Mirrored:
    """120 transactions, a third of them aborted, and groups that have read a part each."""

    def __init__(self, fleet, directory):
        self.source, self.target = fleet["source"].bootstrap, fleet["target"].bootstrap
        self.properties = directory / "mm2.properties"
        extra = {
            "source->target.topics": TOPIC,
            "source->target.groups": f"{TOPIC}.*",
            "source.consumer.isolation.level": "read_committed",
            "heartbeats.replication.enabled": "false",
            "target.offset.flush.interval.ms": "1000",
        }
        self.properties.write_text(fleet.properties([("source", "target")], **extra))
        (self.flow,) = load_settings(self.properties, os.environ).select("source", "target")
        _, syncs = syncs_place(self.flow)
        if syncs in topics_of(self.source):  # another file's, of which the cleaner may take some at any time
            delete_topic(self.source, syncs)
        create_topic(self.source, TOPIC, len(PLACES))
        aborted = produce(self.source, IN_TRANSACTIONS).aborted
        self._copied = IN_TRANSACTIONS.count - len(aborted)
        self._run_mm2(directory)
        seen = Sighted(fleet["source"], [TOPIC]).look(), Sighted(fleet["target"], [REMOTE]).look()
        self.truth = copied_partitions(*seen, {TOPIC: REMOTE})
        self._commit()

    def _run_mm2(self, directory):
        with MirrorMaker(self.properties.read_text(), directory / "mm2") as mm2:
            mm2.wait_until(self._is_copied, "every committed record on the target")
            mm2.wait_until(self._is_told_to_the_end, "a sync of each last record")

    def _is_copied(self):
        return sum(end_offsets(self.target, REMOTE).values()) == self._copied

    def _is_told_to_the_end(self):
        ends, told = end_offsets(self.target, REMOTE), offset_syncs(self.flow)
        return all(told[at][-1].downstream == ends[at.partition] - 1 for at in PLACES if at in told)

    def _commit(self):
        ends = end_offsets(self.source, TOPIC)
        for number in range(1, GROUPS + 1):
            read = {at: Commit(ends[at.partition] * number // GROUPS) for at in PLACES}
            assert groups_of(self.source).alter(f"{TOPIC}-{number}", read) == {}

    def tell(self, place, *copies, later_ms=0):
        """As MM2 tells: the copies of these numbers, in this order."""
        truth = self.truth[place]
        now = int(time.time() * 1000) + later_ms
        syncs = [OffsetSync(place, truth.copies[n], truth.at[n]) for n in copies]
        records = [PlainRecord(n, now + n, sync.key(), sync.value()) for n, sync in enumerate(syncs)]
        cluster, topic = syncs_place(self.flow)
        append_batches(cluster.bootstrap_servers, topic, 0, [batch_of(records)])

    def judge(self, row):
        """An answer's exactness, once it is seen to skip nothing and to promise nothing wrong."""
        truth = self.truth[row["topic"], row["partition"]]
        place = (row["upstream_offset"], row["downstream_offset"])
        assert row["downstream_offset"] is not None, row
        assert truth.skipped(*place) == [], row
        assert truth.read_again(*place) <= row["reread_max"], row
        return row["exactness"]


@pytest.fixture(scope="module")
def mirrored(fleet, tmp_path_factory):
    return Mirrored(fleet, tmp_path_factory.mktemp("overtaken"))


@pytest.fixture
def rows(mmtool, mirrored):
    def run(*options):
        ended = mmtool(
            "translate-offsets", "-c", mirrored.properties, "--groups", f"{TOPIC}.*", "-o", "json", *options
        )
        refused = [row for row in ended.rows if row["downstream_offset"] is None]
        assert (ended.code, len(ended.rows)) == (0, GROUPS * len(PLACES)), (refused, ended.stderr)
        return ended.rows

    return run


def test_as_mm2_left_it_every_commit_has_an_answer_and_refined_an_exact_one(mirrored, rows, measured):
    found = [mirrored.judge(row) for row in rows()]
    measured(f"transactions beside MM2: {found.count('exact')} of {len(found)} exact by its syncs alone")
    refined = rows("--refine")
    assert {mirrored.judge(row) for row in refined} == {"exact"}, [
        r for r in refined if r["exactness"] != "exact"
    ]


def test_after_a_sync_that_was_overtaken_every_commit_has_an_answer_and_refined_an_exact_one(mirrored, rows):
    for place in PLACES:
        last = len(mirrored.truth[place].at) - 1
        mirrored.tell(place, last - 20, last - 40)
    assert {mirrored.judge(row) for row in rows()} <= {"exact", "bounded"}
    refined = rows("--refine")
    assert {mirrored.judge(row) for row in refined} == {"exact"}, [
        r for r in refined if r["exactness"] != "exact"
    ]
    maps = Mm2Topics(mirrored.flow).synced().maps
    for place in PLACES:
        assert len(maps[place].copies) > 1
        assert list(mirrored.truth[place].wrong_forward(maps[place])) == []
        assert list(mirrored.truth[place].wrong_back(maps[place])) == []


def test_where_no_other_sync_counts_any_more_refined_answers_are_exact(mirrored, rows):
    """One that goes back so late may be of a target that was made anew: the walk begins where the logs do."""
    for place in PLACES:
        mirrored.tell(place, len(mirrored.truth[place].at) - 50, later_ms=11 * 60_000)
    maps = Mm2Topics(mirrored.flow).synced().maps
    assert all(len(maps[place].copies) == 1 for place in PLACES)
    refined = rows("--refine")
    assert {mirrored.judge(row) for row in refined} == {"exact"}, [
        r for r in refined if r["exactness"] != "exact"
    ]
