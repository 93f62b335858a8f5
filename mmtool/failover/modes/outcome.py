"""The result of an operation, successful or not, with all that it did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.plan.words import ID_PLACEHOLDER

if TYPE_CHECKING:
    from mmtool.failover.modes.cutover import Cutover
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.operation import Operation
    from mmtool.plan.groups.reset_csv import ResetLine


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that has ended, successfully or not.

    Attributes:
        folder: Of the file with a failback's diverged records.
        skipped: For a failback, the offsets of the first diverged records that its groups skip.
    """

    rehearsal: Rehearsal
    operation: Operation
    cutover: Cutover
    folder: Path = Path()
    skipped: tuple[ResetLine, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The rehearsal's warnings, with the operation's id in names of files."""
        name = self.rehearsal.plan.operation_id
        return tuple(said.replace(ID_PLACEHOLDER, name) for said in self.rehearsal.warnings)
