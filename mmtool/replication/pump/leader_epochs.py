"""Track the leader epochs under which the fetched source records were written (KIP-320)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.translation.types import UpstreamOffset


class LeaderEpochs:
    """The leader epochs of one partition, from its frontier to its fetch position.

    A. An epoch is given for a position only when the batch right below it was read, whatever became of that batch:
       a marker has an epoch as well, and so has a part of a batch.

    Args:
        frontier: The offset below which all is recorded.
        epoch: Of the record right below.
    """

    def __init__(self, frontier: UpstreamOffset, epoch: int | Unknown) -> None:
        self._since: deque[tuple[int, int | Unknown]] = deque([(frontier, epoch)])
        self._coming: deque[tuple[int, int | Unknown]] = deque()

    def coming(self, batches: Iterable[tuple[int, int | Unknown]]) -> None:
        """Set the base offset and epoch of each batch that `read_to` may pass; UNKNOWN for skipped offsets."""
        self._coming = deque(batches)

    def read_to(self, position: UpstreamOffset) -> None:
        """Note that everything below ``position`` was read, the last batch perhaps in part."""
        while self._coming and self._coming[0][0] < position:
            first, epoch = self._coming.popleft()
            if self._since[-1][1] != epoch:
                self._since.append((first + 1, epoch))

    @property
    def last(self) -> int | Unknown:
        """The leader epoch of the batch that was read last."""
        return self._since[-1][1]

    def at(self, position: UpstreamOffset) -> int | Unknown:
        """The leader epoch of the batch right below ``position``; epochs of lower positions are forgotten."""
        while len(self._since) > 1 and self._since[1][0] <= position:
            self._since.popleft()
        since, epoch = self._since[0]
        return epoch if since <= position else UNKNOWN
