"""Mirrors with the source's own offsets beside translated ones, in turns, and how fast a prefill is.

    python benchmarks/same_offsets.py [--quick] [--repeat 3] [--json FILE]

Each hole of the source costs a mirror with equal offsets round trips to the target: so topics with transactions are
mirrored over loopback, and to a target that is 10 ms away. docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from busy import BUSY_CORES
from copiers import MMTOOL, Turn, pids_of
from gauges import Copied, Target
from options import in_turns
from workloads import PARTITIONS, WORKLOADS, fill, warm_up

from kit.chaos.place import behind_a_link
from kit.far_starts import create_far
from kit.link import Link, LinkShape
from kit.load import Load, Transactions, produce
from mmtool.lab.cluster import JVM_FOR_SPEED, Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation
from mmtool.lab.topics import create_topic, end_offsets

KINDS = TRANSLATED, SAME = ("translated", "same")
TRANSACTIONS, TRANSACTION = "transactions", 20
TRANSACTIONAL_RECORDS = 80_000
FAR, FAR_OFFSETS = "far", 100_000_000
ROUND_TRIP_SECONDS = 0.01


class Bench:
    """Two clusters, the second of which is behind a link as well, and a folder for each turn."""

    def __init__(self, fleet: Fleet, linked: str, directory: Path) -> None:
        self.fleet = fleet
        self._linked = linked
        self._directory = directory
        self.target = Target(fleet["b"].bootstrap)
        self._number = 0

    def copy(self, kind: str, topic: str, offsets: int, *, linked: bool = False) -> Copied:
        """One ``replicate`` from its start until the target has so many offsets; it is emptied then."""
        self._number += 1
        lines = {
            "a->b.topics": topic,
            "a->b.emit.heartbeats.enabled": "false",
            "mmtool.offsets": kind,
            "mmtool.prefill.max.offsets": str(2 * FAR_OFFSETS),
            **({"b.bootstrap.servers": self._linked} if linked else {}),
        }
        folder = self._directory / f"{self._number:02}-{kind}"
        turn = Turn(self.target, f"a.{topic}", pids_of(self.fleet))
        return turn.run(MMTOOL, self.fleet.properties([("a", "b")], **lines), folder, offsets)

    def pairs(
        self, topic: str, records: int, repeat: int, *, linked: bool = False
    ) -> dict[str, list[Copied]]:
        """Both kinds in turns, each to the end of the topic."""
        offsets = sum(end_offsets(self.fleet["a"].bootstrap, topic).values())
        print(
            f"\n{topic}: {records:,} records, {(offsets - records) / PARTITIONS:,.0f} holes in each of {PARTITIONS}"
            f" partitions, {f'{ROUND_TRIP_SECONDS * 1000:.0f} ms to the target' if linked else 'loopback'}"
        )
        found: dict[str, list[Copied]] = {kind: [] for kind in KINDS}
        for number in range(repeat):
            for kind in KINDS[:: -1 if number % 2 else 1]:
                wanted = offsets if kind == SAME else records
                found[kind].append(one := self.copy(kind, topic, wanted, linked=linked))
                rate = one.rate * records / wanted
                print(
                    f"  {kind:<12}{rate:>11,.0f} records/s{one.copier_cores:>6.2f} cores of mmtool"
                    f"{one.brokers_cores:>6.2f} of the brokers{one.other_cores:>6.2f} of others",
                    flush=True,
                )
        self._sum_up(records / offsets, found)
        return found

    @staticmethod
    def _sum_up(share: float, found: dict[str, list[Copied]]) -> None:
        ratios = [
            same.rate * share / translated.rate
            for translated, same in zip(found[TRANSLATED], found[SAME], strict=True)
        ]
        print(f"  same, times as fast as translated: {median(ratios):.3f} (median)")
        if any(one.other_cores > BUSY_CORES for copied in found.values() for one in copied):
            print("  other processes took part of the machine: compare turns of one pair only")


def main() -> None:
    quick, repeat, file = in_turns(__doc__, "one turn of each, a third of the records")
    scale = 0.3 if quick else 1.0
    directory, ports = Path(tempfile.mkdtemp(prefix="mmtool-bench-")), PortReservation()
    print(f"logs: {directory}")
    behind, advertised = ports.take(), ports.take()
    shapes = {
        "a": Shape(jvm=JVM_FOR_SPEED),
        "b": Shape(properties=behind_a_link(behind, advertised), jvm=JVM_FOR_SPEED),
    }
    found: dict[str, Any] = {}
    fleet = Fleet([Cluster(name, directory / name, shape) for name, shape in shapes.items()])
    with fleet, Link(advertised, behind, LinkShape(ROUND_TRIP_SECONDS)):
        bench = Bench(fleet, f"127.0.0.1:{advertised}", directory)
        warm_up(fleet["b"].bootstrap)
        bench.target.remove_topics()
        for whole in WORKLOADS:
            workload = whole.scaled(scale)
            fill(fleet["a"].bootstrap, workload)
            found[workload.name] = bench.pairs(workload.topic, workload.records, repeat)
        records = int(TRANSACTIONAL_RECORDS * scale)
        create_topic(fleet["a"].bootstrap, TRANSACTIONS, PARTITIONS)
        how = Transactions("bench", TRANSACTION)
        produce(fleet["a"].bootstrap, Load(TRANSACTIONS, records, PARTITIONS, 200, transactions=how))
        for linked in (False, True):
            found[f"{TRANSACTIONS}, {linked=}"] = bench.pairs(TRANSACTIONS, records, repeat, linked=linked)
        found["prefill"] = _prefills(bench, int(FAR_OFFSETS * scale), repeat)
    ports.release()
    fleet.remove_data()
    if file is not None:
        file.write_text(json.dumps(found, indent=1, default=asdict))


def _prefills(bench: Bench, offsets: int, repeat: int) -> list[Copied]:
    """How fast the target's ends come to where the mirror begins."""
    each = offsets // PARTITIONS
    create_far(bench.fleet["a"].bootstrap, FAR, dict.fromkeys(range(PARTITIONS), each))
    print(f"\nprefill of {each:,} offsets in each of {PARTITIONS} partitions")
    found = []
    for _ in range(repeat):
        found.append(one := bench.copy(SAME, FAR, each * PARTITIONS))
        print(f"  {one.rate:>23,.0f} offsets/s{one.brokers_cores:>6.2f} cores of the brokers", flush=True)
    return found


if __name__ == "__main__":
    main()
