"""How many bytes a pump may hold between fetch and acknowledgement, over all its partitions."""

from __future__ import annotations

import asyncio


class Budget:
    """Bytes reserved for fetches under way, and bytes held until they are acknowledged.

    A. reserved + held <= limit, but for a first batch that is larger than what was reserved for it (KIP-74).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def free(self) -> int:
        return max(self.limit - self._used, 0)

    def add(self, count: int) -> None:
        """Accounts for ``count`` bytes more, or fewer where it is negative."""
        self._used += count
        if count < 0:
            self._room.set()

    async def wait(self, wanted: int) -> None:
        """Until ``wanted`` bytes are free, or nothing at all is held."""
        while self.free < wanted and self._used > 0:
            self._room.clear()
            await self._room.wait()
