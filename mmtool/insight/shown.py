"""Commits of groups of which some may not be shown to us: those keep no other one from being followed.

A broker lists every group to whoever may describe the cluster, and tells the commits of those alone that he may
describe.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.group_facts import Commit
    from mmtool.translation.types import TopicPartition

    Commits = dict[str, Mapping[TopicPartition, Commit]]

_AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class ShownCommits:
    """Reads turn after turn; a group that is denied is asked about again in a minute.

    Attributes:
        now: Seconds.
        denied: Groups that were not shown, or whose coordinator did not answer, and why.
    """

    now: Callable[[], float] = time.monotonic
    denied: dict[str, MmtoolError] = field(default_factory=dict)
    _again_at: float = 0.0

    def of(self, cluster: ClusterPort, groups: Sequence[str]) -> Commits:
        """The commits of those that are shown.

        Raises:
            UnreachableError, NotAuthorisedError: The cluster does not answer, or shows us none of them.
        """
        if self.now() >= self._again_at:
            self.denied, self._again_at = {}, self.now() + _AGAIN_SECONDS
        asked = set(groups)
        self.denied = {
            group: error
            for group, error in self.denied.items()
            if group in asked and isinstance(error, NotAuthorisedError)
        }
        found = cluster.groups.commits_each([group for group in groups if group not in self.denied])
        self.denied |= found.failed
        if self.denied and not found:
            raise next(iter(self.denied.values()))
        return dict(found)
