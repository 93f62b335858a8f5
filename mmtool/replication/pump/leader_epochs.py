"""Under which leaders of the source's log the records were written that were read (KIP-320)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from mmtool.kafka.wire.fetch import Diverging
    from mmtool.translation.types import TopicPartition, UpstreamOffset


class LeaderEpochs:
    """Of one partition, from its frontier to the position that is fetched from.

    A. An epoch is told of a position only when the batch right below it was read, whatever became of that batch:
       a marker is of an epoch as well.

    Args:
        frontier: Up to where everything is booked.
        epoch: Of what lies right below.
    """

    def __init__(self, frontier: UpstreamOffset, epoch: int | Unknown) -> None:
        self._since: deque[tuple[int, int | Unknown]] = deque([(frontier, epoch)])

    def read(self, up_to: UpstreamOffset, epoch: int | Unknown) -> None:
        """A batch that ends there was read; UNKNOWN when what lies there was passed over unread."""
        if self._since[-1][1] != epoch:
            self._since.append((up_to, epoch))

    @property
    def last(self) -> int | Unknown:
        """Of what was read last."""
        return self._since[-1][1]

    def at(self, position: UpstreamOffset) -> int | Unknown:
        """Of what lies right below ``position``; what lies below that is forgotten."""
        while len(self._since) > 1 and self._since[1][0] <= position:
            self._since.popleft()
        since, epoch = self._since[0]
        return epoch if since <= position else UNKNOWN


def cut(diverging: Diverging, frontier: UpstreamOffset, place: TopicPartition) -> str:
    """What is said of a source's log that does not hold any more what was read from it (KIP-595)."""
    end = diverging.end
    lost = (
        f"offsets {end} to {frontier - 1} were mirrored and are gone"
        if end < frontier
        else "nothing mirrored is gone"
    )
    return (
        f"the source's log was cut at {end}, as an unclean leader election does: {lost}; to mirror what is there now:"
        f" `mmtool flow seek --csv FILE`, with the line {place.topic},{place.partition},{end}"
    )
