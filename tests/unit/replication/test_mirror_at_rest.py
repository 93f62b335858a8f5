"""A partition to which nothing comes for long, and what its mirror holds of the next batch that does."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from kit.batches import PlainRecord, batch_of, data
from kit.mirror import SHARD, FakeLog, assigned, fetched, mirror_of, mirrored, produced
from mmtool.kafka.wire.codes import Code
from mmtool.plan.records.documents import State
from mmtool.replication.pump.batch_prep import InDoubtError
from mmtool.translation.blocks import WriterState
from mmtool.translation.types import DownstreamOffset

HOUR_MS = 3_600_000


def answer(mirror, log, sent):
    mirror.answered(sent, log.append(bytes(sent.batch.payload)))


def seasoned():
    """A mirror whose first batch is acknowledged already, and the log that holds it."""
    return mirrored(fetched(data(0), end=1))


def under_way(mirror):
    """How many batches it sends before any is answered."""
    count = 0
    while mirror.sendable:
        mirror.next_to_send()
        count += 1
    return count


def old_and_new(*ages_ms, now_ms):
    """Batches from source offset 1 on, by the age of their records."""
    return [
        batch_of([PlainRecord(at, now_ms - age) for at in range(20 * n + 1, 20 * n + 21)]).write()
        for n, age in enumerate(ages_ms)
    ]


def sent_at_once(*ages_ms, last_ms=0, now_ms=1000 * HOUR_MS):
    """How many of these batches are unanswered together, after one whose records are ``last_ms`` old."""
    mirror, log = mirror_of(), FakeLog()
    mirror.offer(fetched(batch_of([PlainRecord(0, now_ms - last_ms)]).write(), end=1), now_ms=now_ms)
    answer(mirror, log, mirror.next_to_send())
    mirror.offer(fetched(*old_and_new(*ages_ms, now_ms=now_ms), end=101), now_ms=now_ms)
    return under_way(mirror)


@pytest.mark.parametrize(
    ("ages_ms", "last_ms", "at_once"),
    [
        ([0], 0, 1),
        ([0] * 7, 0, 5),
        # by old records the target does not remember us, however recently they were sent
        ([0, 0], HOUR_MS, 1),
        # and nothing follows those that are under way
        ([0, 0, HOUR_MS, 0, 0], 0, 3),
        # without a timestamp they are as old as can be
        ([0, 0], 1000 * HOUR_MS + 1, 1),
    ],
)
def test_new_records_go_five_batches_at_a_time_and_old_ones_alone(ages_ms, last_ms, at_once):
    assert sent_at_once(*ages_ms, last_ms=last_ms) == at_once


@pytest.mark.parametrize(("now_ms", "at_once"), [(HOUR_MS, 2), (HOUR_MS + 1001, 1)])
def test_after_an_hour_without_a_batch_the_target_may_have_forgotten_us_and_gets_one_until_it_is_acknowledged(
    now_ms, at_once
):
    """It would take the second one when it refuses the first."""
    mirror, _ = seasoned()
    for at in (1, 2):
        mirror.offer(fetched(data(at), end=3), now_ms=now_ms)
    assert under_way(mirror) == at_once


def test_records_of_the_future_do_not_keep_us_in_mind_longer_than_an_hour():
    """The target may stamp them with its own time."""
    mirror, log, far = mirror_of(), FakeLog(), 1000 * HOUR_MS
    mirror.offer(fetched(batch_of([PlainRecord(0, far)]).write(), end=1), now_ms=1)
    answer(mirror, log, mirror.next_to_send())
    mirror.offer(fetched(*old_and_new(0, 0, now_ms=far), end=41), now_ms=HOUR_MS + 1)
    assert under_way(mirror) == 1


@pytest.mark.parametrize(
    ("code", "age_ms", "again"),
    [
        (None, 0, True),
        (None, HOUR_MS, False),
        (Code.REQUEST_TIMED_OUT, 0, True),
        (Code.REQUEST_TIMED_OUT, HOUR_MS, False),
        (Code.NOT_ENOUGH_REPLICAS, HOUR_MS, True),  # it was refused
    ],
)
def test_a_batch_of_old_records_that_may_be_there_is_not_sent_again(code, age_ms, again):
    """The target may have forgotten that it has it."""
    mirror, now_ms = mirror_of(), 1000 * HOUR_MS
    mirror.offer(fetched(*old_and_new(age_ms, now_ms=now_ms), end=21), now_ms=now_ms)
    sent = mirror.next_to_send()
    with nullcontext() if again else pytest.raises(InDoubtError, match="so old"):
        mirror.lost(sent) if code is None else mirror.answered(sent, produced(code))
        assert mirror.next_to_send() is sent


def claimed_anew():
    """A mirror of a partition whose last batch was written under an earlier claim."""
    begin = assigned(stored=True)
    earlier = WriterState(SHARD.producer_id, SHARD.epoch - 1, 7)
    tail = replace(begin.block.tail, writer=earlier)
    return mirror_of(replace(begin, block=replace(begin.block, tail=tail))), earlier


def test_the_number_of_the_last_batch_stays_on_record_until_there_is_another():
    """It tells of a partition at rest whether its log was cut and has grown again."""
    mirror, _ = claimed_anew()
    assert mirror.take_blocks() == []


def test_who_writes_is_on_record_before_the_first_batch_is_acknowledged():
    mirror, earlier = claimed_anew()
    mirror.offer(fetched(data(0), end=1), now_ms=1)
    (block,) = mirror.take_blocks()
    assert block.tail.writer == WriterState(earlier.producer_id, SHARD.epoch, 0)


def test_the_books_tell_where_the_source_ends_and_begins():
    mirror, _ = seasoned()
    mirror.offer(fetched(end=9, log_start=1), now_ms=5)
    tail = mirror.take_blocks()[-1].tail
    assert (tail.source_end.offset, tail.source_log_start.offset) == (9, 1)


def test_a_look_at_the_log_while_a_batch_is_under_way_is_worth_nothing():
    """It may have seen that batch, and what is seen counts as told."""
    mirror, log = seasoned()
    mirror.offer(fetched(data(1), end=2), now_ms=1)
    sent = mirror.next_to_send()
    mark = mirror.mark
    landed = log.append(bytes(sent.batch.payload))
    mirror.looked(mark, DownstreamOffset(log.end))
    mirror.answered(sent, landed)
    assert (mark, mirror.reason, mirror.frontier) == (None, "", 2)


def test_a_look_at_a_log_that_ends_where_the_books_do_is_no_news_and_no_cut():
    mirror, log = seasoned()
    mirror.take_blocks()
    mirror.looked(mirror.mark, DownstreamOffset(log.end))
    assert (mirror.reason, mirror.take_blocks()) == ("", [])


def test_what_the_source_deleted_before_anything_was_read_lies_before_the_mirror():
    """Nothing was mirrored there, and nothing is on record: it begins where the source does by now."""
    fresh = mirror_of()
    assert (fresh.untouched, mirror_of(assigned(stored=True)).untouched) == (True, False)
    fresh.offer(fetched(end=1), now_ms=1)
    assert not fresh.untouched


def test_what_halts_the_partition_behind_a_letter_halts_it_once_that_is_posted():
    mirror = mirror_of(assigned(max_batch_bytes=200), with_letters=True)
    large = batch_of([PlainRecord(0, value=b"x" * 500)]).write()
    mirror.offer(fetched(large, end=2), now_ms=1)
    mirror.halt_behind("the source deleted the rest")
    assert mirror.state == State.RUNNING
    mirror.posted(mirror.letter)
    assert (mirror.state, mirror.frontier) == (State.HALTED, 1)
