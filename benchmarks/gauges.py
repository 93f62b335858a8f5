"""Looking at a copier from outside: how the target grows, and what the copier's processes cost."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

SAMPLE_SECONDS = 0.05
_PATIENCE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Sample:
    """``records`` on the target at ``at`` (monotonic seconds); CPU seconds spent until then, also by all else."""

    at: float
    records: int
    copier_cpu: float
    brokers_cpu: float
    machine_cpu: float


@dataclass(frozen=True, slots=True)
class Copied:
    """One copier's way through one workload.

    Attributes:
        first_record: Seconds from the start of the process to the first record on the target.
        rate: Records per second between 10 % and 90 % of the records.
        copier_cores, brokers_cores, other_cores: CPU seconds per second in that stretch; other processes
            that take some slow down the copier that needs more of it.
        cpu: CPU seconds of the copier's processes from their start to the last record.
        pump_mib: Peak resident memory of the largest process that moves records.
        all_mib: The same of all processes of the copier, added up.
    """

    records: int
    first_record: float
    rate: float
    copier_cores: float
    brokers_cores: float
    other_cores: float
    cpu: float
    pump_mib: float
    all_mib: float

    @property
    def cpu_per_record(self) -> float:
        """The copier's CPU microseconds per record, in the same stretch."""
        return self.copier_cores / self.rate * 1e6

    def row(self, name: str) -> str:
        """The figures of a turn in one line, behind its name."""
        return (
            f"  {name:<12}{self.rate:>11,.0f} records/s{self.cpu_per_record:>8.3f} us/record"
            f"{self.brokers_cores:>6.2f} cores of the brokers{self.other_cores:>6.2f} of others"
        )


class Target:
    """The end offsets of the target's topics, over one connection."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "client.id": "mmtool-bench", "log_level": 2}
        )
        self._known: set[str] = set()

    def records(self, topic: str, partitions: int) -> int:
        """The sum of the end offsets; 0 while the topic does not exist."""
        if (
            topic not in self._known
        ):  # asked for itself: the client remembers for long that a topic is unknown
            self._known = set(self._admin.list_topics(timeout=10).topics)
            if topic not in self._known:
                return 0
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        try:
            return sum(answer.result(10).offset for answer in self._admin.list_offsets(wanted).values())
        except KafkaException:
            return 0

    def remove_topics(self) -> None:
        """Everything that a copier made, its own state included: the next one starts from nothing."""
        self._known.clear()
        names = [name for name in self._admin.list_topics(timeout=10).topics if not name.startswith("__")]
        if names:
            for answer in self._admin.delete_topics(names).values():
                answer.result(30)
        while any(not name.startswith("__") for name in self._admin.list_topics(timeout=10).topics):
            time.sleep(0.1)


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes and all their children, ended ones included."""
    return sum(_of_alive(pids, lambda process: sum(process.cpu_times()[:4])))


def tree_of(pid: int) -> list[int]:
    """A process and everything below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []


def peak_mib(pids: Iterable[int]) -> list[float]:
    """The most resident memory that each process ever had, largest first."""
    return sorted((peak / 2**20 for peak in _of_alive(pids, _peak_bytes)), reverse=True)


def python_workers_of(pids: Iterable[int]) -> list[int]:
    """Spark's Python workers among the processes, with the daemon that forks them."""
    named = _of_alive(pids, lambda process: (process.pid, " ".join(process.cmdline())))
    return [pid for pid, words in named if "pyspark.daemon" in words]


def pumps_of(pids: Iterable[int]) -> list[int]:
    """Of a copier's processes, those that move records: Spark's Python workers, or else the JVM."""
    known = list(pids)
    return python_workers_of(known) or _of_alive(known, lambda process: process.pid)


def watch(
    target: Target,
    topic: str,
    partitions: int,
    wanted: int,
    *,
    pid: int,
    started: float,
    brokers: Sequence[int],
) -> Copied:
    """Follow the topic until ``wanted`` records are there.

    Raises:
        TimeoutError: It does not grow to that in three minutes.
        ChildProcessError: The copier ended.
    """
    samples: list[Sample] = []
    while not samples or samples[-1].records < wanted:
        if time.monotonic() - started > _PATIENCE_SECONDS:
            raise TimeoutError(f"{topic}: {samples[-1].records if samples else 0} of {wanted} records")
        if not _of_alive([pid], lambda process: process.pid):
            raise ChildProcessError(f"the copier of {topic} ended: see its log")
        samples.append(_sample(target, topic, partitions, pid, brokers))
        time.sleep(SAMPLE_SECONDS)
    return _copied(samples, wanted, pid, started)


def _sample(target: Target, topic: str, partitions: int, pid: int, brokers: Sequence[int]) -> Sample:
    before = time.monotonic()
    records = target.records(topic, partitions)
    at = (before + time.monotonic()) / 2
    return Sample(at, records, cpu_seconds(tree_of(pid)), cpu_seconds(brokers), machine_cpu())


def machine_cpu() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "irq", 0.0) + getattr(times, "softirq", 0.0))


def _copied(samples: Sequence[Sample], wanted: int, pid: int, started: float) -> Copied:
    low, high = _crossing(samples, 0.1 * wanted), _crossing(samples, 0.9 * wanted)
    seconds = high.at - low.at
    copier = (high.copier_cpu - low.copier_cpu) / seconds
    brokers = (high.brokers_cpu - low.brokers_cpu) / seconds
    tree = tree_of(pid)
    return Copied(
        records=samples[-1].records,
        first_record=next(sample.at for sample in samples if sample.records) - started,
        rate=0.8 * wanted / seconds,
        copier_cores=copier,
        brokers_cores=brokers,
        other_cores=max((high.machine_cpu - low.machine_cpu) / seconds - copier - brokers, 0.0),
        cpu=samples[-1].copier_cpu,
        pump_mib=peak_mib(pumps_of(tree))[0],
        all_mib=sum(peak_mib(tree)),
    )


def _crossing(samples: Sequence[Sample], records: float) -> Sample:
    """When so many records were there, on a straight line between the samples around it."""
    after = next(i for i, sample in enumerate(samples) if sample.records >= records)
    if after == 0:
        return samples[0]
    a, b = samples[after - 1], samples[after]
    share = (records - a.records) / (b.records - a.records)
    return Sample(
        a.at + share * (b.at - a.at),
        int(records),
        a.copier_cpu + share * (b.copier_cpu - a.copier_cpu),
        a.brokers_cpu + share * (b.brokers_cpu - a.brokers_cpu),
        a.machine_cpu + share * (b.machine_cpu - a.machine_cpu),
    )


def _of_alive(pids: Iterable[int], of: Callable[[psutil.Process], T]) -> list[T]:
    """What ``of`` says of each process; one that ends meanwhile is left out."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(of(process))
    return found


def _peak_bytes(process: psutil.Process) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return int(process.memory_info().rss)
