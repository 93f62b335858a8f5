"""``BothWays``: a flow, its reverse flow and the logs of both clusters, for a failback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import BatchesPort


@dataclass(frozen=True, slots=True)
class BothWays:
    """A flow, its reverse flow, and the logs of both clusters.

    Attributes:
        back: The reverse flow; without topics where all topics of the target came from the source.
        home, away: The logs of the flow's source and target.
    """

    flow: FlowNow
    back: FlowNow
    home: BatchesPort
    away: BatchesPort
