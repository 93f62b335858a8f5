"""What a partition's mirror makes of each kind of fetch answer and each kind of produce answer."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import (
    COMMIT,
    CONTROL,
    TRANSACTIONAL,
    PlainRecord,
    batch_of,
    data,
    marker,
)
from kit.mirror import SHARD, FakeLog, assigned, fetched, mirror_of, mirrored, produced, settle
from mmtool.kafka.wire.codes import Code
from mmtool.plan.records.documents import State
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.translation.types import DownstreamOffset, UpstreamOffset


def landed(log):
    return [record.value for record in log.records.values()]


def seasoned(**changes):
    """A mirror whose first batch is acknowledged already, and the log that holds it."""
    mirror, log = mirrored(fetched(data(0), end=1), assigned(**changes))
    return mirror, log


# --- reading ----------------------------------------------------------------------------------------------


def test_a_look_at_the_log_is_worth_nothing_once_a_record_of_ours_may_lie_below():
    mirror, log = seasoned()
    mark = mirror.mark
    mirror.offer(fetched(data(1), end=2), now_ms=1)
    sent = mirror.next_to_send()
    mirror.looked(mark, DownstreamOffset(9))
    mirror.answered(sent, log.append(bytes(sent.batch.payload)))
    mirror.looked(mark, DownstreamOffset(9))
    assert mirror.take_blocks()[-1].tail.target_verified_end == 2


def test_under_read_uncommitted_aborted_records_are_data():
    mirror, log = mirror_of(read_committed=False), FakeLog()
    aborted = data(0, 2, pid=9, transactional=True), marker(2, 9, 0)
    mirror.offer(fetched(*aborted, end=3, aborted=[(9, 0)]), now_ms=1)
    settle(mirror, log)
    assert landed(log) == [b"v0", b"v1"]


def test_the_end_to_reach_is_the_last_stable_offset_or_the_high_watermark_by_isolation():
    ends = []
    for committed in (True, False):
        mirror = mirror_of(read_committed=committed)
        mirror.offer(fetched(end=5, high_watermark=9), now_ms=1)
        ends.append(mirror.source_end)
    assert ends == [5, 9]


def test_the_cut_tail_of_an_answer_is_fetched_again():
    mirror, log = mirror_of(), FakeLog()
    mirror.offer(fetched(data(0, 2), data(2, 2)[:-5], end=4), now_ms=1)
    assert mirror.fetch_position == 2
    mirror.offer(fetched(data(2, 2), end=4), now_ms=1)
    settle(mirror, log)
    assert landed(log) == [b"v0", b"v1", b"v2", b"v3"]


LARGE = PlainRecord(2, value=b"x" * 500)


@pytest.mark.parametrize(
    "batches",
    [
        [data(0, 2), batch_of([LARGE]).write()],
        [batch_of([PlainRecord(0, value=b"v0"), PlainRecord(1, value=b"v1"), LARGE, PlainRecord(3)]).write()],
    ],
    ids=["in the batch before", "in its own batch"],
)
def test_what_is_good_before_a_record_that_cannot_move_still_goes(batches):
    mirror, log = mirror_of(assigned(max_batch_bytes=200)), FakeLog()
    mirror.offer(fetched(*batches, end=4), now_ms=1)
    assert (mirror.state, mirror.offer(fetched(batches[-1], end=4), now_ms=2)) == (State.RUNNING, 0)
    settle(mirror, log)
    assert (mirror.state, "source offset 2" in mirror.reason) == (State.HALTED, True)
    assert (landed(log), mirror.frontier, mirror.fetch_position) == ([b"v0", b"v1"], 2, 2)


def test_a_damaged_batch_that_must_be_rebuilt_halts_the_partition():
    mirror = mirror_of(assigned(upstream=1))
    damaged = bytearray(data(0, 2))
    damaged[-1] ^= 1
    mirror.offer(fetched(bytes(damaged), end=2), now_ms=1)
    assert mirror.state == State.HALTED


def damaged(what):
    """What lies at offset 2, where nobody can read it."""
    batch = bytearray(data(2, 1))
    match what:
        case "a length":
            struct.pack_into(">i", batch, 8, 7)
        case "a count":
            struct.pack_into(">i", batch, 57, -5)
        case "a marker":
            record = PlainRecord(2, key=b"")
            batch = batch_of([record], flags=CONTROL | TRANSACTIONAL, producer=(9, 0, -1)).write()
    return bytes(batch)


@pytest.mark.parametrize("what", ["a length", "a count", "a marker"])
def test_what_is_good_before_bytes_that_nobody_can_read_still_goes_and_their_place_is_told(what):
    mirror, log = mirrored(fetched(data(0, 2), damaged(what), data(3, 1), end=4, aborted=[(9, 0)]))
    assert (landed(log), mirror.frontier, mirror.held_bytes) == ([b"v0", b"v1"], 2, 0)
    assert (mirror.state, "offset 2" in mirror.reason) == (State.HALTED, True)


# --- sending ----------------------------------------------------------------------------------------------


def test_numbers_wrap_from_the_largest_to_zero():
    last = (1 << 31) - 1
    mirror, log = mirrored(fetched(data(0, 4), end=4), assigned(next_sequence=last - 1))
    mirror.offer(fetched(data(4, 1), end=5), now_ms=1)
    settle(mirror, log)
    assert (len(log.records), mirror.writer.next_sequence) == (5, 3)


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [
        (Code.INVALID_PRODUCER_EPOCH, FencedError),
        (Code.PRODUCER_FENCED, FencedError),
        (Code.DUPLICATE_SEQUENCE_NUMBER, InDoubtError),
        (Code.UNKNOWN_PRODUCER_ID, InDoubtError),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, InDoubtError),  # of the oldest: it can only be refused again
    ],
)
def test_an_answer_of_another_owner_or_without_a_place_stops_the_pump(code, ends_with):
    mirror, _ = seasoned()
    mirror.offer(fetched(data(1), end=2), now_ms=1)
    with pytest.raises(ends_with, match=r"shard 0|orders-0"):
        mirror.answered(mirror.next_to_send(), produced(code))


def test_a_batch_that_may_be_there_is_not_cut_in_pieces():
    mirror, log = seasoned()
    mirror.offer(fetched(data(1, 30), end=31), now_ms=1)
    sent = mirror.next_to_send()
    log.append(bytes(sent.batch.payload))
    mirror.lost(sent)
    log.limit = 300
    again = mirror.next_to_send()
    with pytest.raises(InDoubtError):
        mirror.answered(again, log.append(bytes(again.batch.payload)))


def test_a_single_record_larger_than_the_target_takes_halts_the_partition():
    mirror, log = seasoned()
    log.limit = 100
    mirror.offer(fetched(batch_of([PlainRecord(1, value=b"x" * 200)]).write(), end=2), now_ms=1)
    settle(mirror, log)
    assert (mirror.state, mirror.frontier, "source offset 1" in mirror.reason) == (State.HALTED, 1, True)
    assert mirror.settled  # else the round would wait for an answer that has come


@pytest.mark.parametrize("with_letters", [True, False])
def test_behind_a_batch_that_is_too_large_by_now_nothing_is_settled_that_nobody_answers_for(with_letters):
    """It would come twice from a connection that broke, and pass for the record behind it, which would be lost."""
    mirror, log = mirrored(fetched(data(0), end=1), with_letters=with_letters)
    log.limit = 150
    both = batch_of([PlainRecord(1, value=b"v1"), PlainRecord(2, value=b"x" * 200)]).write()
    mirror.offer(fetched(both, data(3), end=5), now_ms=1)
    mirror.offer(fetched(data(4), end=5), now_ms=1)
    refused, behind = mirror.next_to_send(), mirror.next_to_send()
    mirror.answered(refused, log.append(bytes(refused.batch.payload)))
    settle(mirror, log)
    assert (mirror.settled, mirror.letter) == (
        False,
        None,
    )  # nor in the next round, which may know of letters
    with pytest.raises(InDoubtError):
        mirror.lost(behind)


def test_a_refused_batch_halts_its_partition_and_names_place_and_reason():
    mirror, log = seasoned()
    log.poison = {b"v1"}
    mirror.offer(fetched(data(1), end=2), now_ms=1)
    settle(mirror, log)
    assert mirror.state == State.HALTED
    assert mirror.reason.startswith("the target refuses the batch at source offset 1: INVALID_TIMESTAMP: ")
    assert mirror.reason.endswith("or set mmtool.on.timestamp.refused = raise-limit")
    assert not mirror.sendable


def test_what_was_sent_before_a_refused_batch_is_booked_all_the_same():
    mirror, log = seasoned()
    log.poison = {b"v21"}
    mirror.offer(fetched(data(1, 20), data(21, 20), end=41), now_ms=1)
    first, second = mirror.next_to_send(), mirror.next_to_send()
    answers = [log.append(bytes(sent.batch.payload)) for sent in (first, second)]
    mirror.answered(second, answers[1])
    mirror.answered(first, answers[0])
    assert (mirror.state, mirror.frontier, mirror.writer.next_sequence) == (State.HALTED, 21, 21)
    assert mirror.settled


def test_a_halted_partition_with_a_lost_answer_is_not_settled():
    mirror, _ = seasoned()
    mirror.offer(fetched(data(1), end=2), now_ms=1)
    mirror.lost(mirror.next_to_send())
    mirror.halt("the topic is gone")
    assert not mirror.settled


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR])
def test_a_halted_partition_whose_batch_a_leader_took_before_it_led_no_more_is_not_settled(code):
    """A follower has it, and leads by now: who believed that nothing is there would send it again under a new claim."""
    mirror, log = seasoned()
    mirror.offer(fetched(data(1), end=2), now_ms=1)
    sent = mirror.next_to_send()
    log.append(bytes(sent.batch.payload))
    mirror.answered(sent, produced(code))
    mirror.answered(mirror.next_to_send(), produced(Code.TOPIC_AUTHORIZATION_FAILED))
    assert (mirror.state, mirror.settled, landed(log)) == (State.HALTED, False, [b"v0", b"v1"])


def test_an_answer_below_what_is_mapped_is_a_halt_never_a_success():
    """A producer id whose number was used before is answered with success and not appended."""
    mirror, _ = seasoned()
    mirror.offer(fetched(data(1, 20), data(21, 20), end=41), now_ms=1)
    first, second = mirror.next_to_send(), mirror.next_to_send()
    mirror.answered(first, produced(Code.NONE, base_offset=0))
    mirror.answered(second, produced(Code.NONE, base_offset=30))
    assert (mirror.state, mirror.reason.startswith("diverged")) == (State.HALTED, True)
    assert (mirror.frontier, mirror.writer.next_sequence) == (1, 1), "nothing behind it counts"


# --- books ------------------------------------------------------------------------------------------------


def test_the_first_block_says_where_the_mirror_begins_and_under_which_claim():
    (block,) = mirror_of(assigned(upstream=5, downstream=8)).take_blocks()
    writer = (block.tail.writer.producer_id, block.tail.writer.epoch, block.tail.writer.next_sequence)
    assert (block.mirror_start.upstream, block.mirror_start.downstream) == (5, 8)
    assert writer == (SHARD.producer_id, SHARD.epoch, 0)


def test_nothing_is_stored_again_while_nothing_changes():
    mirror, _ = seasoned()
    mirror.take_blocks()
    mirror.offer(fetched(end=1), now_ms=2)
    assert mirror.take_blocks() == []


def test_the_last_acknowledged_record_gets_an_offset_sync():
    mirror, _ = mirrored(fetched(data(0, 3), end=3))
    assert mirror.unsynced == (2, 2)


# --- state ------------------------------------------------------------------------------------------------


def test_what_comes_late_to_a_halted_partition_leaves_the_frontier_before_what_was_let_go():
    mirror = mirror_of()
    mirror.offer(fetched(data(0, 3), end=4), now_ms=1)
    mirror.halt("the topic is gone")
    assert mirror.offer(fetched(marker(3, 9, COMMIT), end=4), now_ms=2) == 0
    assert (mirror.frontier, mirror.held_bytes) == (0, 0)


def test_a_partition_runs_until_its_frontier_reaches_the_source_s_end():
    mirror, log = mirror_of(), FakeLog()
    assert mirror.state == State.STARTING
    mirror.offer(fetched(data(0, 2), end=2), now_ms=1000)
    assert (mirror.state, mirror.behind_since_ms) == (State.RUNNING, 1000)
    settle(mirror, log)
    mirror.note_lag(2000)
    assert (mirror.state, mirror.behind_since_ms, mirror.at_end_ms) == (State.CAUGHT_UP, 0, 2000)
    mirror.offer(fetched(data(2, 2), end=4), now_ms=3000)
    assert (mirror.behind_since_ms, mirror.at_end_ms) == (3000, 2000)


def test_a_mirror_that_is_never_at_the_end_knows_up_to_when_it_has_everything():
    mirror, log = mirror_of(), FakeLog()
    for batch in range(300):
        mirror.offer(fetched(data(2 * batch, 2), end=2 * batch + 4), now_ms=1_000 * (batch + 1))
        settle(mirror, log)
        mirror.note_lag(1_000 * (batch + 1) + 1)
        assert mirror.state == State.RUNNING
        assert mirror.at_end_ms == (1_000 * batch + 1 if batch else 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=400))
def test_the_mirror_had_everything_at_a_time_whose_end_it_has_reached(steps):
    mirror, seen = mirror_of(), []
    for now_ms, (grown, copied) in enumerate(steps, 1):
        end = mirror.source_end + grown
        mirror.offer(fetched(b"", end=end), now_ms)
        mirror.skip_to(UpstreamOffset(min(mirror.frontier + copied, end)))
        mirror.note_lag(now_ms)
        seen.append((end, now_ms))
        latest = max((at_ms for at, at_ms in seen if at <= mirror.frontier), default=0)
        assert mirror.at_end_ms <= latest
        assert mirror.at_end_ms == latest or len({at for at, _ in seen}) > 60


def test_a_partition_that_was_halted_before_the_round_stays_so():
    mirror = mirror_of(assigned(halted="diverged: look"))
    mirror.note_lag(1)
    assert (mirror.state, mirror.reason, mirror.sendable) == (State.HALTED, "diverged: look", False)
