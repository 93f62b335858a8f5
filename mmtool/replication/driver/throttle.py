"""Divide each flow's throttle over the tasks of a round, and rebalance the shares as load shifts."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.plan.flow.throttle import Use, divide, is_news
from mmtool.plan.records.documents import SharesRecord
from mmtool.replication.ownership.internal_topics import write_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmtool.replication.driver.flow_run import FlowRun
    from mmtool.replication.spark.assignment import TaskAssignment

_LOOK_SECONDS = 1.0
_SILENT_SECONDS = 3.0

Shares = dict[int, float | None]


class Throttling:
    """The throttle shares of one round.

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
        self._told_at: dict[str, float] = dict.fromkeys(self._told, time.monotonic())

    def news(self) -> dict[str, Shares]:
        """The new shares of each flow where they differ from those the workers know; checks about once a second."""
        if time.monotonic() < self._look_at:
            return {}
        self._look_at = time.monotonic() + _LOOK_SECONDS
        found = {flow: self._shares(flow, told) for flow, told in self._told.items()}
        return {flow: shares for flow, shares in found.items() if is_news(self._told[flow], shares)}

    async def tell(self, news: Mapping[str, Shares]) -> bool:
        """Write the new shares for the workers; False if the target refused them, and they are tried again."""
        for flow, shares in news.items():
            run = self._runs[flow]
            words = {str(t): None if share is None else max(round(share), 1) for t, share in shares.items()}
            record = SharesRecord(run.owner, self._number, words)
            try:
                await write_documents(run.flow, run.flow.identity.control_topic, [record])
            except MmtoolError:
                return False
            self._told[flow], self._told_at[flow] = shares, time.monotonic()
        return True

    def _shares(self, flow: str, told: Mapping[int, float | None]) -> Shares:
        rate = self._runs[flow].worker_rate
        if rate is None:
            return dict.fromkeys(told)
        uses = {task: self._use(flow, task) for task in told}
        if None in uses.values() and _adds_up(told, rate):
            return dict(told)  # it rests on what was carried in the last round: better than to divide blindly
        return {**divide(rate, uses)}

    def _use(self, flow: str, task: int) -> Use | None:
        """How much of its share a task uses: none if it is silent for long, None while its report may still come."""
        said = self._runs[flow].watch.uses.get(task)
        if said is not None and said.round == self._number:
            return Use(said.bytes_per_second, said.is_all)
        is_silent = time.monotonic() - self._told_at[flow] > _SILENT_SECONDS
        return Use(0.0, is_all=False) if is_silent else None


def _adds_up(told: Mapping[int, float | None], rate: float) -> bool:
    known = [share for share in told.values() if share is not None]
    return len(known) == len(told) and math.isclose(sum(known), rate, rel_tol=1e-3)
