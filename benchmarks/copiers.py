"""The copiers, each as its users start it, from the same properties file; and the bare relay."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gauges import Copied, Target, watch
from workloads import PARTITIONS

from kit.real_mirror_maker import MirrorMaker
from mmtool.lab.process import LeashedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmtool.lab.fleet import Fleet

MM2 = "MirrorMaker 2"
MMTOOL = "mmtool"
RELAY = "bare relay"

_HEAP = ("-Xms256m", "-Xmx2g")  # what Kafka's own connect-mirror-maker.sh gives it

# What tuning guides ask for: large batches, several requests in flight, large fetches.
_TUNING = {
    "tasks.max": "4",
    # emptied with the target: of offset syncs on the source, mmtool would conclude that MirrorMaker 2 may still run
    "a->b.offset-syncs.topic.location": "target",
    "a.consumer.max.poll.records": "5000",
    "a.consumer.max.partition.fetch.bytes": str(4 << 20),
    "a.consumer.fetch.max.bytes": str(64 << 20),
    "a.consumer.receive.buffer.bytes": str(2 << 20),
    "a->b.producer.override.batch.size": str(256 << 10),
    "a->b.producer.override.buffer.memory": str(64 << 20),
    "a->b.producer.override.max.request.size": str(8 << 20),
    "a->b.producer.override.send.buffer.bytes": str(2 << 20),
    "a->b.producer.override.enable.idempotence": "true",
    "a->b.producer.override.max.in.flight.requests.per.connection": "5",
}


class Copier(Protocol):
    """One running copy process and its children."""

    started: float  # monotonic seconds

    @property
    def pid(self) -> int: ...

    def stop(self) -> None: ...


def properties_for(fleet: Fleet, topic: str, codec: str, linger_ms: int) -> str:
    """The flow a->b of one topic, tuned for MirrorMaker 2; mmtool needs none of it and reads the same file."""
    return fleet.properties(
        [("a", "b")],
        **_TUNING,
        **{
            "a->b.topics": topic,
            "a->b.producer.override.linger.ms": str(linger_ms),
            "a->b.producer.override.compression.type": codec,
        },
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """One copier's turn: from its start until every record of a workload is on the target, which is emptied then.

    Attributes:
        target: Of the cluster that it writes to.
        topic: The mirror.
        brokers: The pids of all brokers, whose CPU is measured as well.
        beside: Entered with the copier's pid while it copies.
        partitions: Of the topic.
    """

    target: Target
    topic: str
    brokers: Sequence[int]
    beside: Callable[[int], AbstractContextManager[None]] = nullcontext  # type: ignore[assignment]  # takes any value
    partitions: int = PARTITIONS

    def run(self, name: str, properties: str, directory: Path, records: int) -> Copied:
        """Start the copier of that name, wait for so many records, and stop it; raises as `watch`."""
        copier = start(name, properties, directory, self.partitions)
        try:
            with self.beside(copier.pid):
                return watch(
                    self.target,
                    self.topic,
                    self.partitions,
                    records,
                    pid=copier.pid,
                    started=copier.started,
                    brokers=self.brokers,
                )
        finally:
            copier.stop()
            self.target.remove_topics()


def pids_of(fleet: Fleet) -> list[int]:
    """The processes of all brokers."""
    return [broker.pid for cluster in fleet for broker in cluster.running()]


def start(name: str, properties: str, directory: Path, partitions: int = PARTITIONS) -> Copier:
    """The copier of that name, on its way."""
    if name == RELAY:
        return _relay(properties, directory, partitions)
    return _Mm2(properties, directory) if name == MM2 else _mmtool(properties, directory)


class _Mm2:
    def __init__(self, properties: str, directory: Path) -> None:
        self.started = time.monotonic()
        self._mirror = MirrorMaker(properties, directory, jvm=_HEAP)
        self._mirror.start()

    @property
    def pid(self) -> int:
        return self._mirror.pid

    def stop(self) -> None:
        self._mirror.stop()


class _Command:
    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.started = time.monotonic()
        self._process = LeashedProcess([sys.executable, *command], log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.terminate(30)


def _mmtool(properties: str, directory: Path) -> Copier:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "connect-mirror-maker.properties"
    file.write_text(properties)
    return _Command(["-m", "mmtool", "replicate", "-c", str(file)], directory / "mmtool.log")


def _relay(properties: str, directory: Path, partitions: int) -> Copier:
    directory.mkdir(parents=True, exist_ok=True)
    settings = dict(line.split("=", 1) for line in properties.splitlines() if "=" in line)
    found = {key.strip(): value.strip() for key, value in settings.items()}
    topic = found["a->b.topics"]
    clusters = [found[f"{name}.bootstrap.servers"] for name in "ab"]
    command = ["-m", "kit.relay", *clusters, topic, f"a.{topic}", str(partitions)]
    return _Command(command, directory / "relay.log")
