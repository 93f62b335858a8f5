"""Where it happens: two clusters, each behind a link of its own that only the command uses."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kit.chaos.schedule import Side
from kit.link import CLEAR, Link
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation

if TYPE_CHECKING:
    from pathlib import Path

SIDES = (Side.SOURCE, Side.TARGET)


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
    """Two clusters, each of whose brokers has its link. A context manager; `heal` makes everything well again.

    Args:
        directory: For the clusters' data.
        brokers: Of each cluster.
        compacts: Both clusters look twice a second for topics to compact.

    Attributes:
        links: Of each side, by the number of the broker.
    """

    def __init__(self, directory: Path, brokers: int = 1, *, compacts: bool = False) -> None:
        self.brokers, self._compacts = brokers, compacts
        self._ports = PortReservation()
        self._behind = {
            side: [(self._ports.take(), self._ports.take()) for _ in range(brokers)] for side in SIDES
        }
        self.fleet = Fleet([Cluster(side, directory / side, self._shape(side)) for side in SIDES])
        self.links: dict[Side, list[Link]] = {}
        self._stack = ExitStack()
        self._down: set[tuple[Side, int]] = set()
        self._frozen: set[tuple[Side, int]] = set()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._ports.release)
            stack.enter_context(self.fleet)
            for side, pairs in self._behind.items():
                self.links[side] = [
                    stack.enter_context(Link(advertised, behind)) for behind, advertised in pairs
                ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for side, broker in self._frozen:
            self.cluster(side).resume_broker(broker)
        self._stack.close()
        self.fleet.remove_data()

    def cluster(self, side: Side) -> Cluster:
        return self.fleet[side.value]

    def bootstrap(self, side: Side) -> str:
        """As the command reaches it."""
        return ",".join(f"127.0.0.1:{advertised}" for _, advertised in self._behind[side])

    @property
    def bootstraps(self) -> dict[str, str]:
        """Lines of a properties file that lead through the links."""
        return {f"{side}.bootstrap.servers": self.bootstrap(side) for side in SIDES}

    def carried(self, side: Side) -> int:
        """Bytes that went through its links, both ways."""
        return sum(sum(link.carried) for link in self.links[side])

    @property
    def unanswered(self) -> Counter[int]:
        """Requests to the target, by API key, whose connections ended without their answers."""
        return sum((link.unanswered for link in self.links[Side.TARGET]), Counter[int]())

    def freeze(self, side: Side, broker: int = 0) -> None:
        self.cluster(side).pause_broker(broker)
        self._frozen.add((side, broker))

    def kill(self, side: Side, broker: int = 0) -> None:
        self.cluster(side).kill_broker(broker)
        self._down.add((side, broker))

    def heal(self, side: Side) -> None:
        """Whatever it was: the brokers run, and their links are clear."""
        for link in self.links[side]:
            link.change(CLEAR)
        for broker in self._taken(self._frozen, side):
            self.cluster(side).resume_broker(broker)
        for broker in self._taken(self._down, side):
            self.cluster(side).start_broker(broker)

    def _taken(self, those: set[tuple[Side, int]], side: Side) -> list[int]:
        """What is said of this side, and no more."""
        mine = {one for one in those if one[0] is side}
        those.difference_update(mine)
        return [broker for _, broker in mine]

    def _shape(self, side: Side) -> Shape:
        pairs = enumerate(self._behind[side])
        links = {broker: behind_a_link(*pair) for broker, pair in pairs}
        # the target forgets at once who wrote old records last, and not within ten minutes
        soon = {"producer.id.expiration.check.interval.ms": "1000"} if side is Side.TARGET else {}
        soon |= {"log.cleaner.backoff.ms": "500"} if self._compacts else {}
        return Shape(self.brokers, of_brokers=links, properties=soon)
