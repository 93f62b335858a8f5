"""Connect to an operation's fence: a requested one, or one that the journal says is still in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.failover.fence.steps import FenceAsked
from mmtool.failover.service import connections
from mmtool.plan.failover.choices import FenceKind

if TYPE_CHECKING:
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.operation.records import Recorded
    from mmtool.plan.failover.fence_plan import Fence


def fence_asked(
    flow: FlowSettings,
    kind: FenceKind,
    watch_seconds: float,
    timeout: timedelta,
    standing: Fence | None = None,
) -> FenceAsked | None:
    """The requested fence with its connections; None for ``FenceKind.NONE``.

    Args:
        flow: The flow whose source is fenced.
        kind: The kind of fence.
        watch_seconds: How long the source's log ends must stand still after the fence is raised.
        timeout: For one request.
        standing: The recorded fence that may still be up.
    """
    if kind is FenceKind.NONE:
        return None
    source, port = connections.fenced_cluster(flow.source, timeout)
    return FenceAsked(kind, source, port, watch_seconds, standing)


def again(flow: FlowSettings, found: Recorded, timeout: timedelta) -> FenceAsked | None:
    """The fence of an operation that is resumed, with its connections; None if the operation has none."""
    fence = found.head.plan.fence
    standing = fence if found.fence_stands else None
    return fence_asked(flow, fence.kind, fence.watch_seconds, timeout, standing)


def standing(flow: FlowSettings, found: Recorded, timeout: timedelta) -> FenceAsked | None:
    """The fence that an operation may have left up, with its connections; None if it left none."""
    return again(flow, found, timeout) if found.fence_stands else None
