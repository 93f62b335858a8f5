"""Mirrors with the source's own offsets: each record at its place, markers elsewhere, and what a prefill costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import COMMIT, PlainRecord, batch_of, data, marker
from kit.mirror import FakeLog, assigned, fetched, mirror_of, produced
from mmtool.kafka.wire.codes import Code
from mmtool.plan.records.documents import PrefillRecord, State
from mmtool.replication.control.control_follower import position_by_books
from mmtool.replication.pump.batch_prep import InDoubtError
from mmtool.replication.same_offsets import prefill
from mmtool.replication.same_offsets.mirror import FILLED_AT_ONCE, MOST_FILLED
from mmtool.replication.same_offsets.prefill import Prefills
from mmtool.replication.same_offsets.refusals import Cost
from mmtool.replication.spark.assignment import OffsetWriters
from mmtool.translation.block_codec import decode_block, encode_block
from mmtool.translation.blocks import WriterState
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

WRITERS = OffsetWriters(data_producer=7, fill_producer=8, generation=3)


def with_hole(offset, missing):
    """A batch of four records of which compaction has taken some."""
    kept = [at for at in range(offset, offset + 4) if at - offset not in missing]
    return batch_of([PlainRecord(at, 1000 + at, b"k%d" % at, b"v%d" % at) for at in kept]).write()


PIECES = st.lists(
    st.one_of(
        st.integers(1, 4).map(lambda count: ("data", count)),
        st.just(("marker", 1)),
        st.integers(1, 3).map(lambda count: ("nothing", count)),
        st.sets(st.integers(1, 2), min_size=1).map(lambda missing: ("compacted", frozenset(missing))),
    ),
    max_size=12,
)


@dataclass
class Source:
    """A log, and which of its offsets hold a record."""

    batches: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    end: int = 0

    def grow(self, pieces):
        for kind, what in pieces:
            if kind == "data":
                self.batches.append(data(self.end, what))
                self.offsets += range(self.end, self.end + what)
                self.end += what
            elif kind == "marker":
                self.batches.append(marker(self.end, 5, COMMIT))
                self.end += 1
            elif kind == "nothing":
                self.end += what
            else:
                self.batches.append(with_hole(self.end, what))
                self.offsets += [self.end + n for n in range(4) if n not in what]
                self.end += 4
        return self


def settle(mirror, log):
    """Send and fill until nothing is left to do."""
    while True:
        if mirror.fillable:
            fill = mirror.next_fill()
            log.end += fill.left
            mirror.filled(fill)
        elif mirror.sendable:
            sent = mirror.next_to_send()
            mirror.answered(sent, log.append(bytes(sent.batch.payload)))
        else:
            return


def same_mirror(**changes):
    return mirror_of(assigned(same=WRITERS, **changes))


def begun(**changes):
    """A new mirror over an empty log, and that log."""
    mirror = same_mirror(**changes)
    mirror.begin(DownstreamOffset(0), 0, is_empty=True)
    return mirror, FakeLog()


@given(first=PIECES, second=PIECES, begins_at=st.integers(0, 30))
def test_every_record_gets_its_sources_offset_whatever_lies_between(first, second, begins_at):
    source = Source(end=begins_at).grow(first)
    mirror, log = begun(upstream=begins_at)
    for _ in range(2):
        mirror.offer(fetched(*source.batches, end=source.end), 0)
        settle(mirror, log)
        source.grow(second)
    assert mirror.state != State.HALTED, mirror.reason
    known = [at for at in source.offsets if at < log.end]
    assert sorted(log.records) == known
    assert all(log.records[at].value == b"v%d" % at for at in known)
    assert (mirror.downstream_end, mirror.frontier) == (log.end, log.end)
    assert log.end >= max(known, default=-1) + 1
    booked = [position_by_books(block) for block in mirror.take_blocks()][-1:]
    assert [(one.upstream_position, one.downstream_position) for one in booked] == [(log.end, log.end)] * len(
        booked
    )


def test_nothing_is_sent_while_a_fill_is_written_and_no_fill_before_all_is_acknowledged():
    mirror, log = begun()
    mirror.offer(fetched(data(0, 2), marker(2, 5, COMMIT), data(3, 2), end=5), 0)
    first = mirror.next_to_send()
    assert (mirror.sendable, mirror.fillable) == (False, False)
    mirror.answered(first, log.append(bytes(first.batch.payload)))
    fill = mirror.next_fill()
    assert (fill.upstream_start, fill.left, mirror.sendable, mirror.settled, mirror.mark) == (
        2,
        1,
        False,
        False,
        None,
    )
    log.end += 1
    mirror.filled(fill)
    settle(mirror, log)
    assert (sorted(log.records), mirror.frontier) == ([0, 1, 3, 4], 5)


def test_batches_are_written_by_the_flows_own_producer_whoever_owns_it():
    mirror = same_mirror()
    mirror.begin(DownstreamOffset(0), 40, is_empty=True)
    mirror.offer(fetched(data(0, 2), end=2), 0)
    sent = mirror.next_to_send()
    writer = mirror.writer
    assert (sent.sequence, writer.producer_id, writer.epoch) == (40, WRITERS.data_producer, 0)


def test_a_record_that_got_another_offset_halts_the_partition_for_good():
    mirror, log = same_mirror(), FakeLog(end=1)
    mirror.begin(DownstreamOffset(0), 0, is_empty=True)
    mirror.offer(fetched(data(0, 2), end=2), 0)
    settle(mirror, log)
    assert (mirror.state, mirror.for_good, mirror.frontier) == (State.HALTED, True, 0)
    assert "offsets_differ: the next record of orders-0 has offset 0" in mirror.reason


def test_a_log_that_somebody_else_has_grown_halts_the_partition_in_a_quiet_moment():
    mirror, log = begun()
    mirror.offer(fetched(data(0, 2), end=2), 0)
    settle(mirror, log)
    mirror.looked(mirror.mark, DownstreamOffset(2))
    assert mirror.reason == ""
    mirror.looked(mirror.mark, DownstreamOffset(3))
    assert "offsets_differ" in mirror.reason


@pytest.mark.parametrize(("log_end", "is_empty"), [(3, False), (8, True)])
def test_a_new_mirror_begins_only_in_a_log_that_is_empty_and_ends_before_it(log_end, is_empty):
    mirror = same_mirror(upstream=5, downstream=log_end)
    mirror.begin(DownstreamOffset(log_end), 0, is_empty=is_empty)
    assert (mirror.state, "offsets_differ" in mirror.reason) == (State.HALTED, True)


def test_a_mirror_whose_log_has_another_end_than_it_left_is_recovered_first():
    mirror = same_mirror(stored=True)
    with pytest.raises(InDoubtError, match="ends at 4, not at 0"):
        mirror.begin(DownstreamOffset(4), 0, is_empty=True)


def mirrored(upstream, downstream, count, *, frontier, same=False):
    """The block of a mirror that has so many records, behind which the source has holes up to ``frontier``."""
    recorder = MapRecorder.resume(assigned().block)
    recorder.same_offsets = same
    writer = WriterState(7, 0, count)
    recorder.appended(UpstreamOffset(upstream), DownstreamOffset(downstream), count, writer=writer)
    recorder.passed(UpstreamOffset(frontier))
    recorder.checked(DownstreamOffset(downstream + count))
    return recorder.take()[-1]


def test_the_first_record_that_gets_another_offset_waits_until_the_stored_runs_say_so():
    block = mirrored(0, 0, 4, frontier=4, same=True)
    mirror = mirror_of(assigned(stored=True, block=block))
    assert not mirror.take_blocks()  # nothing was mirrored: it may keep offsets again
    assert mirror.open_block.tail.same_offsets
    mirror.stored()
    mirror.offer(fetched(data(4, 2), end=6), now_ms=1)
    mirror.stored()  # of what was taken before
    assert (mirror.sendable, mirror.is_held) == (False, True)
    (block,) = mirror.take_blocks()
    assert (mirror.sendable, block.tail.same_offsets) == (False, False)
    mirror.stored()
    assert (mirror.sendable, mirror.awaits_books) == (True, False)


def test_a_mirror_that_passes_over_what_it_would_have_marked_keeps_no_offsets_any_more():
    mirror = mirror_of(assigned(stored=True, block=mirrored(0, 0, 4, frontier=4, same=True)))
    mirror.offer(fetched(marker(4, 5, COMMIT), end=5), now_ms=1)
    (block,) = mirror.take_blocks()
    assert (block.tail.upstream_frontier, block.tail.same_offsets) == (5, False)
    mirror.stored()
    mirror.offer(fetched(data(5, 2), end=7), now_ms=1)
    assert (mirror.sendable, mirror.is_held) == (True, False)


@pytest.mark.parametrize(
    "block",
    [
        mirrored(3, 0, 4, frontier=7),
        mirrored(0, 0, 4, frontier=6),
        mirrored(0, 2, 4, frontier=6),
        mirrored(0, 0, 4, frontier=4),
    ],
    ids=["fewer before", "a hole that was passed over", "more before", "the same by chance"],
)
def test_a_mirror_whose_offsets_were_translated_is_not_continued_as_one_that_keeps_them(block):
    mirror = same_mirror(stored=True, block=block)
    mirror.begin(mirror.downstream_end, 4, is_empty=True)
    assert (mirror.state, "offsets_differ" in mirror.reason) == (State.HALTED, True)
    assert "was mirrored with translated offsets" in mirror.reason  # so the two numbers may be the same
    assert not any(
        block.tail.same_offsets for block in mirror.take_blocks()
    )  # which the next start would trust


def test_a_mirror_that_kept_them_is_continued_with_the_numbers_that_the_leader_expects():
    mirror = same_mirror(stored=True, block=mirrored(0, 0, 4, frontier=4, same=True))
    mirror.begin(DownstreamOffset(4), 4, is_empty=True)
    mirror.offer(fetched(data(4, 2), end=6), 0)
    assert (mirror.next_to_send().sequence, mirror.reason) == (4, "")


def test_what_an_operator_skipped_is_filled():
    recorder = MapRecorder.resume(mirrored(0, 0, 4, frontier=4, same=True))
    recorder.skip_to(UpstreamOffset(9))
    mirror, log = same_mirror(stored=True, block=recorder.take()[-1]), FakeLog(end=4)
    mirror.begin(DownstreamOffset(4), 4, is_empty=True)
    mirror.offer(fetched(data(9, 2), end=11), 0)
    log.writers.clear()
    settle(mirror, log)
    assert (log.end, mirror.frontier, mirror.reason) == (11, 11, "")


@given(first=PIECES, second=PIECES, cut=st.integers(0, 40))
def test_a_mirror_whose_log_was_cut_goes_on_from_there(first, second, cut):
    """The new leader has a part of the log: what is lost is mirrored again, to the same offsets."""
    source = Source().grow(first)
    mirror, log = begun()
    mirror.offer(fetched(*source.batches, end=source.end), 0)
    settle(mirror, log)
    recorder = MapRecorder.resume(mirror.take_blocks()[-1])
    ends = [at for at in range(log.end + 1) if at == 0 or at - 1 in log.records or at == log.end]
    at = max(end for end in ends if end <= cut)
    left = max((offset + 1 for offset in log.records if offset < at), default=0)
    assert recorder.cut(DownstreamOffset(left), DownstreamOffset(at))
    log = FakeLog({offset: record for offset, record in log.records.items() if offset < at}, end=at)
    again = same_mirror(stored=True, block=decode_block(encode_block(recorder.take()[-1])))
    again.begin(DownstreamOffset(at), 0, is_empty=True)
    source.grow(second)
    again.offer(fetched(*source.batches, end=source.end), 0)
    settle(again, log)
    assert again.reason == ""
    assert sorted(log.records) == [offset for offset in source.offsets if offset < log.end]
    assert log.end == again.frontier


def test_more_holes_in_a_row_than_markers_are_written_halt_the_partition_behind_what_it_has():
    mirror, log = begun()
    late = 2 + MOST_FILLED + 1
    mirror.offer(fetched(data(0, 2), data(late, 1), end=late + 1), 0)
    settle(mirror, log)
    assert (mirror.state, mirror.frontier, sorted(log.records)) == (State.HALTED, 2, [0, 1])
    assert f"at the {MOST_FILLED + 1} offsets before {late}" in mirror.reason


def test_a_dead_letter_leaves_its_offset_to_a_marker():
    mirror, log = mirror_of(assigned(same=WRITERS, max_batch_bytes=300), with_letters=True), FakeLog()
    mirror.begin(DownstreamOffset(0), 0, is_empty=True)
    big = batch_of([PlainRecord(1, 1001, b"k1", b"x" * 4_000)]).write()
    mirror.offer(fetched(data(0, 1), big, data(2, 1), end=3), 0)
    settle(mirror, log)
    letter = mirror.letter
    mirror.posted(letter)
    mirror.take_blocks()
    mirror.stored()
    settle(mirror, log)
    assert (letter.upstream_start, sorted(log.records), log.end) == (1, [0, 2], 3)


def test_a_long_fill_is_written_in_pieces_between_which_a_round_may_end():
    mirror, log = begun(upstream=2 * FILLED_AT_ONCE + 5)
    pieces = []
    while mirror.fillable:
        fill = mirror.next_fill()
        pieces.append(fill.left)
        log.end += fill.left
        mirror.filled(fill)
        assert (mirror.settled, mirror.downstream_end) == (True, log.end)
    assert pieces == [FILLED_AT_ONCE, FILLED_AT_ONCE, 5]


def test_what_a_round_dropped_is_not_passed_over():
    mirror, log = begun()
    mirror.offer(fetched(data(0, 2), data(3, 2), marker(5, 5, COMMIT), end=6), 0)
    sent = mirror.next_to_send()
    mirror.drop_unsent()
    mirror.answered(sent, log.append(bytes(sent.batch.payload)))
    assert (mirror.frontier, mirror.downstream_end) == (2, 2)


# --- both directions, one name ----------------------------------------------------------------------------

SHARED = WRITERS._replace(shared=True)
THERE, THERE_FILL = 17, 18
"""The producers of the other direction."""


def shared_mirror(**changes):
    return mirror_of(assigned(same=SHARED, **changes), left_out={THERE, THERE_FILL})


def theirs(offset, count):
    return data(offset, count, pid=THERE)


def promoted(offset):
    return marker(offset, THERE, COMMIT, epoch=1)


def test_what_came_from_the_target_is_passed_over_and_what_follows_it_gets_its_offset():
    mirror, log = shared_mirror(), FakeLog(end=6)
    mirror.begin(DownstreamOffset(6), 0, is_empty=False)
    mirror.offer(
        fetched(theirs(0, 4), marker(4, THERE_FILL, COMMIT), theirs(5, 1), promoted(6), data(7, 2), end=9), 0
    )
    settle(mirror, log)
    assert (sorted(log.records), log.end, mirror.frontier, mirror.reason) == ([7, 8], 9, 9, "")


def test_a_record_whose_offset_the_target_has_given_away_halts_the_partition():
    """After an emergency the old primary has records that never came across."""
    mirror, log = shared_mirror(), FakeLog(end=9)
    mirror.begin(DownstreamOffset(9), 0, is_empty=False)
    mirror.offer(fetched(theirs(0, 6), promoted(6), data(7, 2), end=9), 0)
    settle(mirror, log)
    assert (mirror.state, mirror.frontier, sorted(log.records)) == (State.HALTED, 7, [])
    assert "has offset 7 on the source, and would have 9 on the target" in mirror.reason


def test_while_nothing_is_queued_producers_of_the_target_may_go_on():
    mirror, log = shared_mirror(), FakeLog(end=4)
    mirror.begin(DownstreamOffset(4), 0, is_empty=False)
    mirror.looked(mirror.mark, DownstreamOffset(6))
    mirror.offer(fetched(theirs(0, 6), data(6, 1), end=7), 0)
    log.end = 6
    settle(mirror, log)
    assert (sorted(log.records), mirror.reason) == ([6], "")


def test_a_cut_log_that_holds_both_directions_records_halts():
    mirror = shared_mirror(stored=True, block=mirrored(0, 0, 4, frontier=4, same=True))
    mirror.begin(DownstreamOffset(4), 4, is_empty=False)
    mirror.looked(mirror.mark, DownstreamOffset(2))
    assert (mirror.state, "was cut at offset 2" in mirror.reason) == (State.HALTED, True)


def test_a_refused_batch_lets_no_marker_take_its_place():
    mirror, _ = begun()
    mirror.offer(fetched(data(0, 2), marker(2, 5, COMMIT), end=3), 0)
    sent = mirror.next_to_send()
    mirror.answered(sent, produced(Code.NOT_ENOUGH_REPLICAS))
    assert (mirror.fillable, mirror.sendable) == (False, True)


def flow(rate=None, most=100_000_000):
    return SimpleNamespace(throttle_bytes_per_second=rate, prefill_max_offsets=most, name="a->b")


def test_the_cost_is_said_with_its_bytes_and_time():
    cost = Cost.of([90_000_000, 10_000_000], 3, flow())
    assert str(cost).startswith("100,000,000 offsets of 2 partitions are filled with empty records")
    assert str(cost).endswith(": about 73.4 MiB, times 3 replicas, and 50s or more")
    assert "replicas" not in str(Cost.of([1], 1, flow()))
    assert Cost.of([100_000_000], 1, flow(rate=200_000)).seconds == pytest.approx(770)


def test_a_flow_allows_as_many_offsets_as_its_key_says():
    assert Cost.of([100_000_000], 1, flow()).why_refused(flow()) is None
    why = Cost.of([100_000_000, 1], 1, flow()).why_refused(flow())
    assert "more than mmtool.prefill.max.offsets = 100,000,000" in why.cause
    assert why.cure.startswith("set a->b.mmtool.prefill.max.offsets = 100000001 or more")


@pytest.fixture
def prefills(monkeypatch):
    """Prefills of a flow with a throttle, whose hold and clock are attributes."""
    held = SimpleNamespace(hold=None, of=lambda *_: held.hold)
    made = Prefills(SimpleNamespace(settings=flow(rate=200_000)), "me", lambda: held, [], [])
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(prefill.time, "monotonic", lambda: clock.now)
    return made, clock, held


WORK = SimpleNamespace(topic=SimpleNamespace(topic_id="id", name="orders"))


def test_a_prefill_takes_half_of_the_throttle(prefills):
    made, clock, _ = prefills
    made._seconds_to_wait(WORK, 0)
    clock.now += 1
    assert made._seconds_to_wait(WORK, 1_000_000) == 0  # what is there is overdrawn
    assert made._seconds_to_wait(WORK, 1) == pytest.approx(9.5)
    clock.now += 9.6
    assert made._seconds_to_wait(WORK, 1) == 0
    made.flow.settings.throttle_bytes_per_second = None
    assert made._seconds_to_wait(WORK, 1_000_000_000) == 0


def test_a_prefill_waits_for_a_topic_that_is_held(prefills):
    made, _, held = prefills
    made.flow.settings.throttle_bytes_per_second, held.hold = None, "paused"
    assert made._seconds_to_wait(WORK, 1) > 0
    held.hold = None
    assert made._seconds_to_wait(WORK, 1) == 0


def test_a_changed_policy_is_stored_with_the_one_before():
    for policy in ("compact,delete", None):
        record = PrefillRecord("orders", "id", policy)
        assert PrefillRecord.decode(record.encode()) == record
