"""Is what the target holds what the source holds?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import (
    LOG_APPEND_TIME,
    PlainRecord,
    batch_of,
    data,
    marker,
    plain_logs,
)
from mmtool.kafka.batches import RecordDifference, coalesce, iter_batches, same_records, view_of
from mmtool.translation.runs import Run


def views(*written):
    return list(iter_batches(b"".join(written)))


def mirrored(log, position, target_bytes, start=0):
    """The target's log after the pump moved this one."""
    ready = coalesce(log, position=position, max_batch_bytes=1 << 30, target_bytes=target_bytes)
    found = []
    for batch in ready:
        view = view_of(batch.payload)
        found.append(view._replace(header=view.header._replace(base_offset=start)))
        start += batch.record_count
    return found


@given(plain_logs(), st.integers(0, 5), st.sampled_from([0, 300, 5000]), st.integers(0, 10))
def test_a_mirror_is_found_equal_and_the_runs_tell_each_record(log, ahead, target_bytes, fewer):
    source = views(*(batch.write() for batch in log))
    position = log[0].base_offset + ahead
    target = mirrored(source, position, target_bytes, start=1000)
    expected = [r.offset for b in log for r in b.records if r.offset >= position]
    expected = expected[: max(0, len(expected) - fewer)]

    result = same_records(source, position, target, len(expected))

    assert (result.difference, result.is_complete) == (None, True)
    walked = [(m.upstream_start + i, m.downstream_start + i) for m in result.matched for i in range(m.count)]
    assert walked == list(zip(expected, range(1000, 2000), strict=False))


def record_pair(**changed):
    plain = [PlainRecord(at, at, b"k", b"v", ((b"h", b"1"),)) for at in range(3)]
    other = [plain[0], replace(plain[1], **changed), plain[2]]
    return views(batch_of(plain).write()), views(batch_of(other).write())


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("timestamp", {"timestamp": 77}),
        ("key", {"key": None}),
        ("key", {"key": b""}),
        ("value", {"value": b"V"}),
        ("value", {"value": None}),
        ("headers", {"headers": ()}),
        ("headers", {"headers": ((b"h", None),)}),
    ],
)
def test_the_first_difference_is_named(field, changed):
    source, target = record_pair(**changed)

    result = same_records(source, 0, target, 3)

    assert result.difference == RecordDifference(1, 1, field)
    assert result.matched == (Run(0, 0, 1),)
    assert not result.is_complete


def test_record_attributes_are_no_difference():
    source, target = record_pair(attributes=1)

    assert same_records(source, 0, target, 3).is_complete


def test_a_target_with_append_times_is_compared_without_them():
    source = views(data(0, 3))
    plain = [PlainRecord(at, 9, b"k%d" % at, b"v%d" % at) for at in range(3)]
    target = views(batch_of(plain, flags=LOG_APPEND_TIME).write())

    assert same_records(source, 0, target, 3).is_complete


def test_a_source_with_append_times_is_compared_by_them():
    plain = [PlainRecord(at, at, b"k", b"v") for at in range(3)]
    source = views(replace(batch_of(plain, flags=LOG_APPEND_TIME), max_timestamp=44).write())
    target = views(batch_of([replace(record, timestamp=44) for record in plain]).write())

    assert same_records(source, 0, target, 3).is_complete


def test_markers_on_both_sides_are_passed_over():
    source = views(data(0, 2), marker(2, 9, 1), data(3, 2))
    target = views(data(0, 2), marker(2, 5, 0), marker(3, 5, 0), data(3, 2))
    target = [*target[:3], target[3]._replace(header=target[3].header._replace(base_offset=4))]

    result = same_records(source, 0, target, 4)

    assert result.matched == (Run(0, 0, 2), Run(3, 4, 2))


def test_a_source_that_ends_early_is_incomplete_without_a_difference():
    result = same_records(views(data(0, 2)), 0, views(data(0, 5)), 5)

    assert (result.compared, result.difference, result.is_complete) == (2, None, False)


def test_a_walk_may_begin_inside_a_target_batch():
    result = same_records(views(data(0, 6)), 4, views(data(0, 6)), 2, target_position=4)

    assert result.matched == (Run(4, 4, 2),)


def test_nothing_wanted_is_complete():
    assert same_records([], 0, [], 0).is_complete
