"""What is copied: two topics that real ones lie between, filled once and read by every copier in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kit.load import Load, produce
from mmtool.lab.topics import create_topic

PARTITIONS = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """``records`` of ``record_bytes`` each; ``wanted`` is how many times MirrorMaker 2's rate is promised, or 0."""

    name: str
    records: int
    record_bytes: int
    codec: str
    wanted: float = 0
    partitions: int = PARTITIONS

    @property
    def topic(self) -> str:
        return f"bench-{self.record_bytes}-{self.codec}-{self.partitions}"

    def scaled(self, share: float) -> Workload:
        return replace(self, records=int(self.records * share))


WORKLOADS = (
    Workload("1 KB uncompressed", 1_000_000, 1000, "none", 2.0),
    Workload("100 B lz4", 3_000_000, 100, "lz4", 6.0),
)


def fill(bootstrap: str, workload: Workload) -> float:
    """Create the topic and write it; seconds."""
    create_topic(bootstrap, workload.topic, workload.partitions)
    return produce(bootstrap, _load(workload, workload.records)).seconds


def warm_up(bootstrap: str) -> None:
    """Let a broker's JVM compile what producing needs, so that the first copier does not pay for the rest."""
    for workload in WORKLOADS:
        create_topic(bootstrap, workload.topic, workload.partitions)
        produce(bootstrap, _load(workload, 200_000))


def _load(workload: Workload, records: int) -> Load:
    return Load(
        workload.topic,
        records,
        workload.partitions,
        record_bytes=workload.record_bytes,
        codec=workload.codec,
        linger_ms=50.0,
    )
