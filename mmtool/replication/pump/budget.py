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
        """For one flow."""
        account = Account(self)
        self._accounts.add(account)
        return account

    def free_for(self, used: int) -> int:
        """How much more a flow may hold that holds ``used`` bytes now."""
        taken = sum(max(account.used - self._part, 0) for account in self._accounts)
        return max(self._part - used, 0) + max(self._common - taken, 0)

    @property
    def is_unused(self) -> bool:
        """Whether nothing is held by anybody."""
        return all(account.used <= 0 for account in self._accounts)

    def freed(self) -> None:
        """There is more room than before."""
        self._room.set()

    async def more_room(self) -> None:
        """Until somebody frees some."""
        self._room.clear()
        await self._room.wait()

    def forget(self, account: Account) -> None:
        """A flow's pump has ended: what it held is free."""
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
        """Of the whole budget."""
        return self._budget.limit

    @property
    def free(self) -> int:
        """How much more may be held."""
        return self._budget.free_for(self.used)

    def becomes_scarce(self) -> bool:
        """Whether so little is free by now that whoever gets rid of nothing should get no more.

        It stays so until there is half as much again: who fetches is not told another size at each turn.
        """
        self._scarce = self.free < self._budget.scarce * (1.5 if self._scarce else 1)
        return self._scarce

    @property
    def plenty(self) -> int:
        """How much anybody may still get, before room is scarce."""
        return max(self.free - self._budget.scarce, 0)

    def add(self, count: int) -> None:
        """Accounts for ``count`` bytes more, or fewer where it is negative."""
        self.used += count
        if count < 0:
            self._budget.freed()

    async def wait(self, wanted: int) -> None:
        """Until ``wanted`` bytes are free, or nothing at all is held by anybody."""
        while self.free < wanted and not self._budget.is_unused:
            await self._budget.more_room()

    def close(self) -> None:
        """Gives back whatever is held."""
        self._budget.forget(self)
