"""How the stored state of a flow grows with the markers of its source, and what reading it costs then.

    python benchmarks/growth.py [--quick] [--only hour|day] [--minutes 60] [--json FILE]

hour: 50 partitions that get a transaction marker every 100 ms, mirrored by a real ``replicate``. day: the offset runs
of 24 hours of the same, made by simulation and stored in a real topic. Each reader runs in its own process
(growth_readers.py). docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from gauges import cpu_seconds, peak_mib, python_workers_of, tree_of
from options import parser_of
from run_columns import chain_of, marked_runs
from watched import MIRROR_ONCE, first_record, ran

from kit.load import Load, Transactions, produce
from kit.lookups import commit
from kit.processes import MmtoolProcess
from kit.runs import ORDERS
from mmtool.config import ClusterSettings
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.state.own_log import internal_topics
from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.recorder import OPEN_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmtool.lab.cluster import Cluster

_PARTITIONS = 50
_MARKERS_PER_SECOND = 10
_TOPIC = "growth"
_READERS = ("start", "maps", "watch")
_SAMPLES = 6


@dataclass(frozen=True, slots=True)
class Reading:
    """One reader of the stored state, in its own process.

    Attributes:
        seconds: Of the read alone, with everything imported.
        again: Of a second read by the same reader, where it keeps what it has read; else None.
        translation_ms: One commit in each partition, translated; None for readers that translate nothing.
        heap_mib: Peak memory less that of the interpreter before the read.
        runs: How many runs it knows.
    """

    seconds: float
    again: float | None
    translation_ms: float | None
    heap_mib: float
    runs: int


@dataclass(frozen=True, slots=True)
class State:
    """The stored state of a flow and all its readers.

    Attributes:
        markers: Transaction markers on the source, of all partitions.
        disk_bytes: The offset-runs topic on the target's disk.
    """

    name: str
    markers: int
    disk_bytes: int
    readers: dict[str, Reading]

    def show(self) -> None:
        print(
            f"\n{self.name}: {self.markers:,} markers, {self.disk_bytes / 1e6:,.1f} MB on the target's disk"
        )
        print(f"  {'reader':<20}{'runs':>12}{'read':>10}{'again':>10}{'translate':>12}{'heap':>12}")
        for name, one in self.readers.items():
            again = "" if one.again is None else f"{one.again:.2f} s"
            answer = "" if one.translation_ms is None else f"{one.translation_ms:.1f} ms"
            print(
                f"  {name:<20}{one.runs:>12,}{one.seconds:>8.2f} s{again:>10}{answer:>12}{one.heap_mib:>8.0f} MiB",
                flush=True,
            )


def main() -> None:
    parser = parser_of(__doc__, "two minutes, and two simulated hours")
    parser.add_argument("--only", choices=("hour", "day"), help="one part alone")
    parser.add_argument("--minutes", type=float, help="of the real part (60)")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mmtool-growth-"))
    print(f"logs: {directory}")
    found: list[object] = []
    if given.only in (None, "day"):
        found += [asdict(state) for state in _day(directory / "day", [2] if given.quick else [1, 6, 24])]
    if given.only in (None, "hour"):
        found.append(_hour(directory / "hour", (given.minutes or (2 if given.quick else 60)) * 60))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))


def _day(directory: Path, hours: Sequence[int]) -> Iterator[State]:
    """The blocks of so many hours, each in a topic as mmtool creates it."""
    with Fleet.of(directory, "b", shape=Shape(jvm=JVM_FOR_SPEED)) as fleet:
        for number in hours:
            identity = FlowIdentity(ORDERS.source_cluster_id, ORDERS.target_cluster_id, f"h{number}", "b")
            _store(fleet["b"], identity, number * 3600 * _MARKERS_PER_SECOND)
            state = _state(f"{number} h by simulation", fleet["b"], identity)
            state.show()
            yield state
    fleet.remove_data()


def _store(cluster: Cluster, identity: FlowIdentity, runs: int) -> None:
    topics = {topic.name: topic for topic in internal_topics(identity, 1)}
    runs_topic = topics[identity.runs_topic]
    TopicAdmin(ClusterSettings(alias="b", bootstrap_servers=cluster.bootstrap)).create_internal([runs_topic])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "acks": "all"})
    for number in range(_PARTITIONS):
        about = replace(ORDERS, partition=number, source_topic=_TOPIC)
        for block in chain_of(about, marked_runs(runs, seed=number), OPEN_RUNS):
            where = number % runs_topic.partitions
            producer.produce(identity.runs_topic, encode_block(block), encode_key(block.key), partition=where)
            producer.poll(0)
    producer.flush(60)


def _hour(directory: Path, seconds: float) -> dict[str, object]:
    """Markers in real time, a real ``replicate``, and its state at several times and at the end."""
    directory.mkdir(parents=True)
    with Fleet.of(directory, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED)) as fleet:
        a, b = fleet["a"], fleet["b"]
        properties = directory / "growth.properties"
        properties.write_text(fleet.properties([("a", "b")], **{"a->b.topics": _TOPIC}))
        identity = FlowIdentity(a.cluster_id, b.cluster_id, "a", "b")
        create_topic(a.bootstrap, _TOPIC, _PARTITIONS)
        writer = threading.Thread(target=produce, args=(a.bootstrap, _load(seconds)), daemon=True)
        started = time.monotonic()
        writer.start()
        samples: list[dict[str, float]] = []
        with MmtoolProcess(directory / "replicate", "replicate", "-c", str(properties)) as process:
            for number in range(_SAMPLES):
                time.sleep(max(0.0, started + seconds * (number + 1) / _SAMPLES - time.monotonic()))
                samples.append(_sample(process, b, identity, time.monotonic() - started))
            writer.join()
            state = _state(f"{seconds / 60:g} minutes in real time", b, identity, a)
            process.stop()
        state.show()
        start, command = _commands(directory, properties, a)
        print(f"  a start: first record after {start:.1f} s; translate-offsets of one group: {command:.1f} s")
    fleet.remove_data()
    return {**asdict(state), "samples": samples, "start_seconds": start, "translate_offsets_seconds": command}


def _load(seconds: float) -> Load:
    """A transaction over all partitions every 100 ms."""
    rate = _PARTITIONS * _MARKERS_PER_SECOND
    together = Transactions("growth-writer", _PARTITIONS)
    return Load(
        _TOPIC, int(rate * seconds), _PARTITIONS, record_bytes=100, codec="none", linger_ms=1.0,
        records_per_second=rate, transactions=together,
    )  # fmt: skip


def _sample(process: MmtoolProcess, target: Cluster, identity: FlowIdentity, at: float) -> dict[str, float]:
    tree = tree_of(process.pid)
    worker = python_workers_of(tree)
    found = {
        "at_seconds": at,
        "disk_mb": _on_disk(target, identity) / 1e6,
        "worker_mib": max(peak_mib(worker), default=0.0),  # none has started yet
        "all_mib": sum(peak_mib(tree)),
        "cpu_seconds": cpu_seconds(tree),
    }
    print("  " + ", ".join(f"{name} {value:,.1f}" for name, value in found.items()), flush=True)
    return found


def _commands(directory: Path, properties: Path, source: Cluster) -> tuple[float, float]:
    """Seconds until a new start has mirrored a record, and of a whole ``translate-offsets``."""
    ends = end_offsets(source.bootstrap, _TOPIC)
    commit(source.bootstrap, "growth", _TOPIC, *(ends[number] // 2 for number in sorted(ends)))
    produce(source.bootstrap, Load(_TOPIC, 500, _PARTITIONS, record_bytes=100))
    again, _ = ran(directory, properties, *MIRROR_ONCE)
    group, _ = ran(directory, properties, "translate-offsets", "--group", "growth")
    return first_record(again), group.seconds


def _state(name: str, target: Cluster, identity: FlowIdentity, source: Cluster | None = None) -> State:
    readers = {reader: _read(reader, target, identity) for reader in _READERS}
    markers = readers["maps"].runs
    if source is not None:
        records = sum(end_offsets(target.bootstrap, f"a.{_TOPIC}").values())
        markers = sum(end_offsets(source.bootstrap, _TOPIC).values()) - records
    return State(name, markers, _on_disk(target, identity), readers)


def _read(reader: str, target: Cluster, identity: FlowIdentity) -> Reading:
    script = Path(__file__).with_name("growth_readers.py")
    words = (reader, target.bootstrap, *(identity.source_id, identity.target_id, identity.source_alias))
    ran = subprocess.run([sys.executable, str(script), *words], check=True, capture_output=True, text=True)
    return Reading(**json.loads(ran.stdout))


def _on_disk(target: Cluster, identity: FlowIdentity) -> int:
    logs = target.directory.glob(f"**/{identity.runs_topic}-*/*.log")
    return sum(log.stat().st_size for log in logs)


if __name__ == "__main__":
    main()
