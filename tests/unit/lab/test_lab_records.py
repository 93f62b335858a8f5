"""Threads of the lab that are asked to end, and the records that it generates."""

import json
import threading
import time

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.errors import UsageError
from mmtool.lab.demo_apps import Worker, end_together
from mmtool.lab.records import SMALLEST_RECORD, RecordMaker, numbered

_MAKERS = {size: RecordMaker(size) for size in (SMALLEST_RECORD, 100, 449, 450, 451, 1000, 20_000)}
_BATCH_BYTES = 262_144


@given(st.sampled_from(sorted(_MAKERS)), st.integers(0, 99_999), st.integers(0, 10**12 - 1))
def test_a_record_is_json_of_the_asked_size_that_tells_its_place(size, partition, sequence):
    value = _MAKERS[size].value(partition, sequence)
    json.loads(value)
    assert (len(value), numbered(value)) == (size, (partition, sequence))


def test_equal_seeds_make_equal_records():
    assert RecordMaker(200, seed=7).value(1, 2) == RecordMaker(200, seed=7).value(1, 2)


@pytest.mark.parametrize("size", [200, 1000, 4000])
@pytest.mark.parametrize(
    "compress", [cramjam.lz4.compress_block, lambda raw: cramjam.zstd.compress(raw, 3)], ids=["lz4", "zstd"]
)
def test_a_batch_compresses_three_to_four_and_a_half_times(size, compress):
    maker = RecordMaker(size)
    raw = b"".join(maker.value(0, i) for i in range(_BATCH_BYTES // size))
    assert 3.0 <= len(raw) / len(bytes(compress(raw))) <= 4.5


def test_a_foreign_record_is_not_mistaken_for_one_of_ours():
    with pytest.raises(ValueError, match="not a record of the lab"):
        numbered(b'{"id": 12}')


def test_a_size_that_holds_no_number_is_refused():
    with pytest.raises(UsageError, match="64"):
        RecordMaker(63)


def test_all_are_asked_before_any_is_waited_for():
    asked = threading.Barrier(3)

    def body(worker):
        worker().stopping.wait(5)
        asked.wait(5)  # only when the others have been asked too

    workers = [Worker(f"w{i}", lambda i=i: body(lambda: workers[i])) for i in range(3)]
    for worker in workers:
        worker.start()
    end_together(workers)
    assert [worker.ended(0) for worker in workers] == [True] * 3
    for worker in workers:
        worker.check()


def test_clients_have_closed_when_it_returns_however_they_ended():
    closed = []

    def fails():
        try:
            worker.stopping.wait(5)
            time.sleep(0.1)
            raise OSError("gone")
        finally:
            closed.append("client")

    worker = Worker("failing", fails).start()
    end_together([worker])
    assert closed == ["client"]


def test_one_that_never_began_is_not_waited_for():
    end_together([Worker("never", lambda: None)])


def test_one_that_does_not_end_is_left_behind_in_time():
    release = threading.Event()
    workers = [Worker(f"stuck-{i}", release.wait).start() for i in range(2)]
    began = time.monotonic()
    end_together(workers, seconds=0.2)
    assert 0.2 <= time.monotonic() - began < 2
    release.set()
