"""A cached list of the source's groups that a flow follows, listed again at an interval."""

from __future__ import annotations

import time
from concurrent.futures import wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.insight.translation import selected_groups
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.offsets import Direction
from mmtool.runtime.threads import LookUps

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.groups.facts import SelectedGroups

_AGAIN_SECONDS = 60.0
_PATIENCE_SECONDS = 2.0


@dataclass(slots=True)
class GroupList:
    """The cached list; when listing fails, the last list stays valid and no caller waits.

    Only the first one is waited for. Later ones are asked for apart, and where one fails the last one holds: it is
    asked for again in a minute.

    Attributes:
        problem: Why the last listing failed; None where it did not.
    """

    problem: MmtoolError | None = None
    _names: tuple[str, ...] | None = None
    _due_at: float = 0.0
    _asked: Future[SelectedGroups] | None = None

    def names(self, flow: FlowNow) -> tuple[str, ...]:
        """The source's groups that the flow follows, by the newest list.

        Raises:
            UnreachableError, NotAuthorisedError: there is no list yet, and listing failed.
        """
        settings = flow.clusters.settings
        if self._names is None:
            self._take(_list(flow), float(settings.refresh_groups_interval_seconds))
        elif self._asked is not None or (settings.refresh_groups and time.monotonic() >= self._due_at):
            self._ask_apart(flow)
        return self._names or ()

    def _ask_apart(self, flow: FlowNow) -> None:
        """List the groups in another thread; a list that comes within 2 s counts now, a later one next time."""
        asked = self._asked
        if asked is None:
            asked = self._asked = LookUps().submit(_list, flow)
            wait([asked], _PATIENCE_SECONDS)
        if not asked.done():
            return
        self._asked = None
        try:
            self._take(asked.result(), float(flow.clusters.settings.refresh_groups_interval_seconds))
        except MmtoolError as error:
            self.problem, self._due_at = error, time.monotonic() + _AGAIN_SECONDS

    def _take(self, listed: SelectedGroups, seconds: float) -> None:
        self._names, self.problem = listed.known, None
        self._due_at = time.monotonic() + seconds


def _list(flow: FlowNow) -> SelectedGroups:
    return selected_groups(flow, GroupSelection(everything=True), Direction.FORWARD)
