"""Partitions that the target takes nothing of leave room for those that it does."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from kit.batches import PlainRecord, batch_of
from kit.mirror import SOURCE_ID, OneBroker, assigned, mirror_of
from kit.tasks import under_way
from kit.wire import on_loop
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer, FetchedPartition
from mmtool.kafka.wire.produce import ProducedPartition
from mmtool.replication.pump.budget import Budget, Pace
from mmtool.replication.pump.reader import SourceReader

LIMIT, BATCH = 16 << 20, 64 << 10
VALUE = bytes(BATCH)


class Source(OneBroker):
    """A broker that has more of every partition than anybody can hold, in batches of one record."""

    async def send(self, node, request, *, purpose):
        await asyncio.sleep(0.001)
        left, found = request.max_bytes, []
        for place in request.partitions:
            count = min(place.max_bytes, left) // (BATCH + 100) or int(not found)
            left -= count * BATCH
            if count:
                found.append(self._of(place, count))
        return FetchAnswer(0, Code.NONE, found)

    def _of(self, place, count):
        offsets = range(place.offset, place.offset + count)
        records = b"".join(batch_of([PlainRecord(at, value=VALUE)]).write() for at in offsets)
        end = 1 << 40
        return FetchedPartition(
            "", SOURCE_ID, place.partition, Code.NONE, end, end, 0, [], memoryview(records)
        )


class Target:
    """It takes everything at once, but of partitions whose leader is away."""

    def __init__(self, stuck):
        self.stuck, self.taken = stuck, Counter()

    def fetched(self, mirror):
        place = mirror.assignment.partition
        while place not in self.stuck and mirror.sendable:
            held, sent = mirror.held_bytes, mirror.next_to_send()
            self.taken[place] += 1
            mirror.answered(sent, ProducedPartition("", "", place, Code.NONE, self.taken[place], 0, ""))
            self.reader._budget.add(mirror.held_bytes - held)
        self.reader.has_room()


@pytest.mark.long
@pytest.mark.parametrize(("partitions", "stuck"), [(40, 30), (40, 39), (120, 100), (2, 1)])
@on_loop
async def test_what_the_target_does_not_take_leaves_room_for_the_others(partitions, stuck):
    mirrors = [mirror_of(assigned(partition=n)) for n in range(partitions)]
    target = Target(set(range(stuck)))
    pace = Pace(SimpleNamespace(owner="me", round=1, bytes_per_second=None), 0)
    target.reader = SourceReader(
        Source(), mirrors, Budget(LIMIT).account(), pace, target.fetched,
        read_committed=True, continue_on_loss=False,
    )  # fmt: skip
    async with under_way(target.reader.run()):
        await asyncio.sleep(0.6)
        before = +target.taken
        await asyncio.sleep(0.6)
    held = sum(mirror.held_bytes for mirror in mirrors)
    still = [n for n in range(stuck, partitions) if target.taken[n] <= before[n]]
    assert (still, held <= LIMIT) == ([], True)
