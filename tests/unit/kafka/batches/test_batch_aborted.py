"""read_committed over hand-made logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.batches import ABORT, COMMIT, CONTROL, TRANSACTIONAL, PlainRecord, batch_of, data, marker
from mmtool.kafka.batches import AbortedFilter, BatchError, iter_batches


def admitted(aborted, *log):
    admits = AbortedFilter(aborted).admits
    return [view.header.base_offset for view in iter_batches(b"".join(log)) if admits(view)]


def txn(offset, pid, count=1):
    return data(offset, count, pid=pid, transactional=True)


def test_without_aborted_transactions_all_data_passes_and_no_marker_does():
    assert admitted([], data(0), txn(1, 7), marker(2, 7, COMMIT), data(3)) == [0, 1, 3]


def test_an_aborted_transaction_is_dropped_until_its_marker():
    log = txn(0, 7), txn(1, 7), marker(2, 7, ABORT), txn(3, 7), marker(4, 7, COMMIT)

    assert admitted([(7, 0)], *log) == [3]


def test_interleaved_producers_are_told_apart():
    log = (
        txn(0, 1), txn(1, 2), txn(2, 3), data(3), txn(4, 1),
        marker(5, 2, COMMIT), txn(6, 3), marker(7, 1, ABORT), txn(8, 1),
        txn(9, 2), marker(10, 3, ABORT), marker(11, 1, COMMIT), marker(12, 2, ABORT), txn(13, 3),
    )  # fmt: skip

    assert admitted([(3, 2), (1, 0), (2, 9)], *log) == [1, 3, 8, 13]


def test_two_aborted_transactions_of_one_producer_leave_the_committed_one_between():
    log = (
        txn(0, 7), marker(1, 7, ABORT), txn(2, 7), marker(3, 7, COMMIT),
        txn(4, 7), marker(5, 7, ABORT), txn(6, 7),
    )  # fmt: skip

    assert admitted([(7, 0), (7, 4)], *log) == [2, 6]


def test_a_transaction_that_began_before_the_fetch_is_dropped():
    assert admitted([(7, 3)], txn(100, 7), data(101), marker(102, 7, ABORT), txn(103, 7)) == [101, 103]


def test_a_plain_batch_of_an_aborting_producer_id_passes():
    assert admitted([(7, 0)], data(0, pid=7), txn(1, 7)) == [0]


def test_a_transaction_that_starts_inside_a_compacted_batch_is_seen():
    widened = replace(
        batch_of([PlainRecord(2)], flags=TRANSACTIONAL, producer=(7, 0, 0)), base_offset=0, last_offset=5
    )

    assert admitted([(7, 1)], widened.write()) == []


def test_a_commit_marker_of_another_transaction_ends_no_abort():
    assert admitted([(7, 0)], txn(0, 7), marker(1, 8, ABORT), marker(2, 7, COMMIT), txn(3, 7)) == []


def test_an_emptied_marker_ends_nothing():
    emptied = replace(
        batch_of([PlainRecord(1)], flags=CONTROL | TRANSACTIONAL, producer=(7, 0, -1)), records=()
    )

    assert admitted([(7, 0)], txn(0, 7), emptied.write(), txn(2, 7), marker(3, 7, ABORT), txn(4, 7)) == [4]


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_marker_without_a_type_is_an_error(key):
    unreadable = batch_of([PlainRecord(1, key=key)], flags=CONTROL | TRANSACTIONAL, producer=(7, 0, -1))

    with pytest.raises(BatchError, match="the control batch at offset 1"):
        admitted([(7, 0)], txn(0, 7), unreadable.write())
