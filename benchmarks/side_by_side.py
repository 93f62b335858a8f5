"""mmtool beside the real MirrorMaker 2, in one run, on the same brokers, from the same properties file.

    python benchmarks/side_by_side.py [--quick] [--repeat 3] [--json FILE]

Each workload fills a topic of cluster a once. Then the copiers take turns, each as a fresh process with an
emptied target, and the target's end offsets tell how fast the records arrive. docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from busy import BUSY_CORES
from copiers import MM2, MMTOOL, Turn, pids_of, properties_for, start
from gauges import Copied, Target
from latency import Latency, measure
from options import parser_of
from workloads import PARTITIONS, WORKLOADS, Workload, fill, warm_up

from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LATENCY_TOPIC = "bench-latency"
_LINGER_MS = 20  # MirrorMaker 2's producer: full batches where throughput counts, none where latency does
_SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    repeat: int
    share: float
    seconds: float
    latency_seconds: float
    copiers: Sequence[str]
    workloads: Sequence[Workload]


@dataclass(slots=True)
class Results:
    """Everything measured: by workload name and copier name, in the order of the repetitions."""

    copied: dict[str, dict[str, list[Copied]]] = field(default_factory=dict)
    latency: dict[str, Latency] = field(default_factory=dict)


class Bench:
    """Two clusters and a place for the copiers' files."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self._fleet = fleet
        self._directory = directory
        self._target = Target(fleet["b"].bootstrap)
        self._number = 0

    def prepare(self) -> None:
        warm_up(self._fleet["b"].bootstrap)
        self._target.remove_topics()

    def fill(self, workload: Workload) -> None:
        seconds = fill(self._fleet["a"].bootstrap, workload)
        print(f"\n{workload.name}: {workload.records:,} records in {PARTITIONS} partitions ({seconds:.0f} s)")

    def copy(self, name: str, workload: Workload) -> Copied:
        """One copier, from its start until every record is on the target; then both are stopped and wiped."""
        properties = properties_for(self._fleet, workload.topic, workload.codec, _LINGER_MS)
        turn = Turn(self._target, f"a.{workload.topic}", pids_of(self._fleet))
        return turn.run(name, properties, self._next_directory(name), workload.records)

    def latency(self, name: str, seconds: float) -> Latency:
        """One copier at 500 records per second."""
        a, b = self._fleet["a"].bootstrap, self._fleet["b"].bootstrap
        properties = properties_for(self._fleet, _LATENCY_TOPIC, "none", linger_ms=0)
        copier = start(name, properties, self._next_directory(name))
        try:
            self._until_mirrored(copier.started)
            return measure(a, _LATENCY_TOPIC, b, f"a.{_LATENCY_TOPIC}", seconds)
        finally:
            copier.stop()
            self._target.remove_topics()

    def rig_latency(self, seconds: float) -> Latency:
        """The same producer and consumer with nothing between them: both on the source."""
        a = self._fleet["a"].bootstrap
        create_topic(a, _LATENCY_TOPIC, PARTITIONS)
        return measure(a, _LATENCY_TOPIC, a, _LATENCY_TOPIC, seconds)

    def _until_mirrored(self, started: float) -> None:
        source = Target(self._fleet["a"].bootstrap).records(_LATENCY_TOPIC, PARTITIONS)
        while self._target.records(f"a.{_LATENCY_TOPIC}", PARTITIONS) < source:
            if time.monotonic() - started > 120:
                raise TimeoutError("nothing is mirrored")
            time.sleep(0.1)
        time.sleep(_SETTLE_SECONDS)

    def _next_directory(self, name: str) -> Path:
        self._number += 1
        return self._directory / f"{self._number:02}-{name.lower().replace(' ', '-')}"


def main() -> None:
    options, kept, file = _options()
    directory = kept or Path(tempfile.mkdtemp(prefix="mmtool-bench-"))
    began = time.monotonic()
    # deleted topics go at once: the next copier finds the disk as this one did
    shape = Shape(jvm=JVM_FOR_SPEED, properties={"log.segment.delete.delay.ms": "100"})
    fleet = Fleet.of(directory, "a", "b", shape=shape)
    print(f"logs: {directory}")
    with fleet:
        results = _run(Bench(fleet, directory), options)
    fleet.remove_data()
    _summary(results, options)
    print(f"\n{time.monotonic() - began:.0f} s in all")
    if file is not None:
        file.write_text(json.dumps(asdict(results), indent=1))


def _options() -> tuple[Options, Path | None, Path | None]:
    parser = parser_of(__doc__, "one turn each, half the records, under 3 minutes")
    parser.add_argument("--repeat", type=int, help="turns of each copier (3)")
    parser.add_argument("--only", choices=(MM2, MMTOOL), help="one copier alone")
    parser.add_argument("--workload", choices=[w.name for w in WORKLOADS], help="one workload alone")
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--directory", type=Path, help="for the clusters' data and all logs")
    given = parser.parse_args()
    options = Options(
        repeat=given.repeat or (1 if given.quick else 3),
        share=0.5 if given.quick else 1.0,
        seconds=100.0 if given.quick else 330.0,
        latency_seconds=0.0 if given.no_latency else (5.0 if given.quick else 15.0),
        copiers=(given.only,) if given.only else (MM2, MMTOOL),
        workloads=[w for w in WORKLOADS if given.workload in (None, w.name)],
    )
    return options, given.directory, given.json


def _run(bench: Bench, options: Options) -> Results:
    results = Results()
    began = time.monotonic()
    bench.prepare()
    for number, workload in enumerate(options.workloads, 1):
        until = began + options.seconds * number / len(options.workloads)
        results.copied[workload.name] = _turns(bench, workload.scaled(options.share), options, until)
    if options.latency_seconds:
        results.latency["producer and consumer alone"] = bench.rig_latency(options.latency_seconds)
        for name in options.copiers:
            results.latency[name] = bench.latency(name, options.latency_seconds)
    return results


def _turns(bench: Bench, workload: Workload, options: Options, until: float) -> dict[str, list[Copied]]:
    """The copiers in turn; once ``until`` has passed, no further turn begins."""
    bench.fill(workload)
    rows: dict[str, list[Copied]] = {name: [] for name in options.copiers}
    _head()
    for turn in range(options.repeat):
        if turn and time.monotonic() > until:
            print(f"  time is up after {turn} of {options.repeat} turns")
            break
        for name in options.copiers[:: -1 if turn % 2 else 1]:
            rows[name].append(bench.copy(name, workload))
            _row(name, rows[name][-1])
    return rows


def _head() -> None:
    print(
        f"  {'copier':<14}{'records/s':>11}{'us/record':>11}{'first record':>14}{'CPU':>8}"
        f"{'cores: copier':>15}{'brokers':>9}{'others':>8}{'RSS: worker':>12}{'all':>7}"
    )


def _row(name: str, one: Copied) -> None:
    print(
        f"  {name:<14}{one.rate:>11,.0f}{one.cpu_per_record:>11.3f}{one.first_record:>12.1f} s{one.cpu:>6.1f} s"
        f"{one.copier_cores:>15.2f}{one.brokers_cores:>9.2f}{one.other_cores:>8.2f}"
        f"{one.pump_mib:>8.0f} MiB{one.all_mib:>7.0f}",
        flush=True,
    )


def _summary(results: Results, options: Options) -> None:
    for workload in options.workloads:
        rows = results.copied[workload.name]
        print(f"\n{workload.name:<30} {'min':>10} {'median':>10} {'max':>10}")
        for name, copied in rows.items():
            _line(f"{name}, records/s", [one.rate for one in copied], "{:,.0f}".format)
            _line(f"{name}, first record, s", [one.first_record for one in copied], "{:.1f}".format)
            _line(f"{name}, CPU us/record", [one.cpu_per_record for one in copied], "{:.3f}".format)
        if len(rows) > 1:
            pairs = list(zip(rows[MMTOOL], rows[MM2], strict=True))
            ratios = [ours.rate / theirs.rate for ours, theirs in pairs]
            savings = [theirs.cpu_per_record / ours.cpu_per_record for ours, theirs in pairs]
            _line(f"times as fast (wanted: {workload.wanted:g})", ratios, "{:.2f}".format)
            _line("times less CPU", savings, "{:.1f}".format)
        if any(one.other_cores > BUSY_CORES for copied in rows.values() for one in copied):
            print("other processes took part of the machine: believe the CPU per record, not the rates")
    if results.latency:
        print(f"\n{'end to end at 500 records/s, ms':<30} {'p50':>10} {'p99':>10}")
    for name, took in results.latency.items():
        print(f"{name:<30} {took.p50:>10.2f} {took.p99:>10.2f}")


def _line(what: str, values: Sequence[float], text: Callable[[float], str]) -> None:
    low, middle, high = (text(of(values)) for of in (min, median, max))
    print(f"{what:<30} {low:>10} {middle:>10} {high:>10}")


if __name__ == "__main__":
    main()
