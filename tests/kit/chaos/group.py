"""What the target holds of a group that works on the source, at any moment."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kit.broker_watch import committed
from mmtool.errors import MmtoolError
from mmtool.lab.demo_apps import Worker
from mmtool.lab.topics import end_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.translation.types import TopicPartition

_LOOK_SECONDS = 0.5


class Glance(NamedTuple):
    """A commit on the target, and what was asked after it: how far it had read at home, and the target's log's end."""

    offset: int
    upstream: int
    end: int


class Watcher(Worker):
    """Looks at a group's commits on both sides, the target's first.

    Args:
        source: Bootstrap servers of the cluster on which the group works.
        target: Of the other one.
        group: Its name.
        remotes: The target's partitions by the source's.
        read_to: What the group itself knows to have read, where it may be more than is committed (`WorkingGroup`).

    Attributes:
        read_to: As given; empty where it is not.
        seen: Per partition of the source, in order.
    """

    def __init__(
        self,
        source: str,
        target: str,
        group: str,
        remotes: Mapping[TopicPartition, TopicPartition],
        read_to: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        super().__init__(f"watcher of {group}", self._watch)
        self._bootstraps, self._group, self._remotes = (source, target), group, remotes
        self.read_to = {} if read_to is None else read_to
        self.seen: dict[TopicPartition, list[Glance]] = defaultdict(list)

    def now(self) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """What is committed on the target and then on the source, both by the source's partitions.

        Raises:
            UnreachableError: One of them does not say.
        """
        source, target = self._bootstraps
        there = committed(target, self._group, self._remotes.values())
        home = committed(source, self._group, self._remotes)
        by_home = {at: there[remote] for at, remote in self._remotes.items() if remote in there}
        return by_home, {at: home[at] for at in self._remotes if at in home}

    def _watch(self) -> None:
        while not self.stopping.wait(_LOOK_SECONDS):
            with suppress(MmtoolError):  # a cluster that is away is asked again
                self._look()

    def _look(self) -> None:
        there, home = self.now()
        target = self._bootstraps[1]
        ends = {at.topic: end_offsets(target, self._remotes[at].topic) for at in there}
        for at, offset in there.items():
            if at in home and at.partition in ends[at.topic]:
                read = max(home[at], self.read_to.get(at, 0))
                self.seen[at].append(Glance(offset, read, ends[at.topic][at.partition]))
