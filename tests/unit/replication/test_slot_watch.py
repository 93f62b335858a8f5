"""The driver plans by the slots that Spark has, and by silent tasks where Spark tells nothing of slots."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from kit.wire import on_loop
from mmtool.plan.flow.slots import SlotsRecord
from mmtool.replication.driver.slot_watch import FreeSlot, SlotWatch
from mmtool.replication.spark.assignment import TaskAssignment
from mmtool.replication.spark.rounds import SparkSlots

_SHARDS = 4
_FLOW = "a-b"

_CHECK = " Check the executors of Spark at spark://h:1"
_SHARED = f"Spark has 1 of {{}} slots; all partitions share one task until it has more.{_CHECK}"


class Spark:
    """A Spark with so many slots; ``tells_slots`` is false for Spark Connect."""

    def __init__(self, held, asked=None, *, tells_slots=True):
        self.held, self.asked, self.tells_slots, self.waiting = held, asked, tells_slots, 0
        self.probed, self.fails = 0, None

    def slots(self):
        return SparkSlots(self.held, self.waiting) if self.tells_slots else None

    def asked_slots(self):
        return self.asked

    def probe(self):
        self.probed += 1
        if self.fails:
            raise self.fails


class Driver:
    """Rounds of one flow with one partition in each of four shards; time passes only as it is told to."""

    def __init__(self, spark, limit=None):
        self.spark, self.now, self.said = spark, 1000.0, []
        self.run = SimpleNamespace(
            flow=SimpleNamespace(identity=SimpleNamespace(flow=_FLOW)),
            watch=SimpleNamespace(heard={}),
            owner="me",
            shard_count=_SHARDS,
            slots=None,
        )
        self.slots = SlotWatch(spark, "Spark at spark://h:1", limit, self.said.append, lambda: self.now)

    def begin(self, loads=_SHARDS):
        """One round; how many tasks it has."""
        count = min(self.slots.plan(loads), loads)
        self.tasks = [TaskAssignment(i, 300.0, 1, (_part(range(i, loads, count)),)) for i in range(count)]
        self.spark.waiting = max(count - self.spark.held, 0)
        self.slots.begin(self.tasks, [self.run])
        return count

    def hear(self, *tasks):
        for task in tasks:
            self.run.watch.heard[f"topic-{task}", task] = self.now

    def passes(self, seconds, *heard):
        """Whether the round is to end within so many seconds; these tasks are heard all the while."""

        async def look():
            for _ in range(int(seconds * 2)):
                self.now += 0.5
                self.hear(*heard)
                if self.slots.ends_round([self.run]):
                    return True
                await asyncio.sleep(0.001)
            return False

        return asyncio.run(look())


def _part(shards):
    return SimpleNamespace(
        identity=SimpleNamespace(flow=_FLOW),
        round=1,
        shards=[SimpleNamespace(shard=shard) for shard in shards],
        partitions=[SimpleNamespace(topic_id=f"topic-{shard}", partition=shard) for shard in shards],
    )


def test_a_lost_slot_ends_the_round_and_all_shards_are_packed_into_the_slots_that_are_left():
    driver = Driver(Spark(2))
    assert driver.begin() == 2
    assert not driver.passes(30)
    driver.spark.held = driver.spark.waiting = 1
    assert driver.passes(5)
    assert (driver.slots.wanted, driver.slots.held, driver.slots.may_hang) == (2, 1, False)
    assert driver.begin() == 1
    assert driver.said == [_SHARED.format(2)]


def test_the_shards_of_the_task_that_is_silent_for_longest_wait_with_the_reason():
    driver = Driver(Spark(2))
    driver.begin()
    driver.spark.held = driver.spark.waiting = 1
    driver.passes(1, 1)
    assert driver.run.slots == SlotsRecord("me", wanted=2, held=1, waiting=(0, 2), round=1)
    why = "Spark has 1 of 2 slots; this partition waits for a slot: check Spark's executors"
    assert [driver.run.slots.reason(shard) for shard in (0, 1)] == [why, ""]
    driver.begin()
    assert driver.run.slots.waiting == ()


def test_a_task_that_is_heard_has_a_slot_though_spark_counts_it_among_those_that_wait():
    """Spark's count is as old as its last look at the task."""
    driver = Driver(Spark(2))
    driver.begin()
    driver.spark.waiting = 2
    assert not driver.passes(60, 0, 1)
    assert (driver.run.slots.waiting, driver.said) == ((), [])


def test_after_a_round_no_shard_waits():
    driver = Driver(Spark(2))
    driver.begin()
    driver.spark.held = driver.spark.waiting = 1
    driver.passes(1)
    assert driver.run.slots.waiting
    driver.slots.end([driver.run])
    assert not driver.run.slots.waiting


def test_without_any_slot_nothing_is_packed_and_nothing_is_silent():
    driver = Driver(Spark(2))
    driver.begin()
    driver.spark.held, driver.spark.waiting = 0, 2
    assert not driver.passes(60)
    assert driver.run.slots.waiting == tuple(range(_SHARDS))
    assert driver.said == [f"Spark has 0 of 2 slots; nothing is copied until it has one.{_CHECK}"]
    driver.spark.held, driver.spark.waiting = 2, 0
    assert not driver.passes(60)
    assert driver.said[1:] == ["Spark has 2 of 2 slots; partitions are spread over 2 tasks"]


@pytest.mark.parametrize(("seconds", "told"), [(25, False), (35, True)])
def test_over_spark_connect_a_first_task_that_does_not_start_for_long_has_no_slot(seconds, told):
    driver = Driver(Spark(0, asked=2, tells_slots=False))
    driver.now += seconds
    assert driver.slots.tell_none_yet([driver.run]) == told


def test_slots_that_no_shard_needs_are_neither_waited_for_nor_missed():
    driver = Driver(Spark(1, asked=8))
    assert driver.begin(loads=1) == 1
    assert not driver.passes(30)
    assert (driver.said, driver.spark.probed, driver.slots.wanted) == ([], 0, 1)


def test_where_others_use_the_slots_a_round_is_packed_once_and_not_spread_before_one_is_free():
    driver = Driver(Spark(2))
    driver.spark.fails = RuntimeError("the small task was cancelled")
    driver.begin()
    driver.spark.waiting = 1
    assert driver.passes(20, 0)
    assert driver.begin() == 1
    assert not driver.passes(60, *range(_SHARDS))
    driver.spark.fails = None
    assert driver.passes(30)


def test_over_spark_connect_a_task_that_is_silent_while_others_are_heard_has_no_slot():
    driver = Driver(Spark(0, asked=2, tells_slots=False))
    assert driver.begin() == 2
    assert not driver.passes(14, 0)
    assert not driver.slots.may_hang
    assert driver.passes(4, 0)
    assert driver.slots.may_hang
    assert driver.begin() == 1
    assert driver.said == [_SHARED.format(2)]


def test_over_spark_connect_silence_of_all_tasks_says_nothing_of_slots():
    """As when the target takes no positions."""
    driver = Driver(Spark(0, asked=2, tells_slots=False))
    driver.begin()
    assert not driver.passes(120)
    assert driver.said == []


def test_a_spark_that_does_not_answer_changes_no_round():
    driver = Driver(Spark(2))
    driver.begin()
    driver.spark.slots = lambda: None
    assert not driver.passes(120)
    assert driver.said == []


@pytest.mark.parametrize("limit", [1, 2])
def test_no_round_has_more_tasks_than_the_limit(limit):
    driver = Driver(Spark(8), limit)
    assert driver.begin() == limit
    assert not driver.passes(30)
    assert driver.spark.probed == 0


@on_loop
async def test_a_slot_that_a_later_probe_waits_for_is_not_free_any_more():
    spark, ends = Spark(2), threading.Event()
    free = FreeSlot(spark)
    free.seconds(1000.0, is_wanted=True)
    await asyncio.sleep(0.05)
    found = [free.seconds(1001.0, is_wanted=True)]
    spark.probe = ends.wait
    found += [free.seconds(now, is_wanted=True) for now in (1002.0, 1011.0, 1012.0)]
    ends.set()
    await asyncio.sleep(0.05)
    assert found == [0.0, 1.0, None, None]
