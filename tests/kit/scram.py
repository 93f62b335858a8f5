"""Real clusters whose clients log in by SCRAM and whose sessions end, and the brokers' own count of those ends."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kit.kafka_tools import java_source
from mmtool.lab.cluster import JVM, Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

USER = "mm"
PASSWORD = "first-pa55"  # noqa: S105  of a user that lives as long as a test
MECHANISM = "SCRAM-SHA-512"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENER = "CLIENTS"
_HERE = "127.0.0.1"
JVM_THAT_NAMES_KILLED = (*JVM, "-Dorg.slf4j.simpleLogger.log.kafka.network.Processor=debug")
"""Brokers log the requests that came after their session: `killed_connections`."""
_KILLED = "Disconnecting expired channel"
_SECONDS = 30.0
_ITERATIONS = 4096


@dataclass(frozen=True)
class ScramFleet:
    """Clusters with a plain listener, for whoever makes the scene, and one on which `USER` logs in.

    Attributes:
        servers: Where `USER` connects, by cluster.
    """

    fleet: Fleet
    servers: Mapping[str, str]

    def lines(self, password: str = PASSWORD) -> dict[str, str]:
        """The properties of mmtool by which `USER` logs in to all of them."""
        login = f'{MODULE} required username="{USER}" password="{password}";'
        found: dict[str, str] = {}
        for name, servers in self.servers.items():
            found |= {
                f"{name}.bootstrap.servers": servers,
                f"{name}.security.protocol": "SASL_PLAINTEXT",
                f"{name}.sasl.mechanism": MECHANISM,
                f"{name}.sasl.jaas.config": login,
            }
        return found

    def set_password(self, password: str) -> None:
        """Create `USER`, or change its password, in every cluster."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        for cluster in self.fleet:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
            change = UserScramCredentialUpsertion(USER, info, password.encode())
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(_SECONDS)


@contextlib.contextmanager
def scram_fleet(directory: Path, *names: str, session_ms: int) -> Iterator[ScramFleet]:
    """Clusters of one broker each; their sessions end after ``session_ms``, 0 for never."""
    ports = PortReservation()
    servers = {name: f"{_HERE}:{ports.take()}" for name in names}
    clusters = [
        Cluster(
            name,
            directory / name,
            Shape(properties=_properties(servers[name], session_ms), jvm=JVM_THAT_NAMES_KILLED),
        )
        for name in names
    ]
    try:
        with Fleet(clusters) as fleet:
            found = ScramFleet(fleet, servers)
            found.set_password(PASSWORD)
            yield found
    finally:
        ports.release()


def _properties(server: str, session_ms: int) -> dict[str, str]:
    own, clients = f"PLAINTEXT://{_HERE}:{{port}}", f"{LISTENER}://{server}"
    return {
        "listeners": f"{own},CONTROLLER://{_HERE}:{{controller_port}},{clients}",
        "advertised.listeners": f"{own},{clients}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": f"{MODULE} required;",
        "connections.max.reauth.ms": str(session_ms),
    }


def login_metrics(cluster: Cluster) -> dict[str, float]:
    """A broker's counts about logins by Kafka's names, as ``expired-connections-killed-count``; summed over brokers."""
    beans = f"kafka.server:type=socket-server-metrics,listener={LISTENER},*"
    found: dict[str, float] = {}
    for broker in cluster.running():
        with java_source("ReadMetrics", str(broker.pid), beans) as command:
            said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        for name, value in map(str.split, said.splitlines()):
            found[name] = found.get(name, 0.0) + float(value)
    return found


def killed_connections(cluster: Cluster) -> list[str]:
    """The lines in which brokers name the client whose request came after its session, and that request."""
    logs = [Path(broker.log).read_text(errors="replace") for broker in cluster.running()]
    return [line for log in logs for line in log.splitlines() if _KILLED in line]
