"""An operation that has ended, well or not, with all that it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.failover.landing import Landing
    from mmtool.failover.operation import Operation
    from mmtool.failover.rehearsal import Rehearsal


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that has ended, well or not."""

    rehearsal: Rehearsal
    operation: Operation
    landing: Landing
