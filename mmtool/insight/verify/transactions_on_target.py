"""Find half-mirrored transactions from the target alone, when the source does not answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.insight.target_only import TargetSide, look_at_target
from mmtool.kafka.mm2.topics import Mm2Topics
from mmtool.plan.failover.half_transactions import told_by_target, transactions_on_target
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.words import Names

if TYPE_CHECKING:
    from collections.abc import Collection

    from mmtool.insight.flow_now import FlowClusters

_NO_GROUP = GroupSelection(matching=lambda _: False)


def tell_from_target(flow: FlowClusters, topics: Collection[str] = ()) -> str:
    """One sentence about transactions of a flow whose source does not answer.

    Args:
        flow: The flow; no group of it is asked about.
        topics: ``--topic``: only these; empty for all.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer either, or denies a part.
        RefusedError: Stored state that cannot be read.
    """
    settings = flow.settings
    side = TargetSide(settings, flow.target, flow.state, Mm2Topics(settings, target_only=True))
    facts = look_at_target(side, _NO_GROUP, int(time.time() * 1000)).facts
    known = transactions_on_target(facts, topics or None)
    return told_by_target(known, Names(settings.source.alias, settings.target.alias))
