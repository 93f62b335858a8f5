"""A throttled reader fetches what it may and no more, so that nothing waits in memory for its turn."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from kit.batches import data
from kit.mirror import SOURCE_ID, OneBroker, assigned, fetched, mirror_of
from kit.tasks import cut_off_after
from kit.wire import on_loop
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.plan.records.documents import SharesRecord
from mmtool.replication.pump.budget import BURST_SECONDS, Budget, Pace
from mmtool.replication.pump.reader import SourceReader

BATCH = data(0, 50)
TASK = 2


def pace_of(rate):
    return Pace(SimpleNamespace(owner="me", round=7, bytes_per_second=rate), TASK)


def shares(**of):
    return SharesRecord("me", 7, of)


class Source(OneBroker):
    """It has more of every partition than anybody can fetch; each answer holds one batch of each."""

    def __init__(self):
        self.asked = []
        self.under_way = 0
        self.at_a_time = []

    async def send(self, node, request, *, purpose):
        self.under_way += 1
        self.asked.append(request.max_bytes)
        self.at_a_time.append(self.under_way)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        answers = []
        for place in request.partitions:
            part = fetched(data(place.offset, 50), end=place.offset + 1000)
            answers.append(part._replace(topic_id=SOURCE_ID, partition=place.partition))
        return FetchAnswer(0, Code.NONE, answers)


def read(pace, seconds):
    """Bytes that a reader took from four partitions, the broker that it asked, and how long that was: not less."""
    source, mirrors = Source(), [mirror_of(assigned(partition=p)) for p in range(4)]

    async def scene():
        reader = SourceReader(
            source,
            mirrors,
            Budget(1 << 30).account(),
            pace(),
            lambda _: None,
            read_committed=True,
            continue_on_loss=False,
        )
        began = time.monotonic()
        await cut_off_after(seconds, reader.run())
        return time.monotonic() - began

    elapsed = asyncio.run(scene())
    return sum(mirror.held_bytes for mirror in mirrors), source, elapsed


def test_a_reader_takes_what_the_rate_allows_and_asks_for_no_more():
    rate = 100 * len(BATCH)
    taken, source, elapsed = read(lambda: pace_of(rate), 0.5)
    answer = 4 * len(BATCH)  # a broker's answer may be larger than what was asked for
    assert rate * 0.1 < taken <= rate * (elapsed + BURST_SECONDS) + 2 * answer
    assert max(source.asked) <= rate * BURST_SECONDS


@pytest.mark.long
def test_batches_worth_seconds_are_fetched_by_one_connection_at_a_time():
    """Two at once would come as one that is twice as large."""
    _, throttled, _ = read(lambda: pace_of(20 * len(BATCH)), 0.6)
    _, free, _ = read(lambda: pace_of(None), 0.5)
    assert (max(throttled.at_a_time), max(free.at_a_time)) == (1, 2)


def test_a_reader_without_a_throttle_is_not_held_back():
    rate = 5 * len(BATCH)
    unlimited, _, elapsed = read(lambda: pace_of(None), 0.5)
    assert unlimited > rate * (elapsed + BURST_SECONDS) + 2 * 4 * len(BATCH)


@on_loop
async def test_one_who_waits_hears_of_another_share_at_once_and_of_other_tasks_shares_never():
    pace = pace_of(1.0)
    pace.took(1000)
    waiting = asyncio.create_task(pace.ready())
    await asyncio.sleep(0.01)
    pace.heard(shares(**{"0": 1_000_000}))
    await asyncio.sleep(0.05)
    still = not waiting.done()
    started = time.monotonic()
    pace.heard(shares(**{str(TASK): None}))
    await asyncio.wait_for(waiting, 5)
    assert (still, time.monotonic() - started < 1, pace.is_throttled) == (True, True, False)


@on_loop
async def test_several_connections_share_what_there_is_and_each_may_have_a_batch():
    pace = pace_of(1000.0)
    await asyncio.sleep(0.1)
    alone, pace.under_way = pace.at_most(1 << 20), 3
    of_four = pace.at_most(1 << 20)
    pace.took(10_000)
    assert (alone // of_four, pace.at_most(1 << 20)) == (4, 1)


def test_use_is_spoken_of_where_there_is_a_throttle():
    assert pace_of(None).use() is None
    use = pace_of(1000.0).use()
    assert (use.owner, use.round, use.task) == ("me", 7, TASK)


@pytest.mark.parametrize("count", [0, -5])
def test_what_is_let_go_gives_nothing_back(count):
    """It will be fetched again, and counted again."""
    pace = pace_of(1000.0)
    pace.took(500)
    before = pace.at_most(1 << 20)
    pace.took(count)
    assert pace.at_most(1 << 20) == before == 1
