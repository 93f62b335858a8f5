"""Keeping throttled flows at their rates: each rate is divided over the tasks of a round, and again as work shifts."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.plan.documents import SharesRecord
from mmtool.plan.throttle import Use, divide, is_news
from mmtool.replication.stateful import write_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmtool.replication.assignment import TaskAssignment
    from mmtool.replication.flow_run import FlowRun

_LOOK_SECONDS = 1.0

Shares = dict[int, float | None]


class Throttling:
    """The shares of one round.

    Args:
        number: Of the round.
        runs: The flows.
        tasks: With the shares that they begin with.
    """

    def __init__(self, number: int, runs: Sequence[FlowRun], tasks: Sequence[TaskAssignment]) -> None:
        self._number = number
        self._runs = {run.flow.identity.flow: run for run in runs}
        self._told: dict[str, Shares] = defaultdict(dict)
        for task in tasks:
            for flow in task.flows:
                self._told[flow.identity.flow][task.index] = flow.bytes_per_second
        self._look_at = 0.0

    def news(self) -> dict[str, Shares]:
        """Shares that differ from what the pumps know, by flow; looked at about once a second."""
        if time.monotonic() < self._look_at:
            return {}
        self._look_at = time.monotonic() + _LOOK_SECONDS
        found = {flow: self._shares(self._runs[flow], told) for flow, told in self._told.items()}
        return {flow: shares for flow, shares in found.items() if is_news(self._told[flow], shares)}

    async def tell(self, news: Mapping[str, Shares]) -> bool:
        """Tells the pumps; whether the target took the words, which are tried again otherwise."""
        for flow, shares in news.items():
            run = self._runs[flow]
            words = {str(t): None if share is None else max(round(share), 1) for t, share in shares.items()}
            record = SharesRecord(run.owner, self._number, words)
            try:
                await write_documents(run.flow, run.flow.identity.control_topic, [record])
            except UnreachableError:
                return False
            self._told[flow] = shares
        return True

    def _shares(self, run: FlowRun, told: Mapping[int, float | None]) -> Shares:
        rate = run.flow.settings.throttle_bytes_per_second
        if rate is None:
            return dict.fromkeys(told)
        return {**divide(rate, {task: self._use(run, task) for task in told})}

    def _use(self, run: FlowRun, task: int) -> Use | None:
        said = run.watch.uses.get(task)
        if said is None or said.round != self._number:
            return None
        return Use(said.bytes_per_second, said.is_all)
