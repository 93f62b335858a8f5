"""Finding what a source that came back holds behind the frontier, and writing it into a file."""

import json
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import ABORT, LOG_APPEND_TIME, PlainRecord, batch_of, data, marker
from kit.clusters import FakeFlowState
from kit.maps import about_of, map_of
from kit.memory_logs import FakeBatches
from kit.scene import Scene
from kit.tail_files import exported_records
from mmtool.errors import UsageError
from mmtool.failover.diverged_tail.tail_file import default_name, export_tail, read_export
from mmtool.failover.diverged_tail.tails import TailKind, find_tail
from mmtool.kafka.batches import BatchError, decode, iter_batches
from mmtool.kafka.ports import Bounds
from mmtool.translation.blocks import WriterState
from mmtool.translation.divergence import TailPart
from mmtool.translation.types import TopicId, TopicPartition

ORDERS = TopicPartition("orders", 0)
AWAY = TopicPartition("east.orders", 0)
EAST, WEST = 71, 72
"""Producer ids: under one the flow mirrored to west, under the other the way back to east."""


class Case:
    """``orders`` of east: ten records went to west, and what is behind them is for the test to say."""

    def __init__(self, directory, extra="", frontier=10):
        self.scene = Scene(directory, extra)
        self.source, self.target = FakeBatches(), FakeBatches()
        self.source.registered, self.target.registered = {WEST: "west-id"}, {EAST: "east-id"}
        self.scene.has("orders", frontier)
        self.scene.mirrored("orders", 0, [(0, 0, 10)], frontier)

    def holds(self, *batches, end):
        self.source.logs[ORDERS] = b"".join(batches)
        self.scene.source.logs[ORDERS] = Bounds(0, end)

    def tails(self):
        return find_tail(self.scene.look(), source=self.source, target=self.target)

    def tail(self):
        (found,) = self.tails().partitions
        return found

    def exported(self, path):
        return export_tail(self.source, self.tails(), path, operation_id="op-1", source_cluster_id="east-id")


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def test_where_everything_was_mirrored_there_is_no_tail_and_nothing_is_fetched(case):
    found = case.tail()
    assert (found.kind, found.tail.records, found.tail.parts) == (TailKind.DIVERGED, 0, ())
    assert (case.source.read, case.target.read) == ([], [])


def test_records_behind_the_frontier_are_the_tail(case):
    case.holds(data(0, 10), data(10, 4), data(14, 3), end=17)
    found = case.tail()
    assert (found.tail.start, found.tail.end, found.tail.parts) == (10, 17, (TailPart(10, 17, 7),))
    assert case.tails().diverged_records == 7


def test_of_a_batch_that_reaches_below_the_frontier_the_rest_is_the_tail(case):
    case.holds(data(0, 8), data(8, 5), end=13)
    assert case.tail().tail.parts == (TailPart(10, 13, 3),)


def test_markers_and_aborted_records_are_none(case):
    aborted = data(12, 3, pid=5, transactional=True)
    case.holds(data(0, 10), data(10, 2), aborted, marker(15, 5, ABORT), data(16, 1), end=17)
    case.source.aborted[ORDERS] = [(5, 12)]
    assert case.tail().tail.records == 3


def test_what_the_way_back_brought_is_none_and_parts_the_tail(case):
    case.holds(data(0, 10), data(10, 2), data(12, 5, pid=WEST), data(17, 1), end=18)
    tail = case.tail().tail
    assert tail.parts == (TailPart(10, 12, 2), TailPart(17, 18, 1))
    assert tail.brought_to == 17


def test_a_partition_that_was_never_mirrored_is_said_to_be_that_and_is_not_counted(case):
    case.scene.has("orders-new", 3)
    case.source.logs[TopicPartition("orders-new", 0)] = data(0, 3)
    tails = case.tails()
    found = tails.of(TopicPartition("orders-new", 0))
    assert (found.kind, found.tail.records) == (TailKind.NEVER_MIRRORED, 3)
    assert (tails.diverged_records, tails.to_export) == (0, ())


def test_a_source_that_lost_what_the_target_has_is_told_apart(case):
    case.holds(data(0, 6), end=6)
    assert case.tail().kind is TailKind.CUT


def test_of_a_flow_that_mirror_maker_ran_the_tail_begins_behind_its_newest_sync(case):
    case.scene.state.stored.clear()
    case.scene.mirrored_by_mm2("orders", 0, 10, (0, 0), (7, 7))
    case.holds(data(0, 10), data(10, 2), end=12)
    seen = [(n, f"{n}") for n in range(12)]
    case.scene.holds(case.scene.source, "orders", seen)
    case.scene.holds(case.scene.target, "east.orders", seen[:10])
    found = case.tail()
    assert (found.kind, found.tail.start, found.tail.records) == (TailKind.AT_MOST, 8, 4)


def test_where_the_records_show_that_mirror_maker_has_copied_all_nothing_diverged(case):
    case.scene.state.stored.clear()
    case.scene.mirrored_by_mm2("orders", 0, 12, (0, 0), (7, 7))
    case.holds(data(0, 12), end=12)
    seen = [(n, f"{n}") for n in range(12)]
    case.scene.holds(case.scene.source, "orders", seen)
    case.scene.holds(case.scene.target, "east.orders", seen)
    assert (case.tail().tail.records, case.tails().to_export) == (0, ())


def written_by_a_known_writer(case):
    """The books name who wrote last, as those of every real flow do."""
    ((place, known),) = case.scene.state.stored.items()
    tail = replace(known.tail, writer=WriterState(EAST, 0, 10))
    case.scene.state.stored[place] = replace(known, tail=tail)
    case.scene.target.logs[AWAY] = Bounds(0, 14)


def test_where_the_leader_remembers_nothing_behind_the_books_they_are_final(case):
    written_by_a_known_writer(case)
    case.target.remembered["east.orders"] = 0
    case.target.logs[AWAY] = data(10, 4, pid=EAST)
    assert case.tail().tail.is_final


def test_records_of_somebody_else_in_a_mirror_that_has_another_name_at_home_are_counted(case):
    written_by_a_known_writer(case)
    case.target.logs[AWAY] = data(8, 3, pid=99) + marker(11, EAST, ABORT) + data(12, 2, pid=98)
    assert case.tail().strangers == 3


@pytest.mark.parametrize(("pid", "final"), [(EAST, False), (99, True)])
def test_where_the_leader_has_forgotten_the_target_s_own_log_tells(case, pid, final):
    written_by_a_known_writer(case)
    case.target.logs[AWAY] = data(0, 10, pid=EAST) + data(10, 4, pid=pid)
    assert case.tail().tail.is_final is final


IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def test_under_one_name_on_both_sides_they_were_born_away_and_come_home(tmp_path):
    case = Case(tmp_path, IDENTITY)
    case.scene.target.logs[ORDERS] = Bounds(0, 14)
    case.target.logs[ORDERS] = data(10, 4, pid=99)
    assert case.tail().strangers == 0


@pytest.fixture
def pair(tmp_path):
    """One name on both sides; the way back has brought two records, to 3 and 4 of east."""
    case = Case(tmp_path, IDENTITY)
    scene = case.scene
    flow = scene.look().identity.way_back
    about = about_of(flow, scene.target.ids["orders"], ORDERS, "orders", scene.source.ids["orders"])
    case.back = FakeFlowState({(TopicId(about.topic_id), 0): map_of(about, [(0, 3, 2)], 2)})
    looking = replace(scene.look(), clusters=replace(scene.clusters, back=case.back))
    case.tails = lambda: find_tail(looking, source=case.source, target=case.target)
    return case


def test_where_the_books_of_the_way_back_end_early_what_they_may_lack_is_looked_for(pair):
    pair.holds(data(0, 3), data(3, 2, pid=WEST), data(5, 5), data(10, 2), end=12)
    assert (pair.tail().tail.brought_to, pair.tail().tail.parts) == (5, (TailPart(10, 12, 2),))
    assert pair.source.read[0] == (ORDERS, range(5, 12))


def test_a_record_of_the_way_back_that_is_in_no_book_is_found_below_the_frontier(pair):
    pair.holds(data(0, 3), data(3, 2, pid=WEST), data(5, 2), data(7, 3, pid=WEST), data(10, 2), end=12)
    assert pair.tail().tail.brought_to == 10


def test_where_the_leader_remembers_the_books_nothing_below_the_frontier_is_read(pair):
    pair.source.remembered["orders"] = 0
    pair.holds(data(0, 10), data(10, 2), end=12)
    assert pair.source.read == []
    assert pair.tail().tail.brought_to == 5
    assert pair.source.read == [(ORDERS, range(10, 12))]


# --- the file ---------------------------------------------------------------------------------------------


def test_what_is_exported_comes_out_again(case, tmp_path):
    case.holds(data(0, 8), data(8, 5, codec="gzip"), data(13, 2), end=15)
    path = tmp_path / default_name("op-1")
    export = case.exported(path)
    assert path.name == "mmtool-diverged-op-1.jsonl"
    assert (export.records, sum(one.found for one in export.partitions)) == (5, 5)
    assert read_export(path) == export
    stored = [r for view in iter_batches(case.source.logs[ORDERS]) for r in decode(view) if r.offset >= 10]
    assert [(row.place, row.record) for row in exported_records(path)] == [(ORDERS, r) for r in stored]


def test_the_file_is_its_owner_s_alone_and_nothing_else_is_left(case, tmp_path):
    case.holds(data(0, 12), end=12)
    folder = tmp_path / "exports"
    folder.mkdir()
    case.exported(folder / "tail.jsonl")
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_export_that_exists_is_never_replaced(case, tmp_path):
    path = tmp_path / "tail.jsonl"
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists"):
        case.exported(path)
    assert path.read_text() == "precious"


def test_an_export_that_fails_leaves_no_file(case, tmp_path):
    case.holds(data(0, 10), data(10, 3), end=13)
    tails = case.tails()
    case.source.logs[ORDERS] = b"".join((data(0, 10), data(10, 3)[:-8] + b"\xff" * 8))
    folder = tmp_path / "exports"
    folder.mkdir()
    with pytest.raises(
        BatchError, match="the records of orders-0 on the flow's source cannot be exported: offsets 10 to 12"
    ):
        export_tail(
            case.source, tails, folder / "tail.jsonl", operation_id="op-1", source_cluster_id="east-id"
        )
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_so(case, tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        case.exported(tmp_path / "missing" / "tail.jsonl")


def test_what_retention_deleted_before_it_was_written_is_said(case, tmp_path):
    case.holds(data(0, 10), data(10, 2), data(12, 2), end=14)
    tails = case.tails()
    case.source.logs[ORDERS] = data(12, 2)
    path = tmp_path / "tail.jsonl"
    export = export_tail(case.source, tails, path, operation_id="op-1", source_cluster_id="east-id")
    assert (export.records, sum(one.found for one in export.partitions)) == (2, 4)


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[1:],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [*lines, lines[1]],
        lambda lines: [*lines[:1], lines[1].replace(b'"v10"', b'"v1O"'), *lines[2:]],
        lambda lines: [*lines[:-1], lines[-1][:-1]],
        lambda lines: [*lines[:1], b"{]\n", *lines[2:]],
        lambda lines: [*lines[:1], b'{"offset":1}\n', *lines[2:]],
        lambda lines: [],
    ],
)
def test_a_file_that_was_cut_off_or_changed_is_not_read(case, tmp_path, damage):
    case.holds(data(0, 10), data(10, 3), end=13)
    path = tmp_path / "tail.jsonl"
    case.exported(path)
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(UsageError, match="is damaged or was changed"):
        read_export(path)


def test_a_file_of_another_version_is_for_that_version(case, tmp_path):
    case.holds(data(0, 10), end=10)
    path = tmp_path / "tail.jsonl"
    case.exported(path)
    path.write_bytes(path.read_bytes().replace(b'"mmtool_diverged":1', b'"mmtool_diverged":2'))
    with pytest.raises(UsageError, match="has the format of another mmtool version"):
        read_export(path)


CONTENTS = st.none() | st.binary(max_size=20) | st.text(max_size=8).map(str.encode)
HEADERS = st.lists(st.tuples(CONTENTS.map(lambda name: name or b""), CONTENTS), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(-1, 2**62), CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=6)


@given(RECORDS, st.booleans())
def test_whatever_bytes_a_record_has_it_is_the_same_afterwards(tmp_path_factory, records, appended):
    folder = tmp_path_factory.mktemp("tail")
    case = Case(folder)
    plain = [PlainRecord(10 + i, *record) for i, record in enumerate(records)]
    written = batch_of(plain, flags=LOG_APPEND_TIME if appended else 0).write()
    case.holds(data(0, 10), written, end=10 + len(plain))
    case.exported(folder / "tail.jsonl")
    assert read_export(folder / "tail.jsonl").records == len(plain)
    (view,) = iter_batches(written)
    assert [row.record for row in exported_records(folder / "tail.jsonl")] == list(decode(view))


def test_text_is_readable_and_other_bytes_are_base64(case, tmp_path):
    record = PlainRecord(10, 5, b"\xff\x00", "gr\u00fc\u00df\n".encode(), ((b"h", None),))
    case.holds(data(0, 10), batch_of([record]).write(), end=11)
    path = tmp_path / "tail.jsonl"
    case.exported(path)
    line = path.read_bytes().splitlines()[1]
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 0,
        "offset": 10,
        "timestamp": 5,
        "timestamp_type": "CreateTime",
        "key": {"base64": "/wA="},
        "value": "gr\u00fc\u00df\n",
        "headers": [["h", None]],
    }
