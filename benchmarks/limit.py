"""mmtool beside a bare relay that does nothing but fetch and produce: how close it is to what the brokers let through.

    python benchmarks/limit.py [--quick] [--repeat 3] [--json FILE]

Both copy the same topic between the same brokers, in turns (`kit.relay`). docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from busy import BUSY_CORES
from copiers import MMTOOL, RELAY, Turn, pids_of, properties_for
from gauges import Copied, Target
from options import in_turns
from workloads import Workload, fill, warm_up

from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet

_WANTED = 0.85
_WORKLOADS = (
    Workload("1 KB uncompressed", 1_000_000, 1000, "none"),
    Workload("100 B lz4", 6_000_000, 100, "lz4"),
    Workload("1 KB zstd", 2_000_000, 1000, "zstd"),
    Workload("1 KB uncompressed, one partition", 1_000_000, 1000, "none", partitions=1),
    Workload("1 KB uncompressed, 64 partitions", 1_000_000, 1000, "none", partitions=64),
)


def main() -> None:
    quick, repeat, file = in_turns(__doc__, "one turn of each, half the records")
    directory = Path(tempfile.mkdtemp(prefix="mmtool-bench-"))
    print(f"logs: {directory}")
    fleet = Fleet.of(
        directory, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED, properties={"log.segment.delete.delay.ms": "100"})
    )
    found: dict[str, dict[str, list[Copied]]] = {}
    with fleet:
        target = Target(fleet["b"].bootstrap)
        warm_up(fleet["b"].bootstrap)
        target.remove_topics()
        for whole in _WORKLOADS:
            workload = whole.scaled(0.5 if quick else 1.0)
            fill(fleet["a"].bootstrap, workload)
            print(f"\n{workload.name}: {workload.records:,} records in {workload.partitions} partitions")
            found[workload.name] = _turns(fleet, target, workload, directory, repeat)
    fleet.remove_data()
    if file is not None:
        file.write_text(json.dumps(found, indent=1, default=asdict))


def _turns(
    fleet: Fleet, target: Target, workload: Workload, directory: Path, repeat: int
) -> dict[str, list[Copied]]:
    properties = properties_for(fleet, workload.topic, workload.codec, linger_ms=20)
    turn = Turn(target, f"a.{workload.topic}", pids_of(fleet), partitions=workload.partitions)
    rows: dict[str, list[Copied]] = {RELAY: [], MMTOOL: []}
    for name in rows:  # brokers' JVMs compile what a new workload needs: these turns do not count
        turn.run(
            name, properties, directory / f"{workload.topic}-warm-up-{name.split()[0]}", workload.records
        )
    for number in range(repeat):
        for name in (RELAY, MMTOOL)[:: -1 if number % 2 else 1]:
            folder = directory / f"{workload.topic}-{number}-{name.split()[0]}"
            one = turn.run(name, properties, folder, workload.records)
            rows[name].append(one)
            print(one.row(name), flush=True)
    shares = [ours.rate / limit.rate for ours, limit in zip(rows[MMTOOL], rows[RELAY], strict=True)]
    of_it = f"{min(shares):.2f} to {max(shares):.2f}, median {median(shares):.2f} (wanted: {_WANTED})"
    print(f"  of the relay's rate: {of_it}")
    if any(one.other_cores > BUSY_CORES for copied in rows.values() for one in copied):
        print("  other processes took part of the machine: compare turns of one pair only")
    return rows


if __name__ == "__main__":
    main()
