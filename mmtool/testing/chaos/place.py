"""Where it happens: two clusters, each behind a link of its own that only the command uses."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation
from mmtool.testing.chaos.schedule import Side
from mmtool.testing.link import CLEAR, Link

if TYPE_CHECKING:
    from pathlib import Path

SIDES = (Side.SOURCE, Side.TARGET)
_NODE = 0


def behind_a_link(behind: int, advertised: int) -> dict[str, str]:
    """A broker's settings: a listener that clients only reach through the link; what is local stays so."""
    local, control = "PLAINTEXT://127.0.0.1:{port}", "CONTROLLER://127.0.0.1:{controller_port}"
    return {
        "listeners": f"{local},LINK://127.0.0.1:{behind},{control}",
        "advertised.listeners": f"{local},LINK://127.0.0.1:{advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


class Place:
    """Two clusters of one broker. A context manager; `heal` makes everything well again."""

    def __init__(self, directory: Path) -> None:
        self._ports = PortReservation()
        self._behind = {side: (self._ports.take(), self._ports.take()) for side in SIDES}
        self.fleet = Fleet(
            [
                Cluster(side, directory / side, Shape(properties=behind_a_link(*self._behind[side])))
                for side in SIDES
            ]
        )
        self.links: dict[Side, Link] = {}
        self._stack = ExitStack()
        self._down: set[Side] = set()
        self._frozen: set[Side] = set()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._ports.release)
            stack.enter_context(self.fleet)
            for side, (behind, advertised) in self._behind.items():
                self.links[side] = stack.enter_context(Link(advertised, behind))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for side in self._frozen:
            self.cluster(side).resume_broker(_NODE)
        self._stack.close()
        self.fleet.remove_data()

    def cluster(self, side: Side) -> Cluster:
        return self.fleet[side.value]

    def bootstrap(self, side: Side) -> str:
        """As the command reaches it."""
        return f"127.0.0.1:{self._behind[side][1]}"

    def freeze(self, side: Side) -> None:
        self.cluster(side).pause_broker(_NODE)
        self._frozen.add(side)

    def kill(self, side: Side) -> None:
        self.cluster(side).kill_broker(_NODE)
        self._down.add(side)

    def heal(self, side: Side) -> None:
        """Whatever it was: the broker runs, and the link is clear."""
        self.links[side].change(CLEAR)
        if side in self._frozen:
            self._frozen.discard(side)
            self.cluster(side).resume_broker(_NODE)
        if side in self._down:
            self._down.discard(side)
            self.cluster(side).start_broker(_NODE)
