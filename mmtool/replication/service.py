"""What commands call: run flows until they are done or somebody stops them; drain a flow for a failover."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import (
    GateError,
    MmtoolError,
    OwnedElsewhereError,
    PartlyAppliedError,
    RefusedError,
    StoppedError,
)
from mmtool.kafka.membership import seat_holder
from mmtool.lab.java import java_binary
from mmtool.plan.documents import State
from mmtool.replication.context import connect
from mmtool.replication.engine import Engine, RunOptions
from mmtool.replication.limits import missing, refuse_unsupported
from mmtool.replication.progress import RateMeter, rows_of_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.output.progress import ProgressSnapshot
    from mmtool.plan.identity import FlowIdentity
    from mmtool.replication.establish import Place
    from mmtool.replication.flow_run import FlowRun
    from mmtool.translation.types import TopicPartition, UpstreamOffset

_SHOW_SECONDS = 0.5
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        rows: One per partition, in the contract's shape.
        stopped_by: The signal that ended it; None when it reached its goal.
    """

    rows: list[dict[str, object]] = field(default_factory=list)
    stopped_by: signal.Signals | None = None

    @property
    def error(self) -> MmtoolError | None:
        """What ends the command with the contract's exit code; None when all went well.

        A clean stop after a signal (130, 143), some partitions halted (6), or all of them (3).
        """
        if self.stopped_by is not None:
            return StoppedError(self.stopped_by)
        halted = [row for row in self.rows if row["state"] == State.HALTED]
        if not halted:
            return None
        message = f"{len(halted)} of {len(self.rows)} partitions or topics are halted: {halted[0]['reason']}"
        if len(halted) == len(self.rows):
            return RefusedError(message, remedy="each row's reason says what helps")
        return PartlyAppliedError(
            message, remedy="each row's reason says what helps; the others are mirrored"
        )


def replicate(
    flows: Sequence[FlowSettings],
    options: RunOptions,
    *,
    show: Callable[[Sequence[ProgressSnapshot]], None],
    say: Callable[[str], None],
) -> Outcome:
    """Runs ``flows`` in this process until the goal of ``options`` is reached or a signal arrives.

    Args:
        flows: What to mirror.
        options: For how long.
        show: Called about twice a second with how far it is.
        say: Called with sentences for the operator.

    Raises:
        MmtoolError: as the engine, each with the contract's exit code.
    """
    java_binary()  # missing or too old is said before anything is touched
    refuse_unsupported(flows)
    for sentence in filter(None, map(missing, flows)):
        say(sentence)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # lost connections are our own affair
    return asyncio.run(_replicate(flows, options, show, say))


async def _replicate(
    flows: Sequence[FlowSettings],
    options: RunOptions,
    show: Callable[[Sequence[ProgressSnapshot]], None],
    say: Callable[[str], None],
) -> Outcome:
    stop, outcome = asyncio.Event(), Outcome()
    meters: dict[str, RateMeter] = {}
    shown_at = 0.0

    def tick(runs: Sequence[FlowRun]) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at < _SHOW_SECONDS:
            return
        shown_at = time.monotonic()
        now_ms = int(time.time() * 1000)
        show(
            [
                meters.setdefault(run.name, RateMeter()).snapshot(
                    run.name, run.watch.positions.values(), now_ms
                )
                for run in runs
            ]
        )

    def stopped(signum: signal.Signals) -> None:
        if stop.is_set():
            say("stopped at once: the next start resumes")
            os._exit(128 + signum)  # asked twice: nothing is waited for
        outcome.stopped_by = signum
        say("stopping: what is in flight is finished first")
        stop.set()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopped, signum)
    engine = Engine(flows, options, stop, tick, say)
    try:
        await engine.run()
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(signum)
    now_ms = int(time.time() * 1000)
    outcome.rows = [row for run in engine.runs for row in rows_of_run(run, now_ms)]
    return outcome


def drain_flow(
    flow: FlowSettings, until: Mapping[TopicPartition, UpstreamOffset], timeout_seconds: float | None
) -> None:
    """Returns once the frontier of every partition of ``until`` has passed its offset.

    With a `replicate` running, watches it; with none, takes the flow and runs the engine itself.

    Raises:
        GateError: time ran out; what was mirrored meanwhile stays mirrored and harms nothing.
        RefusedError: a partition is not mirrored, or is halted.
        MmtoolError: as the engine.
    """
    java_binary()
    asyncio.run(_drain(flow, until, timeout_seconds))


async def _drain(
    flow: FlowSettings, until: Mapping[TopicPartition, UpstreamOffset], timeout_seconds: float | None
) -> None:
    identity, goal = await _places(flow, until)
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                if await _reached(flow, identity, goal):
                    return
                if await _runs_elsewhere(flow, identity):
                    await _refuse_halted(flow, identity, goal)
                    await asyncio.sleep(_POLL_SECONDS)
                    continue
                stop = asyncio.Event()
                engine = Engine(
                    [flow],
                    RunOptions(until={flow.name: {place: int(offset) for place, offset in goal.items()}}),
                    stop,
                    lambda _runs: None,
                    lambda _sentence: None,
                )
                try:
                    await engine.run()
                except OwnedElsewhereError:
                    await asyncio.sleep(_POLL_SECONDS)
                    continue
                await _refuse_halted(flow, identity, goal)
                if not await _reached(flow, identity, goal):
                    raise MmtoolError(
                        f"flow {flow.name} ended before every commit was passed", remedy="run again"
                    )
    except TimeoutError:
        raise GateError(
            f"flow {flow.name} did not pass every commit within {timeout_seconds:g} s",
            remedy="nothing was written; see the lag with `mmtool replicate`, and give --timeout more",
        ) from None


async def _places(
    flow: FlowSettings, until: Mapping[TopicPartition, UpstreamOffset]
) -> tuple[FlowIdentity, dict[Place, UpstreamOffset]]:
    """Which flow it is, and the goal by topic id, which is what a mirror is known by."""
    context = await connect(flow)
    try:
        found = await context.source.refresh({tp.topic for tp in until})
        goal: dict[Place, UpstreamOffset] = {
            (found[tp.topic].topic_id, tp.partition): offset for tp, offset in until.items()
        }
        return context.identity, goal
    finally:
        await context.close()


async def _reached(flow: FlowSettings, identity: FlowIdentity, goal: Mapping[Place, UpstreamOffset]) -> bool:
    from mmtool.kafka.state_log import newest_blocks, read_blocks

    blocks = newest_blocks((await asyncio.to_thread(read_blocks, flow.target, identity)).values())
    return all(
        place in blocks and blocks[place].tail.upstream_frontier >= offset for place, offset in goal.items()
    )


async def _runs_elsewhere(flow: FlowSettings, identity: FlowIdentity) -> bool:
    """Whether a living process owns the flow: then it is watched, not replaced."""
    return await asyncio.to_thread(seat_holder, flow.target, identity.ownership_group) is not None


async def _refuse_halted(
    flow: FlowSettings, identity: FlowIdentity, goal: Mapping[Place, UpstreamOffset]
) -> None:
    """Somebody has to mend a halted partition first; waiting does not help.

    Raises:
        RefusedError: a partition of the goal is halted.
    """
    from mmtool.kafka.state_log import read_control

    control = await asyncio.to_thread(read_control, flow.target, identity)
    for place in goal:
        position = control.positions.get(place)
        if position is not None and position.state == State.HALTED:
            raise RefusedError(
                f"{position.topic}-{position.partition} cannot be drained: {position.reason}",
                remedy="mend it, then run again",
            )
