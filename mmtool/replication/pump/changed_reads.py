"""Records that a transform changes between the fetch and their mirror, beside the other partitions of the flow."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Self

from mmtool.kafka.batches import iter_batches
from mmtool.plan.records.documents import State
from mmtool.transforms.process import Transformed, TransformProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.fetch import FetchedPartition
    from mmtool.plan.flow.transforms import TransformSpec
    from mmtool.replication.pump.budget import Account
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.replication.spark.assignment import PartitionAssignment


_AT_ONCE = 2
"""Processes: while one changes records, batches are on their way to the other one and back."""


class ChangedReads:
    """Fetch answers whose records are changed before their mirror gets them.

    A. While the records of a mirror are changed, it is not fetched: its answers stay in order.
    B. Batches that the mirror leaves out, such as aborted ones, do not reach a function.

    Args:
        first: The transform of one of the mirrors: its process is started at once.
        budget: The flow's share of the worker's memory budget.
        failed: Called with an error that is no fault of a function.
    """

    def __init__(
        self, first: TransformSpec, budget: Account, failed: Callable[[BaseException], None]
    ) -> None:
        self._budget = budget
        self._failed = failed
        self._processes = [TransformProcess() for _ in range(_AT_ONCE)]
        self._idle: asyncio.LifoQueue[TransformProcess] = asyncio.LifoQueue()
        for process in self._processes:
            self._idle.put_nowait(process)
        self._tasks = {asyncio.create_task(one.start(first)) for one in self._processes}

    @classmethod
    def of(
        cls,
        partitions: Iterable[PartitionAssignment],
        budget: Account,
        failed: Callable[[BaseException], None],
    ) -> Self | None:
        """Those of a flow's partitions; None where none has a transform."""
        first = next((one.transform for one in partitions if one.transform is not None), None)
        return None if first is None else cls(first, budget, failed)

    def begin(
        self,
        mirror: PartitionMirror,
        part: FetchedPartition,
        offer: Callable[[PartitionMirror, FetchedPartition], None],
    ) -> bool:
        """Change the records of an answer, and then ``offer`` it; False where there is nothing to change."""
        if mirror.assignment.transform is None or mirror.state == State.HALTED or mirror.then_halt:
            return False
        wanted = mirror.to_change(part)
        if not wanted:
            return False
        mirror.changed_since = time.monotonic()
        mirror.hear(part, int(time.time() * 1000))
        task = asyncio.create_task(self._change(mirror, part, wanted, offer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _change(
        self,
        mirror: PartitionMirror,
        part: FetchedPartition,
        wanted: Sequence[BatchView],
        offer: Callable[[PartitionMirror, FetchedPartition], None],
    ) -> None:
        size = len(part.records)
        self._budget.add(size)
        try:
            spec, place = mirror.assignment.transform, mirror.assignment.place
            assert spec is not None
            process = await self._idle.get()
            try:
                made = await process.apply(spec, place, wanted, mirror.fetch_position)
            finally:
                self._idle.put_nowait(process)
            mirror.unreadable += made.unreadable
            if not made.is_same:
                part = part._replace(records=_put_in(part.records, wanted, made))
            offer(mirror, part)
            if made.failed is not None:
                mirror.halt_behind(made.failed)
        except Exception as error:  # noqa: BLE001  of a task that is not awaited
            self._failed(error)
        finally:
            mirror.changed_since = None
            self._budget.add(-size)

    def stop(self) -> None:
        """Stop changing records; what was not offered is fetched again."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stop, and end the process."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(process.close() for process in self._processes))


def _put_in(records: memoryview, wanted: Sequence[BatchView], made: Transformed) -> memoryview:
    """An answer with changed batches in the place of those; up to the first record that could not be changed."""
    changed = {view.header.base_offset: view for view in made.views}
    ours = {view.header.base_offset for view in wanted}
    stop = None
    if made.failed is not None:
        stop = made.views[-1].header.next_offset if made.views else wanted[0].header.base_offset
    found = bytearray()
    for view in iter_batches(records):
        at = view.header.base_offset
        if stop is not None and at >= stop:
            break
        found += changed[at].memory if at in ours else view.memory
    return memoryview(found)
