"""The result of an operation, successful or not, with all that it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.failover.modes.cutover import Cutover
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.operation import Operation


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that has ended, successfully or not."""

    rehearsal: Rehearsal
    operation: Operation
    cutover: Cutover
