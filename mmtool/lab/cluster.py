"""A real Kafka cluster on loopback: N brokers in KRaft combined mode, which end with their process."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

from mmtool.errors import MmtoolError, UsageError
from mmtool.java import ClassArchive
from mmtool.lab import ports
from mmtool.lab.artifacts import KAFKA_VERSION, classpath
from mmtool.lab.ports import PortReservation
from mmtool.lab.process import LeashedProcess, down_command, java_command
from mmtool.lab.security.certificates import write_private
from mmtool.lab.state import BrokerState
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mmtool.lab.ports import TlsFiles
    from mmtool.lab.security.setup import Security


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
    replicas, in_sync = str(min(3, len(nodes))), str(2 if len(nodes) >= 3 else 1)
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@127.0.0.1:{n.controller_port}" for n in nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # of topics, mmtool's own and Kafka's
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
        # small and quick
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "8388608",  # 128 MiB by default, out of a heap of less
        "broker.heartbeat.interval.ms": "1000",  # a broker takes clients after its first answered heartbeat
        "metadata.max.idle.interval.ms": "0",  # by default two records a second, a third of an idle broker's cost
        "broker.session.timeout.ms": "4000",  # as long is a killed broker still taken for alive
        "log.dirs": str(data),
        **extra,
    }
    for name in ("port", "controller_port", "broker_port"):
        own = str(getattr(node, name))
        properties = {key: value.replace(f"{{{name}}}", own) for key, value in properties.items()}
    return properties


def properties_text(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


READY_SECONDS = 90.0  # 3-5 s alone; the rest is for machines that do other things as well
_POLL_SECONDS = 0.05

# One broker of 512 MiB suffices for any test here; C1 and the serial collector start in half the time.
JVM = ("-Xmx384m", "-Xms96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JVM_FOR_SPEED = ("-Xmx512m", "-Xms512m", "-XX:+UseG1GC")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The configuration of a cluster.

    Attributes:
        properties: Override every broker's ``server.properties``.
        of_brokers: As ``properties``, but of one broker each, by its number; they take precedence.
        security: Certificates, users and authorizer; it has been started. Without it, everybody may do everything.
    """

    brokers: int = 1
    version: str = KAFKA_VERSION
    properties: Mapping[str, str] = field(default_factory=dict)
    jvm: Sequence[str] = JVM
    of_brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    security: Security | None = None

    def properties_of(self, broker: int) -> dict[str, str]:
        """The additional properties of one broker."""
        secured = self.security.broker_properties() if self.security is not None else {}
        return {**secured, **self.properties, **self.of_brokers.get(broker, {})}

    def jvm_options(self) -> tuple[str, ...]:
        """The options of a broker's JVM."""
        return (*self.jvm, *(self.security.jvm_options() if self.security is not None else ()))

    @property
    def broker_files(self) -> TlsFiles | None:
        """What the lab itself authenticates with; None where no broker asks."""
        return self.security.broker_files if self.security is not None else None


class Cluster:
    """A named cluster below ``directory``: data, logs and ``server.properties`` of each broker.

    A directory that already holds a cluster is started again with its data, its cluster id and, when they
    are still free, its ports.
    """

    def __init__(self, name: str, directory: Path, shape: Shape | None = None) -> None:
        self.name = name
        self.directory = directory
        self.shape = shape or Shape()
        self.cluster_id = ""
        self._nodes: tuple[Node, ...] = ()
        self._ports = PortReservation()
        self._processes: dict[int, LeashedProcess] = {}
        self._archive: ClassArchive | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of all brokers, running or not."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)

    def operator_client(self) -> dict[str, object]:
        """What an admin client of librdkafka needs to do everything, also on a secured cluster."""
        ports = [self._probe_port(node.node_id) for node in self._nodes]
        settings: dict[str, object] = {"bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports)}
        if (files := self.shape.broker_files) is None:
            return settings
        return settings | {
            "security.protocol": "SSL",
            "ssl.ca.location": files.trusted,
            "ssl.certificate.location": files.identity,
            "ssl.key.location": files.identity,
        }

    def running(self) -> list[BrokerState]:
        """The brokers whose processes are alive."""
        return [
            BrokerState(
                cluster=self.name,
                broker=i,
                bootstrap=self.bootstrap,
                port=self._nodes[i].port,
                pid=process.pid,
                cluster_id=self.cluster_id,
                log=str(process.log),
                probe_port=self._probe_port(i),
                tls=self.shape.broker_files,
            )
            for i, process in sorted(self._processes.items())
            if process.alive
        ]

    def start(self) -> None:
        """Start all brokers; return when each of them reports that it sees all of them.

        Raises:
            MmtoolError: A broker ended or was not ready in time; the message holds the end of its log.
        """
        jars = classpath("broker", self.shape.version)
        self._settle()
        with ThreadPoolExecutor(self.shape.brokers) as pool:
            list(pool.map(lambda node: self._format(node, jars), self._nodes))
        try:
            for node in self._nodes:
                self._launch(node)
            self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop all brokers cleanly, together: one by one, the last of a quorum would wait for the others."""
        with ThreadPoolExecutor(self.shape.brokers) as pool:
            list(pool.map(self._end, list(self._processes)))
        self._forget()

    def kill(self) -> None:
        """Kill all brokers with SIGKILL."""
        for process in self._processes.values():
            process.kill()
        self._forget()

    def remove_data(self) -> None:
        """Delete the data and the identity of the stopped brokers; logs stay."""
        for node in self._nodes:
            shutil.rmtree(self._folder(node) / "data", ignore_errors=True)
        (self.directory / "cluster.json").unlink(missing_ok=True)

    def kill_broker(self, i: int) -> None:
        """Kill a broker with SIGKILL: as in a power cut, though the page cache survives."""
        self._processes.pop(i).kill()

    def stop_broker(self, i: int) -> None:
        """Stop a broker by a controlled shutdown, which moves its leaders first."""
        self._end(i)
        del self._processes[i]

    def start_broker(self, i: int) -> None:
        """Start a stopped broker with the same ports and data; return when all running brokers see each other."""
        self._launch(self._nodes[i])
        self.wait_ready()

    def pause_broker(self, i: int) -> None:
        """Suspend a broker with SIGSTOP: its connections stay open without an answer, as with a hung host."""
        self._processes[i].pause()

    def resume_broker(self, i: int) -> None:
        self._processes[i].resume()

    def wait_ready(self, timeout: float = READY_SECONDS) -> None:
        """Wait until every running broker answers a metadata request and lists all running brokers."""
        expected = frozenset(self._processes)
        deadline = time.monotonic() + timeout
        for i in sorted(expected):
            while not self._sees(i, expected):
                self._check_progress(i, deadline)
                time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _sees(self, i: int, expected: frozenset[int]) -> bool:
        view = ports.ask(self._probe_port(i), tls=self.shape.broker_files)
        if view is None or view.cluster_id != self.cluster_id:
            return False
        return expected <= {broker.node for broker in view.brokers}

    def _probe_port(self, i: int) -> int:
        node = self._nodes[i]
        return node.port if node.broker_port is None else node.broker_port

    def _check_progress(self, i: int, deadline: float) -> None:
        process = self._processes[i]
        if process.alive and time.monotonic() < deadline:
            return
        what, more = "ended at start", ""
        if process.alive:
            what, more = "was not ready in time", "; if this host is busy, run the same command again later"
        raise MmtoolError(
            process.with_log(f"broker {i} of cluster {self.name} {what}"),
            remedy=f"read the whole log: {process.log}{more}",
            code="broker",
        )

    def _settle(self) -> None:
        """Choose the cluster id and the ports: those of an earlier start in this directory, else new ones."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.shape.security is not None:
            self.directory.chmod(0o700)  # no authorizer guards the files, which hold records and users
        earlier = self._earlier()
        self._refuse_other_shape(earlier)
        self.cluster_id = str(earlier.get("cluster_id") or new_cluster_id())
        ports = self._reserve([port for own in earlier.get("ports", []) for port in own])
        self._nodes = tuple(Node(i, *own) for i, own in enumerate(ports))
        memory = {"cluster_id": self.cluster_id, "ports": ports, "secure": self._kind}
        (self.directory / "cluster.json").write_text(json.dumps(memory))

    def _refuse_other_shape(self, earlier: Mapping[str, Any]) -> None:
        """The quorum's members, the users and the rights are in the data: brokers are formatted with them."""
        if not earlier:
            return
        size, kind = len(earlier["ports"]), earlier.get("secure") or "none"
        if size != self.shape.brokers:
            self._refuse(f"of {counted(size, 'broker')}, not {self.shape.brokers}", f"--brokers {size}")
        if kind != self._kind:
            self._refuse(f"with --secure {kind}, not {self._kind}", f"--secure {kind}")

    def _refuse(self, held: str, option: str) -> NoReturn:
        raise UsageError(
            f"{self.directory} holds the data of a cluster {held}",
            remedy=f"to keep its data, use {option} or another --state-dir; to start with empty clusters, first run"
            f" {down_command(self.directory.parent)}",
        )

    @property
    def _kind(self) -> str:
        return "none" if self.shape.security is None else self.shape.security.kind.value

    def _earlier(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((self.directory / "cluster.json").read_text()))
        return {}

    def _reserve(self, known: Sequence[int]) -> list[tuple[int, ...]]:
        """The ports of each broker, in the order of `Node`."""
        each = 2 if self.shape.security is None else 3
        ports = [
            known[i] if i < len(known) and self._ports.keep(known[i]) else self._ports.take()
            for i in range(each * self.shape.brokers)
        ]
        return [tuple(ports[i : i + each]) for i in range(0, len(ports), each)]

    def _format(self, node: Node, jars: Sequence[Path]) -> None:
        folder = self._folder(node)
        folder.mkdir(exist_ok=True)
        settings = server_properties(
            node, self._nodes, folder / "data", self.shape.properties_of(node.node_id)
        )
        self._config(node).write_text(properties_text(settings))
        if (folder / "data" / "meta.properties").exists():
            return
        is_plain = self.shape.security is None and settings["log.dirs"] == str(folder / "data")
        shape = properties_text({"brokers": str(len(self._nodes)), **self.shape.properties})
        template = jars[0].parent / f"formatted-{hashlib.sha256(shape.encode()).hexdigest()[:12]}"
        if is_plain and template.exists():
            shutil.copytree(template, folder / "data")
            ids = {
                "node.id": str(node.node_id),
                "directory.id": new_cluster_id(),
                "cluster.id": self.cluster_id,
            }
            (folder / "data" / "meta.properties").write_text(properties_text({"version": "1", **ids}))
            return
        self._storage_tool(node, jars)
        if is_plain:
            _keep_template(folder / "data", template)

    def _storage_tool(self, node: Node, jars: Sequence[Path]) -> None:
        users = self._folder(node) / "users"  # passwords: a list of processes shows arguments, and no files
        arguments = [] if self.shape.security is None else self.shape.security.format_arguments()
        command = java_command(
            *(jars, "kafka.tools.StorageTool", "format"),
            *("-t", self.cluster_id, "-c", str(self._config(node)), *([f"@{users}"] if arguments else [])),
            jvm=(*JVM, *_LOGGING, *ClassArchive(jars[0].parent, jars).options()),
        )
        log = self._folder(node) / "format.log"
        write_private(users, "\n".join(arguments).encode())
        process = LeashedProcess(command, log)
        try:
            code = process.wait(READY_SECONDS)
        finally:
            users.unlink()
        if code != 0:
            raise MmtoolError(
                process.with_log(f"formatting broker {node.node_id} of cluster {self.name} failed"),
                remedy=f"read the whole log: {log}",
                code="broker",
            )

    def _launch(self, node: Node) -> None:
        jars = classpath("broker", self.shape.version)
        self._archive = self._archive or ClassArchive(jars[0].parent, jars)
        command = java_command(
            *(jars, "kafka.Kafka", str(self._config(node))),
            jvm=(*self.shape.jvm_options(), *_LOGGING, *self._archive.options(write=node.node_id == 0)),
        )
        self._processes[node.node_id] = LeashedProcess(command, self._folder(node) / "broker.log")

    def _end(self, i: int) -> None:
        """Stop a broker cleanly; broker 0 may leave an archive of its classes."""
        clean = self._processes[i].terminate()
        if i == 0 and clean and self._archive is not None:
            self._archive.adopt()

    def _forget(self) -> None:
        if self._archive is not None:
            self._archive.close()
        self._processes.clear()
        self._ports.release()

    def _folder(self, node: Node) -> Path:
        return self.directory / f"broker-{node.node_id}"

    def _config(self, node: Node) -> Path:
        return self._folder(node) / "server.properties"


def new_cluster_id() -> str:
    """A Kafka Uuid: 16 random bytes, URL-safe base64 without padding, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _keep_template(data: Path, template: Path) -> None:
    """Keep what Kafka's storage tool wrote, but for the ids: it starts a JVM, and writes the same for each broker."""
    with tempfile.TemporaryDirectory(dir=template.parent) as draft, contextlib.suppress(OSError):
        copy = template.parent / draft / "data"
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("meta.properties"))
        copy.rename(template)  # another process may have been first
