"""Warn when MirrorMaker 2 is started again on a flow that mmtool runs."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.events import Event, flow_notice
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication.mm2.guard import RECENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.replication.background import ExtraTurn
    from mmtool.replication.mm2.guard import MirrorMakerGuard, Sign


@dataclass(slots=True)
class MirrorMakerWatch:
    """Reports once that MM2 runs, and once that it has stopped.

    mmtool continues meanwhile: what MM2 copies is on the target twice, whichever of the two ends first, and only an
    operator knows which of them should run.

    Attributes:
        guard: Of the flow.
        say: Called with sentences for the operator.
    """

    guard: MirrorMakerGuard
    say: Callable[[str], None]
    name: str = "looking for MirrorMaker 2"
    seconds: float = RECENT_SECONDS / 2
    extra: ExtraTurn = ""
    _is_there: bool = False
    _since: float = field(default_factory=time.monotonic)

    async def perform(self) -> None:
        with suppress(UnreachableError, ConnectionLostError):  # others say that a cluster is away
            sign = await self.guard.look()
            if sign is not None and not self._is_there and self._is_of_before(sign):
                return
            self._tell(sign)

    def _is_of_before(self, sign: Sign) -> bool:
        """Whether the evidence may be the last records of an MM2 from which this process has just taken over."""
        return bool(sign.last_written) and time.monotonic() - self._since < RECENT_SECONDS

    def _tell(self, sign: Sign | None) -> None:
        name, was_there = self.guard.flow.settings.name, self._is_there
        self._is_there = sign is not None
        if sign is not None and not was_there:
            said = (
                f"MirrorMaker 2 now runs this flow too: {sign.sentence}; stop MirrorMaker 2: the target gets each"
                " record twice"
            )
            self.say(flow_notice(name, said, Event.MIRROR_MAKER_SEEN))
        elif sign is None and was_there:
            self.say(flow_notice(name, "MirrorMaker 2 has stopped", Event.MIRROR_MAKER_GONE))
