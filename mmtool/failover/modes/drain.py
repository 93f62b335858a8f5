"""The port that drains a flow: mirroring up to given source offsets, by mmtool's engine or by MirrorMaker 2."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import GateError
from mmtool.insight.flow_progress import copied_by_mm2, short_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowNow
    from mmtool.translation.types import TopicPartition, UpstreamOffset


class DrainPort(Protocol):
    """Mirrors up to given source offsets, or waits until the process that runs the flow has."""

    def drain(
        self,
        flow: FlowSettings,
        until: Mapping[TopicPartition, UpstreamOffset],
        timeout_seconds: float | None,
    ) -> None:
        """Return once the frontier of each source partition has reached its offset.

        Watches the process that runs the flow, or takes the flow and runs it.

        Raises:
            GateError: Time ran out.
            RefusedError: A partition is halted.
            OwnedElsewhereError, UnreachableError: As the engine.
        """

    def await_mirror_maker(
        self, flow: FlowSettings, missing: Callable[[], int], timeout_seconds: float | None
    ) -> int:
        """Wait while MM2 runs the flow and ``missing`` says that records are.

        Returns:
            How many are missing at the last look; if any are, MM2 does not run the flow.

        Raises:
            GateError: Time ran out.
            UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a part.
        """


def bring_up(
    flow: FlowNow,
    until: Mapping[TopicPartition, UpstreamOffset],
    port: DrainPort,
    timeout_seconds: float | None,
    *,
    run: FlowSettings | None = None,
) -> None:
    """Return once all below these offsets is on the target.

    What MM2 copies has no frontier that could be watched: there the records themselves tell when it has arrived.

    Args:
        flow: Which flow.
        until: How far, by partition of the source.
        port: Who brings it up.
        timeout_seconds: For each way of it; None waits as long as it takes.
        run: The flow as the engine is to run it, if not as it is configured.

    Raises:
        As `DrainPort`.
        GateError: MM2 has left it half done.
    """
    settings, theirs = run or flow.clusters.settings, copied_by_mm2(flow, until)
    ours = {place: offset for place, offset in until.items() if place not in theirs}
    if ours:
        port.drain(settings, ours, timeout_seconds)
    if not theirs:
        return
    left = port.await_mirror_maker(settings, partial(short_of, flow, theirs), timeout_seconds)
    if left:
        # our engine would begin anew behind MM2's copies, and all would be there twice
        raise GateError(
            f"MirrorMaker 2 mirrored flow {settings.name} and no longer runs: up to {left} records are"
            f" missing on {settings.target.alias}; nothing was written",
            remedy="start MirrorMaker 2 again, or take the flow over with `mmtool replicate --take-over"
            f" -s {settings.source.alias} -t {settings.target.alias}`; then run the same command again",
        )
