"""Latencies in buckets: what is counted, summed and shown."""

import pytest

from mmtool.runtime.latency import BOUNDS_MS, Latency, LatencyCounter, cumulative, summed

NOW_MS = 1_000_000


@pytest.mark.parametrize(("latency_ms", "bucket"), [(0, 0), (50, 0), (51, 1), (300_000, 11), (300_001, 12)])
def test_a_record_is_counted_in_the_first_bucket_that_holds_its_latency(latency_ms, bucket):
    counter = LatencyCounter(Latency())
    counter.note(3, NOW_MS - latency_ms, NOW_MS)
    assert counter.latency.counts[bucket] == sum(counter.latency.counts) == 3
    assert counter.latency.total_ms == 3 * latency_ms


@pytest.mark.parametrize("since_ms", [0, NOW_MS + 7], ids=["unknown", "ahead of the clock"])
def test_records_that_have_waited_for_an_unknown_time_are_not_counted(since_ms):
    counter = LatencyCounter(Latency())
    counter.note(3, since_ms, NOW_MS)
    assert counter.latency == Latency()


def test_counting_goes_on_from_what_was_counted_before():
    counter = LatencyCounter(Latency((1,) * 13, 500))
    counter.note(2, NOW_MS - 20, NOW_MS)
    assert counter.latency == Latency((3, *(1,) * 12), 540)


def test_partitions_are_summed_bucket_by_bucket():
    assert summed([Latency((1, 2), 10), Latency(), Latency((3, 4), 20)]) == Latency((4, 6), 30)
    assert summed([]) == Latency()


def test_buckets_are_shown_as_sums_up_to_their_bounds_in_seconds():
    shown = cumulative([1, 2, *[0] * 10, 4])
    assert shown[0] == ("0.05", 1)
    assert (shown[1], shown[-2], shown[-1]) == (("0.1", 3), ("300.0", 3), ("+Inf", 7))
    assert len(shown) == len(BOUNDS_MS) + 1
