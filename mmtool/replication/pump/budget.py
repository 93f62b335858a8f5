"""A worker's memory budget: bytes between fetch and acknowledgement, over all its flows and partitions."""

from __future__ import annotations

import asyncio


class Budget:
    """Bytes reserved for pending fetches, and bytes held until they are acknowledged.

    Half of it is common; of the other half each flow has its own part, so that one whose target does not answer, and
    which fills all that it may have, does not bring the others to a halt.

    A. reserved + held <= limit, but for a first batch that is larger than what was reserved for it (KIP-74).
    B. A flow that holds nothing has its part free, whatever the others hold (within A).

    Attributes:
        scarce: A flow that has fewer free bytes than this has used half of its maximum.
    """

    def __init__(self, limit: int, flows: int = 1) -> None:
        self.limit = limit
        self._part = limit // (2 * flows)
        self._common = limit - self._part * flows
        self.scarce = (self._part + self._common) // 2
        self._accounts: set[Account] = set()
        self._room = asyncio.Event()
        self._room.set()

    def account(self) -> Account:
        """A new account of this budget, for one flow."""
        account = Account(self)
        self._accounts.add(account)
        return account

    def free_for(self, used: int) -> int:
        """Bytes that a flow may add that holds ``used`` bytes now."""
        taken = sum(max(account.used - self._part, 0) for account in self._accounts)
        return max(self._part - used, 0) + max(self._common - taken, 0)

    @property
    def is_unused(self) -> bool:
        """Whether no flow holds any bytes."""
        return all(account.used <= 0 for account in self._accounts)

    def freed(self) -> None:
        """Wake the flows that wait in `more_room`."""
        self._room.set()

    async def more_room(self) -> None:
        """Wait until a flow frees bytes."""
        self._room.clear()
        await self._room.wait()

    def forget(self, account: Account) -> None:
        """Remove the account of a flow whose part of the task has ended: the bytes that it held are free."""
        self._accounts.discard(account)
        self.freed()


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
        return self._budget.free_for(self.used)

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
            self._budget.freed()

    async def wait(self, wanted: int) -> None:
        """Wait until ``wanted`` bytes are free, or no flow holds any bytes."""
        while self.free < wanted and not self._budget.is_unused:
            await self._budget.more_room()

    def close(self) -> None:
        """Free all bytes that the flow holds, and remove its account."""
        self._budget.forget(self)
