"""What bounds a worker: its memory, the rate at which it reads a flow, and how brokers answer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from mmtool.plan.flow.slots import Use
from mmtool.plan.records.documents import SharesRecord, UseRecord
from mmtool.runtime.threads import came_within

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from mmtool.replication.spark.assignment import FlowAssignment


W = TypeVar("W")

BURST_SECONDS = 0.5
STEP_SECONDS = 0.1
_SET_ASIDE = 2
_ALL = 0.95


class TokenBucket:
    """The bytes that a task may move for one flow.

    A. A caller that takes only when `wait_seconds` is 0 takes in any ``t`` seconds at one rate at most
       ``rate * (t + BURST_SECONDS)`` bytes and the excess of the last taking.
    B. What is taken at once may be larger than what is there, so a batch of any size goes: the rest of the time that
       it is worth is waited for afterwards.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._balance = 0.0
        self._at = now
        self._gained = 0.0
        self._spilled = 0.0
        self._used_from = now

    def balance(self, now: float) -> float:
        """Bytes that may be taken now; negative after more was taken than the bucket held."""
        self._settle(now)
        return self._balance

    def take(self, count: int, now: float) -> None:
        """Take ``count`` bytes, which may be more than the bucket holds (B)."""
        self._settle(now)
        self._balance -= count

    def wait_seconds(self, now: float, under_way: int = 0) -> float:
        """Seconds until the bucket holds enough for a fetch: a step of `STEP_SECONDS`, and one per pending fetch.

        A step, because fetching byte by byte would be a request per batch. The size of pending answers is unknown, so a
        step is set aside for each, but only for the first few: fetches that bring nothing must not delay others for
        long.
        """
        steps = 1 + min(under_way, _SET_ASIDE)
        return max(steps * STEP_SECONDS - self.balance(now) / self._rate, 0.0)

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate, in bytes per second, from now on.

        A lower rate shrinks a debt in proportion: a debt stands for time, and a reader must not pause for minutes
        because of bytes that the former rate allowed.
        """
        self._settle(now)
        if self._balance < 0:
            self._balance = max(self._balance, self._balance * rate / self._rate)
        self._balance = min(self._balance, rate * BURST_SECONDS)
        self._rate = rate

    def use(self, now: float) -> Use:
        """The rate used since the last call, and whether all of the bucket's rate was used.

        Bytes that overflowed the bucket count as unused.
        """
        self._settle(now)
        seconds, gained, spilled = now - self._used_from, self._gained, self._spilled
        self._used_from, self._gained, self._spilled = now, 0.0, 0.0
        if seconds <= 0 or gained <= 0:
            return Use(self._rate, is_all=True)
        return Use((gained - spilled) / seconds, is_all=gained - spilled >= gained * _ALL)

    def _settle(self, now: float) -> None:
        gained = self._rate * (now - self._at)
        kept = min(gained, self._rate * BURST_SECONDS - self._balance)
        self._balance += kept
        self._gained += gained
        self._spilled += gained - kept
        self._at = now


_LONG_MS = 500
"""The shortest throttle time that counts: brokers ask for less when a client is hardly above its quota."""

_REMEMBERED_SECONDS = 10.0


class Quotas:
    """The clusters whose brokers answered with a long throttle time lately.

    A. A cluster is named until `_REMEMBERED_SECONDS` after the last wait that it asked for.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, alias: str, throttle_ms: int) -> None:
        """Note that a broker of cluster ``alias`` throttles this client for ``throttle_ms``."""
        if throttle_ms >= _LONG_MS:
            self._until[alias] = time.monotonic() + throttle_ms / 1000 + _REMEMBERED_SECONDS

    @property
    def aliases(self) -> list[str]:
        """The clusters whose quotas throttle the flow now, sorted."""
        now = time.monotonic()
        return sorted(alias for alias, until in self._until.items() if until > now)

    @property
    def of(self) -> str:
        """`aliases` as one phrase; empty when there are none."""
        return " and ".join(self.aliases)


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
        async with self._turn:
            while self._bucket is not None:
                seconds = self._bucket.wait_seconds(time.monotonic(), self.under_way)
                if seconds <= 0:
                    break
                self._changed.clear()
                await came_within(seconds, self._changed.wait())

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


class Budget:
    """Bytes reserved for pending fetches, and bytes held until they are acknowledged.

    Half of it is common; of the other half each flow has its own part, so that one whose target does not answer, and
    which fills all that it may have, does not bring the others to a halt.

    A. reserved + held <= limit, but for a first batch that is larger than what was reserved for it (KIP-74).
    B. A flow that holds nothing has its part free, whatever the others hold (within A).

    Attributes:
        limit, part, common: Bytes of all, of each flow's own part, and of what is common.
        room: Set when a flow frees bytes.
        scarce: A flow that has fewer free bytes than this has used half of its maximum.
    """

    def __init__(self, limit: int, flows: int = 1) -> None:
        self.limit = limit
        self.part = limit // (2 * flows)
        self.common = limit - self.part * flows
        self.scarce = (self.part + self.common) // 2
        self.accounts: set[Account] = set()
        self.room = asyncio.Event()

    def account(self) -> Account:
        """A new account of this budget, for one flow."""
        account = Account(self)
        self.accounts.add(account)
        return account


class Account:
    """The bytes that one flow holds of a budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._scarce = False
        self.used = 0

    @property
    def limit(self) -> int:
        """Bytes of the whole budget, over all flows."""
        return self._budget.limit

    @property
    def free(self) -> int:
        """Bytes that this flow may add now."""
        budget = self._budget
        taken = sum(max(account.used - budget.part, 0) for account in budget.accounts)
        return max(budget.part - self.used, 0) + max(budget.common - taken, 0)

    def becomes_scarce(self) -> bool:
        """Whether free bytes are scarce now, so that partitions whose bytes are not sent should get no more.

        It stays true until half as much again is free, so that the size of fetches does not change with each request.
        """
        self._scarce = self.free < self._budget.scarce * (1.5 if self._scarce else 1)
        return self._scarce

    @property
    def plenty(self) -> int:
        """Bytes that this flow may add before free bytes are scarce."""
        return max(self.free - self._budget.scarce, 0)

    def add(self, count: int) -> None:
        """Add ``count`` bytes to those that the flow holds; a negative count frees bytes."""
        self.used += count
        if count < 0:
            self._budget.room.set()

    async def wait(self, wanted: int) -> None:
        """Wait until ``wanted`` bytes are free, or no flow holds any bytes."""
        while self.free < wanted and any(account.used > 0 for account in self._budget.accounts):
            self._budget.room.clear()
            await self._budget.room.wait()

    def close(self) -> None:
        """Free all bytes that the flow holds, and remove its account."""
        self._budget.accounts.discard(self)
        self._budget.room.set()


SILENT_SECONDS = 10.0
"""How long a broker may owe an answer before it is reported as silent."""


class PendingReplies(Generic[W]):
    """For each broker, when the oldest unanswered request was sent; in seconds of one clock."""

    def __init__(self) -> None:
        self._since: dict[W, float] = {}

    def asked(self, whom: W, now: float) -> None:
        """Note that a request to ``whom`` was sent.

        The time of an earlier request that is still unanswered stays.
        """
        self._since.setdefault(whom, now)

    def answered(self, whom: W, now: float, *, owes_more: bool = False) -> None:
        """Note that ``whom`` answered; ``owes_more`` if other requests to it are still pending."""
        self._since.pop(whom, None)
        if owes_more:
            self._since[whom] = now

    def let_go(self, whom: W) -> None:
        """Forget the pending request to ``whom``: its answer is not needed any more."""
        self._since.pop(whom, None)

    @property
    def whom(self) -> Iterable[W]:
        """The brokers or connections with a pending request."""
        return self._since.keys()

    def silent(self, now: float) -> list[W]:
        """The brokers or connections that have owed an answer for more than `SILENT_SECONDS`."""
        return [one for one, since in self._since.items() if now - since > SILENT_SECONDS]

    def seconds(self, whom: Iterable[W], now: float) -> float:
        """The longest that any of ``whom`` has owed an answer, in seconds; 0 if none does."""
        return now - min((self._since[one] for one in whom if one in self._since), default=now)


_WINDOW_SECONDS = 30.0
_BYTES_PER_SECOND = 128e6
"""The bandwidth to fill: a wider link is used in part, on a narrower one batches are larger than needed."""

_NEAR_SECONDS = 0.010
"""Shorter round trips need no joined batches.

A busy broker nearby takes as long, and batches of 16 KB fill a gigabit link over it."""

_UNDER_WAY = 5
_LARGEST = 1 << 20


class RoundTrips:
    """The shortest response time of the last minute; longer ones include waiting at the broker or in the worker.

    It has no clock: callers pass the time in seconds.
    """

    def __init__(self) -> None:
        self._shortest: float | None = None
        self._before: float | None = None
        self._busy: set[object] = set()
        self._busy_before = 0
        self._window_ends = 0.0
        self.goal_bytes = 0

    def note(self, seconds: float, partitions: AbstractSet[object], now: float) -> None:
        """Note that a request about ``partitions`` was answered after ``seconds``, and update ``goal_bytes``."""
        if now >= self._window_ends:
            self._window_ends = now + _WINDOW_SECONDS
            self._before, self._shortest = self._shortest, None
            self._busy_before = len(self._busy)
            self._busy.clear()
        self._shortest = seconds if self._shortest is None else min(self._shortest, seconds)
        self._busy |= partitions
        shortest = self._shortest if self._before is None else min(self._shortest, self._before)
        busy = max(len(self._busy), self._busy_before, 1)
        if shortest < _NEAR_SECONDS:
            self.goal_bytes = 0
            return
        self.goal_bytes = min(_LARGEST, int(shortest * _BYTES_PER_SECOND / (_UNDER_WAY * busy)))
