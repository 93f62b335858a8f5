"""The port that drains a flow: mirroring up to given source offsets, by mmtool's engine or by MirrorMaker 2."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import GateError
from mmtool.insight.flow_progress import copied_by_mm2, short_of
from mmtool.plan.words import are, counted, then

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
        """Return once the frontier of each source partition has reached its offset; mirror if no process runs the flow.

        If a process runs the flow, it is only watched.

        Raises:
            GateError: The timeout has passed.
            RefusedError: A partition is halted.
            OwnedElsewhereError, UnreachableError: As the engine.
        """

    def await_mirror_maker(
        self, flow: FlowSettings, missing: Callable[[], int], timeout_seconds: float | None
    ) -> int:
        """Wait while MirrorMaker 2 runs the flow and ``missing`` returns more than 0 records.

        Returns:
            How many records are missing at the end; if any are, MM2 does not run the flow.

        Raises:
            GateError: The timeout has passed.
            UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a part.
        """


def refuse_missing(flow: FlowSettings, missing: int, when: str, again: str = "") -> None:
    """Raise if the target still lacks records after a drain, as those of a halted partition; return if none is missing.

    Args:
        flow: The flow.
        missing: How many offsets are missing at most.
        when: The moment at which the source held these records, as ``when the drill began``.
        again: The command that checks again; the same command by default.

    Raises:
        GateError: ``missing`` is not 0.
    """
    if not missing:
        return
    source, target = flow.source.alias, flow.target.alias
    shown = f"see with `mmtool status -c FILE -s {source} -t {target}` which partition is halted or lags"
    todo = f"{shown}, and remove the cause"
    raise GateError(
        f"{target} does not hold every record that {source} held {when}: up to"
        f" {counted(missing, 'record')} {are(missing)} missing; no offset was committed",
        remedy=then(todo, again) if again else then(todo),
    )


def bring_up(
    flow: FlowNow,
    until: Mapping[TopicPartition, UpstreamOffset],
    port: DrainPort,
    timeout_seconds: float | None,
    *,
    run: FlowSettings | None = None,
) -> None:
    """Drain a flow: return once all records below these source offsets are on the target.

    Partitions that MM2 copies have no frontier to watch: there `short_of` tells how many records are missing.

    Args:
        flow: The flow.
        until: The end offset of each source partition.
        port: Mirrors, or waits for the process that does.
        timeout_seconds: For the engine and for MM2 each; None waits without limit.
        run: The flow's settings for the engine, if they differ from the configured ones.

    Raises:
        As `DrainPort`.
        GateError: MM2 stopped before all records were copied.
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
            f"MirrorMaker 2 mirrored flow {settings.name} and no longer runs: up to"
            f" {counted(left, 'record')} {are(left)} missing on {settings.target.alias}; no offset was committed",
            remedy="start MirrorMaker 2 again, or take the flow over with `mmtool replicate --take-over"
            f" -c FILE -s {settings.source.alias} -t {settings.target.alias}`; then run the same command again",
        )
