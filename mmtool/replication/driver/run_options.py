"""Options of a `replicate` run: how long it runs, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.replication.ownership.owned_state import Place


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long a run lasts, and whether it waits for the lease or for MirrorMaker 2.

    Attributes:
        until_caught_up: Stop when every frontier has passed the source's end seen at the start.
        until: Stop when these frontiers are reached instead, by flow name and partition.
        standby: Wait for the ownership lease without a time limit.
        take_over: Wait until MirrorMaker 2 has stopped, and continue where it stopped.
    """

    until_caught_up: bool = False
    until: Mapping[str, Mapping[Place, int]] | None = None
    standby: bool = False
    take_over: bool = False

    @property
    def has_goal(self) -> bool:
        return self.until_caught_up or self.until is not None
