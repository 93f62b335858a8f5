"""A cluster of before KRaft, of one broker, whose topics may have no ids: what many a migration begins with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from mmtool.lab import ports
from mmtool.lab.artifacts import classpath
from mmtool.lab.ports import PortReservation
from mmtool.lab.process import LeashedProcess, java_command

if TYPE_CHECKING:
    from pathlib import Path

_READY_SECONDS, _POLL_SECONDS = 60.0, 0.2
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_ONE_OF_EACH = (
    "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
    "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
    "transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
)


class ZooKeeperCluster:
    """ZooKeeper and one broker, of a Kafka before 4.0; started again as another one, it is upgraded at once."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory, self._ports = directory, PortReservation()
        self._port, self._keeper_port = self._ports.take(), self._ports.take()
        self._running: list[LeashedProcess] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self, version: str) -> None:
        """As a broker of ``version``; returns when it answers."""
        keeper = f"dataDir={self._directory / 'keeper'}\nclientPort={self._keeper_port}\n"
        keeper += "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        broker = f"broker.id=0\nlisteners=PLAINTEXT://{self.bootstrap}\nlog.dirs={self._directory / 'logs'}\n"
        broker += f"zookeeper.connect=127.0.0.1:{self._keeper_port}\n{_ONE_OF_EACH}"
        self._launch(version, "org.apache.zookeeper.server.quorum.QuorumPeerMain", keeper)
        self._launch(version, "kafka.Kafka", broker)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Cleanly, the broker first."""
        while self._running:
            self._running.pop().terminate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._ports.release()

    def _launch(self, version: str, main_class: str, properties: str) -> None:
        file = self._directory / f"{main_class}.properties"
        file.write_text(properties)
        command = java_command(classpath("broker", version), main_class, str(file), jvm=_JVM)
        self._running.append(LeashedProcess(command, file.with_suffix(".log")))

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while (view := ports.ask(self._port)) is None or not view.brokers:
            assert time.monotonic() < deadline, self._running[-1].log_tail()
            time.sleep(_POLL_SECONDS)
