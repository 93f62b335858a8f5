"""Which batches a real broker takes, and what its log makes of them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from kit.batches import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    PlainRecord,
    batch_of,
)
from kit.quick_cleaner import quick_cleaner
from kit.wire import NOW_MS, Producer, Wire, on_loop, settings_of, signed
from mmtool.kafka.batches import AbortedFilter, decode, iter_batches, rebuild, view_of
from mmtool.kafka.state.claims import claim
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.produce import ProduceRequest
from mmtool.lab.load import Load, Transactions
from mmtool.lab.load import produce as write
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, read_topic

HOUR_MS = 3_600_000


@pytest.fixture
def target(fleet, tmp_path):
    return Wire(settings_of(fleet, tmp_path).clusters["target"], fleet["target"].bootstrap)


@pytest.fixture
def made(target, topic_name):
    """``made(**config)`` is a new topic of one partition."""

    def make(**config):
        name = topic_name("batches")
        create_topic(target.bootstrap, name, **{key.replace("_", "."): text for key, text in config.items()})
        return name

    return make


def records(*offsets, start_ms=NOW_MS):
    return [PlainRecord(at, start_ms + at, b"k%d" % at, b"v%d" % at, ((b"h", b"%d" % at),)) for at in offsets]


# --- refused ----------------------------------------------------------------------------------------------


@on_loop
async def test_a_batch_with_holes_is_refused_with_error_87(target, made):
    log = await target.log(made())
    holes = batch_of(records(0, 2, 3))
    empty_end = replace(batch_of(records(0, 1)), last_offset=5)
    codes = [(await log.produce(batch.write())).error_code for batch in (holes, empty_end)]
    assert codes == [Code.INVALID_RECORD] * 2


@on_loop
async def test_two_batches_for_one_partition_in_one_request_are_refused(target, made):
    log = await target.log(made())
    both = signed([b"a"]) + signed([b"b"])
    assert (await log.produce(both)).error_code == Code.INVALID_RECORD
    assert await log.bounds() == (0, 0)


@on_loop
async def test_batches_for_several_partitions_in_one_request_are_taken_each_for_itself(target, topic_name):
    name = topic_name("several")
    create_topic(target.bootstrap, name, 3)
    logs = [await target.log(name, partition) for partition in range(3)]
    batches = [signed([b"a"]), batch_of(records(0, 2)).write(), signed([b"c"])]
    request = ProduceRequest([log.holding(b) for log, b in zip(logs, batches, strict=True)], 15_000)
    answer = await logs[0].cluster.send_to_leader(name, 0, request)
    codes = {one.partition: one.error_code for one in answer.partitions}
    assert codes == {0: Code.NONE, 1: Code.INVALID_RECORD, 2: Code.NONE}


@on_loop
async def test_a_control_batch_is_refused(target, made):
    log = await target.log(made())
    answer = await log.produce(signed([b"a"], flags=CONTROL))
    assert answer.error_code == Code.INVALID_RECORD


@on_loop
async def test_a_transactional_batch_outside_of_a_transaction_is_refused(target, made):
    """So the bit must be cleared."""
    name = made()
    log, claimed = await target.log(name), await claim(await target.cluster(), name)
    us = Producer(claimed.producer_id, claimed.epoch)
    flagged = await log.produce(signed([b"a"], us, 0, flags=TRANSACTIONAL))
    assert flagged.error_code != Code.NONE
    assert (await log.produce(signed([b"a"], us, 0))).error_code == Code.NONE


@on_loop
async def test_a_damaged_batch_is_refused(target, made):
    log = await target.log(made())
    damaged = bytearray(signed([b"abc"]))
    damaged[-2] ^= 1
    assert (await log.produce(bytes(damaged))).error_code == Code.CORRUPT_MESSAGE


@on_loop
async def test_a_batch_above_max_message_bytes_is_refused_with_message_too_large(target, made):
    log = await target.log(made(max_message_bytes="1000"))
    fits, larger = (signed([b"x" * size]) for size in (1000 - 61 - 20, 1000))
    codes = [(await log.produce(batch)).error_code for batch in (fits, larger)]
    assert (len(fits) <= 1000, codes) == (True, [Code.NONE, Code.MESSAGE_TOO_LARGE])


@on_loop
async def test_the_limit_counts_the_bytes_as_sent_header_included(target, made):
    exact = signed([b"x" * 500])
    log = await target.log(made(max_message_bytes=str(len(exact))))
    codes = [(await log.produce(batch)).error_code for batch in (exact, signed([b"x" * 501]))]
    assert codes == [Code.NONE, Code.MESSAGE_TOO_LARGE]


@on_loop
async def test_records_more_than_an_hour_in_the_future_are_refused_unless_the_topic_allows_them(target, made):
    ahead = int(time.time() * 1000) + 2 * HOUR_MS
    batch = batch_of(records(0, 1, start_ms=ahead)).write()
    strict = await target.log(made())
    allowing = await target.log(made(message_timestamp_after_max_ms=str(3 * HOUR_MS)))
    codes = [(await log.produce(batch)).error_code for log in (strict, allowing)]
    assert codes == [Code.INVALID_TIMESTAMP, Code.NONE]


@on_loop
async def test_a_record_without_a_key_is_refused_by_a_compacted_topic(target, made):
    log = await target.log(made(cleanup_policy="compact"))
    keyless = batch_of([PlainRecord(0, NOW_MS, None, b"v")]).write()
    assert (await log.produce(keyless)).error_code == Code.INVALID_RECORD


# --- taken, and not as one may think ----------------------------------------------------------------------


@on_loop
async def test_a_log_append_time_batch_is_taken_and_its_times_are_lost_without_a_word(target, made):
    name = made()
    log = await target.log(name)
    stamped = replace(batch_of(records(0, 1), flags=LOG_APPEND_TIME), max_timestamp=NOW_MS + 999)
    assert (await log.produce(stamped.write())).error_code == Code.NONE
    shown = [record.timestamp_ms for record in read_topic(target.bootstrap, name)]
    assert shown != [NOW_MS + 999] * 2, "on the source every record has the batch's append time"


@on_loop
async def test_a_rebuilt_log_append_time_batch_keeps_its_times(target, made):
    name = made()
    log = await target.log(name)
    stamped = replace(batch_of(records(0, 1), flags=LOG_APPEND_TIME), max_timestamp=NOW_MS + 999)
    (ready,) = rebuild([view_of(stamped.write())], position=0, max_batch_bytes=1 << 20)
    ready.stamp(-1, -1, -1)
    assert (await log.produce(bytes(ready.payload))).error_code == Code.NONE
    shown = [record.timestamp_ms for record in read_topic(target.bootstrap, name)]
    assert shown == [NOW_MS + 999] * 2


@on_loop
async def test_a_batch_with_the_source_cleaner_s_deletion_time_is_taken_with_it(target, made):
    """The target's cleaner would take it for its own, so such a batch is rebuilt."""
    log = await target.log(made())
    batch = batch_of(records(0, 1), flags=DELETE_HORIZON)
    assert (await log.produce(batch.write())).error_code == Code.NONE
    assert [view.header.has_delete_horizon for view in await log.batches()] == [True]
    (ready,) = rebuild([view_of(batch.write())], position=0, max_batch_bytes=1 << 20)
    assert not view_of(ready.payload).header.has_delete_horizon


# --- moved ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@on_loop
async def test_a_rebuilt_batch_of_each_codec_is_taken_and_read_back_equal(target, made, codec):
    name = made()
    log, claimed = await target.log(name), await claim(await target.cluster(), name)
    source = [
        batch_of(records(*range(0, 60, 2)), codec=codec),
        batch_of(records(*range(60, 90)), codec=codec),
    ]
    views = [view_of(batch.write()) for batch in source]
    sequence = 0
    for ready in rebuild(views, position=10, max_batch_bytes=1 << 20):
        ready.stamp(claimed.producer_id, claimed.epoch, sequence)
        sequence += ready.record_count
        assert (await log.produce(bytes(ready.payload))).error_code == Code.NONE
    wanted = [r for batch in source for r in batch.records if r.offset >= 10]
    read = read_topic(target.bootstrap, name)
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in read] == [
        (w.timestamp, w.key, w.value, (("h", b"%d" % w.offset),)) for w in wanted
    ]
    assert {view.header.codec for view in await log.batches()} == {CODECS[codec]}


@on_loop
async def test_the_broker_keeps_the_bytes_of_a_batch_and_writes_only_its_place(target, made):
    log = await target.log(made())
    await log.produce(signed([b"first"]))
    batch = batch_of(records(*range(20)), codec="zstd").write()
    await log.produce(batch)
    stored = bytes((await log.batches())[1].memory)
    assert stored[16:] == batch[16:], "from the magic byte on, checksum included"


# --- read -------------------------------------------------------------------------------------------------


@on_loop
async def test_a_fetch_lists_the_aborted_transactions_of_what_it_brings(target, topic_name):
    name = topic_name("aborted")
    create_topic(target.bootstrap, name)
    write(target.bootstrap, Load(name, 60, 1, 100, transactions=Transactions(f"{name}-w", 10, abort_every=3)))
    log = await target.log(name)
    answer = await log.settled()
    assert len(answer.aborted) == 2
    assert (await log.fetch()).aborted == []
    admitted = AbortedFilter(answer.aborted)
    values = [r.value for v in iter_batches(answer.records) if admitted.admits(v) for r in decode(v)]
    assert values == [record.value for record in read_topic(target.bootstrap, name)]


@on_loop
async def test_a_fetch_gives_the_whole_batch_around_an_offset(target, made):
    log = await target.log(made())
    await log.produce(signed([b"0", b"1", b"2"]))
    (view,) = iter_batches((await log.fetch(2)).records)
    assert (view.header.base_offset, view.header.next_offset) == (0, 3)


@on_loop
async def test_what_compaction_left_is_read_with_holes_and_rebuilt(target, made):
    name = made(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    log, copy = await target.log(name), await target.log(made())
    for wave in range(4):
        at_ms = NOW_MS + wave * 1000  # segments roll by the records' own time
        batch = [PlainRecord(at, at_ms, b"k%d" % (at % 7), b"%d-%d" % (wave, at)) for at in range(20)]
        await log.produce(batch_of(batch, codec="lz4").write())
    await log.produce(batch_of([PlainRecord(0, NOW_MS + 9000, b"rolls", b"the segment")]).write())
    with quick_cleaner(target.bootstrap):
        wait_until(lambda: survivors(target, name) < 40, "compaction", 30)
    views = await log.batches()
    holes = [v.header.last_offset_delta + 1 != v.header.record_count for v in views]
    assert any(holes)
    for ready in rebuild(views, position=0, max_batch_bytes=1 << 20):
        ready.stamp(-1, -1, -1)
        assert (await copy.produce(bytes(ready.payload))).error_code == Code.NONE
    read = [
        [(r.timestamp_ms, r.key, r.value) for r in read_topic(target.bootstrap, t)]
        for t in (name, copy.topic)
    ]
    assert read[0] == read[1]


def survivors(target, topic):
    return len(read_topic(target.bootstrap, topic))
