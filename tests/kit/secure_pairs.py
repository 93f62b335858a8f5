"""Two secured clusters as ``mmtool lab up --secure`` starts them, with one listener more for the test's own hands."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kit.bench import Bench
from kit.scram import JVM_THAT_NAMES_KILLED
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation
from mmtool.lab.security.kinds import SecurityKind
from mmtool.lab.security.setup import Security

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from _pytest.mark import ParameterSet

SIDES = ("source", "target")
_HOST = "127.0.0.1"


def logins(*in_ci: SecurityKind) -> list[ParameterSet]:
    """Every kind of login as a parameter; those that are not named are tried with chaos."""
    return [
        pytest.param(kind, id=str(kind), marks=() if kind in in_ci else pytest.mark.chaos)
        for kind in SecurityKind
    ]


@dataclass(frozen=True)
class SecurePair:
    """``source`` and ``target``, which share users and an authority.

    Attributes:
        bench: Its properties files are those of the user ``mmtool``. Its clusters' ``bootstrap`` is a plain listener
            on which an anonymous client may do everything: kit and lab prepare and judge by it.
        secured: Alias to ``host:port`` of the listener that clients must authenticate on.
    """

    bench: Bench
    security: Security
    secured: Mapping[str, str]

    def properties(self, topics: str, **extra: str) -> Path:
        """A properties file whose user may do what its flow needs; ``extra`` wins."""
        path = self.bench.properties(topics, **extra)
        self.bench.fleet.grant_rights(path)
        return path

    def login(self, user: str) -> dict[str, str]:
        """A user's properties for Kafka's clients."""
        return {"bootstrap.servers": self.secured["source"], **self.security.client_properties(user)}


@contextmanager
def secure_pair(
    kind: SecurityKind, directory: Path, jvm: Sequence[str] = JVM_THAT_NAMES_KILLED
) -> Iterator[SecurePair]:
    """Two running clusters of one broker each, secured this way; ``jvm`` are the options of the brokers' JVMs."""
    ports = PortReservation()
    with ExitStack() as ends:
        ends.callback(ports.release)
        security = ends.enter_context(Security(kind, directory / "security"))
        clusters, secured = [], {}
        for side in SIDES:
            port = ports.take()
            secured[side] = f"{_HOST}:{port}"
            clusters.append(Cluster(side, directory / side, _operated(security, port, jvm)))
        fleet = ends.enter_context(Fleet(clusters))
        lines = {f"{side}.bootstrap.servers": address for side, address in secured.items()}
        yield SecurePair(Bench(fleet, directory, lines), security, secured)


def _operated(security: Security, port: int, jvm: Sequence[str]) -> Shape:
    """A shape whose clients' listener is on ``port``, and whose ordinary port is a plain listener."""
    of_lab = security.broker_properties()
    plain = f"PLAINTEXT://{_HOST}:{{port}}"
    listeners = {
        name: f"{of_lab[name].replace('{port}', str(port))},{plain}"
        for name in ("listeners", "advertised.listeners")
    }
    return Shape(
        security=security,
        jvm=jvm,
        properties={
            **listeners,
            "listener.security.protocol.map": f"{of_lab['listener.security.protocol.map']},PLAINTEXT:PLAINTEXT",
            "super.users": f"{of_lab['super.users']};User:ANONYMOUS",
        },
    )
