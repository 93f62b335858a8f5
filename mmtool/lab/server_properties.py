"""The ``server.properties`` of one lab broker: KRaft, combined mode, quick to start, small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """One broker that is its own controller; ports on 127.0.0.1.

    Attributes:
        broker_port: Of the listener for brokers among themselves, where they have one of their own.
    """

    node_id: int
    port: int
    controller_port: int
    broker_port: int | None = None


def server_properties(
    node: Node, nodes: Sequence[Node], data: Path, extra: Mapping[str, str]
) -> dict[str, str]:
    """A broker's properties; ``extra`` wins, with the node's own ports for ``{port}`` and its other placeholders."""
    return {
        **_network(node, nodes),
        **_internal_topics(len(nodes)),
        **_small_and_quick(),
        "log.dirs": str(data),
        **{name: _own_ports(node, value) for name, value in extra.items()},
    }


def _own_ports(node: Node, value: str) -> str:
    ports = {
        "{port}": node.port,
        "{controller_port}": node.controller_port,
        "{broker_port}": node.broker_port,
    }
    for placeholder, port in ports.items():
        value = value.replace(placeholder, str(port))
    return value


def properties_text(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _network(node: Node, nodes: Sequence[Node]) -> dict[str, str]:
    listener = f"PLAINTEXT://127.0.0.1:{node.port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@127.0.0.1:{n.controller_port}" for n in nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listener},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": listener,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def _internal_topics(brokers: int) -> dict[str, str]:
    replicas, in_sync = str(min(3, brokers)), str(2 if brokers >= 3 else 1)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "5",  # 50 by default, each a folder to create on the first commit
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
    }


def _small_and_quick() -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "8388608",  # 128 MiB by default, out of a heap of less
        "broker.heartbeat.interval.ms": "1000",  # a broker takes clients after its first answered heartbeat
        "metadata.max.idle.interval.ms": "0",  # by default two records a second, a third of what an idle broker costs
        "broker.session.timeout.ms": "4000",  # as long is a killed broker still taken for alive
    }
