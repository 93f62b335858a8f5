"""Limit how fast a worker reads one flow: its share of the flow's throttle, which the owner may change."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mmtool.plan.records.documents import UseRecord
from mmtool.replication.pump.bucket import TokenBucket
from mmtool.replication.pump.quotas import Quotas
from mmtool.runtime.threads import came_within

if TYPE_CHECKING:
    from mmtool.plan.records.documents import SharesRecord
    from mmtool.replication.spark.assignment import FlowAssignment


class Pace:
    """Delays the reader, so that no fetched batch waits in memory for its turn to be sent.

    Args:
        flow: Whose share.
        task: Which task of the round this is.

    Attributes:
        under_way: How many fetches are pending.
        quotas: The brokers' own throttling, in addition.
    """

    def __init__(self, flow: FlowAssignment, task: int) -> None:
        self._flow = flow
        self._task = task
        self._bucket: TokenBucket | None = None
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        self.under_way = 0
        self.quotas = Quotas()
        self._set(flow.bytes_per_second)

    @property
    def is_throttled(self) -> bool:
        return self._bucket is not None

    def heard(self, shares: SharesRecord) -> None:
        """Apply this task's share of a throttle that the owner has divided again."""
        if str(self._task) in shares.shares:
            self._set(shares.shares[str(self._task)])

    def _set(self, rate: float | None) -> None:
        if rate is None:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(rate, time.monotonic())
        else:
            self._bucket.set_rate(rate, time.monotonic())
        self._changed.set()

    async def ready(self) -> None:
        """Wait until the throttle allows a fetch.

        Connections wait one after the other, so that their large batches do not arrive at the same time.
        """
        if self._bucket is None:
            return
        async with self._turn:
            while (seconds := self._seconds()) > 0:
                self._changed.clear()
                await came_within(seconds, self._changed.wait())

    def _seconds(self) -> float:
        return 0.0 if self._bucket is None else self._bucket.wait_seconds(time.monotonic(), self.under_way)

    def at_most(self, count: int) -> int:
        """``count`` bytes to fetch, or fewer where the throttle leaves less beside the pending fetches.

        At least one: a broker answers with a whole batch all the same (KIP-74), and the next fetch waits the longer.
        """
        if self._bucket is None:
            return count
        return max(min(count, int(self._bucket.balance(time.monotonic()) / (1 + self.under_way))), 1)

    def took(self, count: int) -> None:
        """Charge ``count`` bytes of fetched batches to the throttle."""
        if self._bucket is not None and count > 0:
            self._bucket.take(count, time.monotonic())

    def use(self) -> UseRecord | None:
        """How much of the share was used since the last call, for the owner; None without a throttle."""
        if self._bucket is None:
            return None
        use = self._bucket.use(time.monotonic())
        return UseRecord(
            self._flow.owner, self._flow.round, self._task, round(use.bytes_per_second), use.is_all
        )
