"""The entry point of `replicate`: run flows until they are done or a signal stops them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import (
    MmtoolError,
    PartlyAppliedError,
    RefusedError,
    StoppedError,
)
from mmtool.events import FLOW_ARROW, Event, Notice
from mmtool.java import java_binary
from mmtool.output.console import leave_terminal
from mmtool.plan.flow.partition_rows import PartitionRow
from mmtool.plan.records.documents import State
from mmtool.plan.records.marks import FAILED_OVER_REMEDY
from mmtool.plan.words import are, flow_options
from mmtool.replication.driver.engine import Engine
from mmtool.replication.driver.progress import FlowsShown, rows_of_run
from mmtool.replication.driver.reload import Reloader
from mmtool.replication.driver.supervisor import FlowSupervisor
from mmtool.replication.same_offsets.refusals import refuse_take_over
from mmtool.runtime.threads import run_loop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmtool.config.live import LiveFile
    from mmtool.output.progress import ProgressSnapshot
    from mmtool.replication.driver.supervisor import RunOptions

Observe = Callable[[FlowSupervisor], AbstractContextManager[object]]

_REMAINING = {
    State.HALTED: ("is halted", "are halted"),
    State.FAILED_OVER: ("has failed over", "have failed over"),
}
"""The states that keep a run from being complete, as verbs of one partition and of several."""


@dataclass(slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        rows: One per partition, in the contract's shape.
        stopped_by: The signal that ended it; None when it reached its goal.
        has_goal: Whether it had one.
    """

    rows: list[dict[str, object]] = field(default_factory=list)
    stopped_by: signal.Signals | None = None
    has_goal: bool = False

    @property
    def error(self) -> MmtoolError | None:
        """The error by which the command gets the contract's exit code; None when all went well.

        A clean stop after a signal (130, 143), some partitions halted or failed over (6), or all of them (3).
        """
        if self.stopped_by is not None:
            return StoppedError(self.stopped_by, is_end=not self.has_goal)
        rest = {state: [row for row in self.rows if row["state"] == state] for state in _REMAINING}
        count = sum(map(len, rest.values()))
        if not count:
            return None
        said = [self._sentence(rows, _REMAINING[state]) for state, rows in rest.items() if rows]
        remedy, code = "do what the reason of each row says, then run the same command again", None
        if not rest[State.HALTED]:
            remedy, code = FAILED_OVER_REMEDY, str(State.FAILED_OVER)
        if count == len(self.rows):
            return RefusedError("; ".join(said), remedy=remedy, code=code)
        return PartlyAppliedError(
            "; ".join(said), remedy=f"{remedy}; the other partitions are mirrored", code=code
        )

    def _sentence(self, rows: list[dict[str, object]], verbs: tuple[str, str]) -> str:
        """What became of some of the rows: the only one, or their number with an example."""
        one, several = verbs
        first = min(rows, key=lambda row: row["topic"] is None)
        if first["topic"] is None:  # all are rows of flows, which their reasons name
            return "; ".join(str(row["reason"]) for row in rows)
        number = "" if first["partition"] is None else f"-{first['partition']}"
        place = f"{first['topic']}{number} of {first['source']}{FLOW_ARROW}{first['target']}"
        reason = first["reason"]
        if len(rows) == 1:
            return f"{place} {one}: {reason}"
        is_whole = all(row["partition"] is not None for row in self.rows)
        things = "partitions" if is_whole else "partitions or topics"
        return f"{len(rows)} of {len(self.rows)} {things} {several}, for example {place}: {reason}"


def replicate(
    file: LiveFile,
    options: RunOptions,
    *,
    show: Callable[[Sequence[ProgressSnapshot]], None],
    say: Callable[[str], None],
    warn: Callable[[str], None],
    observe: Observe = nullcontext,
) -> Outcome:
    """Run the flows of a file in this process until the goal of ``options`` is reached or a signal arrives.

    Args:
        file: The properties file; read again when it changes, and on SIGHUP.
        options: How long to run.
        show: Called about twice a second with the flows' progress.
        say: Called with sentences for the operator.
        warn: Called with warnings for the operator.
        observe: A context manager that is entered with the flows while they run, for instance to serve its metrics.

    Raises:
        MmtoolError: as `Engine.run`, each with the contract's exit code; UsageError: the file cannot be used.
    """
    chosen = file.load()
    if options.take_over:
        refuse_take_over(chosen.flows)
    java_binary()  # missing or too old is said before anything is touched
    flows = FlowSupervisor(chosen.flows, options, asyncio.Event(), say, chosen.heartbeats_only)
    engine, reloader = Engine(flows, FlowsShown(show).runs), Reloader(file, flows, say, warn)
    with observe(flows):
        return run_loop(_run(flows, engine, reloader))


async def _run(flows: FlowSupervisor, engine: Engine, reloader: Reloader) -> Outcome:
    outcome = Outcome(has_goal=flows.options.until_caught_up)

    def stopped(signum: signal.Signals) -> None:
        if flows.stop.is_set():
            flows.say(
                Notice(
                    "stopped at once; the next start recovers the batches in flight",
                    Event.STOPPING,
                    signal=signum.name,
                )
            )
            leave_terminal()
            os._exit(128 + signum)  # asked twice: nothing is waited for
        outcome.stopped_by = signum
        said = "stopping: finishing the batches in flight"
        flows.say(Notice(said, Event.STOPPING, signal=signum.name))
        flows.stop.set()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopped, signum)
    loop.add_signal_handler(signal.SIGHUP, reloader.asked.set)
    reloading = asyncio.create_task(reloader.run())
    try:
        await engine.run()
    finally:
        reloading.cancel()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(signum)
    now_ms = int(time.time() * 1000)
    outcome.rows = [row for run in flows.runs for row in rows_of_run(run, now_ms)]
    for flow, why in flows.failed_over.values():
        names = flow.source.alias, flow.target.alias, None
        row = PartitionRow(*names, state=State.FAILED_OVER, reason=why.message)
        outcome.rows.append(row._asdict())
    if flows.options.until_caught_up and outcome.stopped_by is None:
        _tell_paused(outcome.rows, flows.say)
    return outcome


def _tell_paused(rows: Sequence[Mapping[str, object]], say: Callable[[str], None]) -> None:
    paused = [row for row in rows if row["state"] == State.PAUSED]
    if not paused:
        return
    names = sorted({(str(row["source"]), str(row["target"])) for row in paused})
    resume = " and ".join(f"`mmtool flow resume {flow_options(*name)}`" for name in names)
    say(
        f"{len(paused)} of {len(rows)} partitions {are(len(paused))} paused, and replicate did not wait for"
        f" {'it' if len(paused) == 1 else 'them'}; to end the pause, run {resume}"
    )
