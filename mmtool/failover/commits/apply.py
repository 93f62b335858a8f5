"""Execute offset plans on a cluster: check again, save the replaced commits, commit, read back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.failover.commits.precommit_checks import clear
from mmtool.failover.commits.undo_files import keep
from mmtool.failover.commits.write import Outcome, failure_of_writing, write_groups
from mmtool.output import warn
from mmtool.plain_text import shell_word

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from mmtool.errors import MmtoolError
    from mmtool.failover.commits.write import Written
    from mmtool.failover.report.rows import WrittenPlaces
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.offsets import GroupPlan


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of executed offset plans.

    Attributes:
        ended: The result for each group.
        undo: The file with the replaced commits; None where none was replaced.
        where: The cluster's alias.
    """

    ended: tuple[Written, ...]
    undo: Path | None
    where: str

    @property
    def written(self) -> WrittenPlaces:
        """By group and partition, True where the new offset is stored, None where that is unknown; for the rows."""
        known = {(result.group, place): True for result in self.ended for place in result.written}
        return known | {(result.group, place): None for result in self.ended for place in result.unknown}

    @property
    def may_have_written(self) -> bool:
        """Whether a commit was replaced, or may have been."""
        unclear = {Outcome.PARTLY, Outcome.DIFFERENT}
        return any(result.written or result.outcome in unclear for result in self.ended)

    @property
    def error(self) -> MmtoolError | None:
        """The error with which the command ends; None if every group was written."""
        return failure_of_writing(self.ended, self.where)


def apply(cluster: ClusterPort, plans: Collection[GroupPlan], *, synced: bool) -> Applied:
    """Check, save the commits to be replaced, and commit the plans' offsets; blocked groups stay unchanged.

    Args:
        cluster: The cluster to commit on.
        plans: The groups' plans.
        synced: As for `clear`: the groups' commits may be recent because offset sync writes them.

    Raises:
        MmtoolError: As `clear` and `keep`; nothing was written.
    """
    looked_at = time.monotonic()
    clear(cluster, plans, synced=synced)
    undo = keep(cluster, plans)
    try:
        ended = tuple(write_groups(cluster.groups, plans, looked_at=looked_at))
    except BaseException:  # Ctrl-C, of somebody who waits for a silent cluster
        if undo is not None:
            warn(
                f"interrupted: offsets of some groups may already be committed on {cluster.alias};"
                f" `mmtool groups import {shell_word(str(undo))} -c FILE --execute` restores the previous ones"
            )
        raise
    applied = Applied(ended, undo, cluster.alias)
    if undo is not None and not applied.may_have_written:
        undo.unlink(missing_ok=True)
        return Applied(ended, None, cluster.alias)
    return applied
