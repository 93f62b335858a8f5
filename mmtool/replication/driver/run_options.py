"""How long `replicate` runs, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.replication.ownership.owned_state import Place


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long to run.

    Attributes:
        until_caught_up: Stop when every frontier has passed the source's end seen at the start.
        until: Stop when these frontiers are reached instead, by flow name and place.
        standby: Wait for ownership as long as it takes.
        take_over: Wait until MirrorMaker 2 has stopped, and go on where it stopped.
    """

    until_caught_up: bool = False
    until: Mapping[str, Mapping[Place, int]] | None = None
    standby: bool = False
    take_over: bool = False

    @property
    def has_goal(self) -> bool:
        return self.until_caught_up or self.until is not None
