"""Batches of empty records, as every Kafka client reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.batches import PlainRecord, batch_of
from mmtool.kafka.batches import Codec, decode, verify_crc, view_of
from mmtool.kafka.batches.ready import MOST_FILLER, filler, is_filler

OWN, OTHER = 7, 8
WIDTHS = st.sampled_from([1, 63, 64, 65, 8191, 8192, 8193])


def stamped(count):
    batch = filler(count)
    batch.stamp(OWN, 0, 3)
    return view_of(batch.payload)


@settings(max_examples=20, deadline=None)
@given(WIDTHS | st.integers(1, 20_000))
def test_a_batch_has_that_many_empty_records_without_a_time(count):
    view = stamped(count)
    verify_crc(view)
    assert (view.header.codec, view.header.max_timestamp) == (Codec.ZSTD, -1)
    records = list(decode(view))
    assert [record.offset for record in records] == list(range(count))
    assert {(record.key, record.value, tuple(record.headers)) for record in records} == {(None, None, ())}
    assert is_filler(view, OWN)
    assert not is_filler(view, OTHER)


def test_the_largest_batch_fits_the_default_limit_of_a_topic():
    assert 0 < filler(MOST_FILLER).size < 1 << 20


@pytest.mark.parametrize("changed", [{"value": b"x"}, {"key": b""}, {"headers": ((b"h", None),)}])
def test_a_batch_with_one_other_record_is_no_filler(changed):
    empty = [PlainRecord(n, -1, None, None) for n in range(100)]
    others = [*empty[:70], replace(empty[70], **changed), *empty[71:]]
    found = [
        is_filler(view_of(batch_of(records, producer=(OWN, 0, 3)).write()), OWN)
        for records in (empty, others)
    ]
    assert found == [True, False]
