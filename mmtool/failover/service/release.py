"""``failover release`` as a service: find the failed-over topics, confirm, and remove their marks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.failover.modes.release import rehearse_release, release
from mmtool.failover.service import connections
from mmtool.runtime import process

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.release import Release


def release_topics(
    flow: FlowSettings, topics: Collection[str], timeout: timedelta, agreed: Callable[[Release], bool]
) -> Release | None:
    """Find the marks of failed-over topics, ask the operator, and remove them.

    Args:
        flow: The flow.
        topics: The topics to release; empty for all that have failed over.
        timeout: For one request.
        agreed: Shows what would be released, and returns whether the operator confirmed it.

    Returns:
        What was released; None if it was only rehearsed or declined.

    Raises:
        As `rehearse_release` and `release`.
    """
    side = connections.target_side(flow, timeout)
    found = rehearse_release(side, connections.journal(flow, timeout), topics)
    if not agreed(found):
        return None
    kept = connections.tools(flow, found.identity, timeout)
    release(found, kept.journal, kept.marks, kept.lock, process.operator(), int(time.time() * 1000))
    return found
