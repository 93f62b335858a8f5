"""``mmtool verify`` beside ``mmtool replicate``: the same records, the same brokers, each command to its end.

    python benchmarks/verify_beside_replicate.py [--quick] [--repeat 3] [--json FILE]

Each turn mirrors a topic of 8 partitions into an empty target and compares both sides then. Seconds are those of the
whole command, Spark's start included; ``verify`` reads every record of both sides. docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from busy import BUSY_CORES, Others
from copiers import pids_of, properties_for
from gauges import Target
from options import in_turns
from workloads import PARTITIONS, Workload, fill, warm_up

from kit.processes import run_mmtool
from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKLOADS = (
    Workload("100 B lz4", 10_000_000, 100, "lz4", 1.0),
    Workload("1 KB uncompressed", 1_000_000, 1000, "none", 1.0),
)
"""``wanted``: how many times the rate of replicate is promised."""
_LINGER_MS = 20
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One command to its end: ``others`` are the cores that other processes took meanwhile."""

    seconds: float
    others: float


class Bench:
    """Two clusters, and a folder for each command."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self._fleet = fleet
        self._directory = directory
        self._target = Target(fleet["b"].bootstrap)
        self._number = 0

    def prepare(self) -> None:
        warm_up(self._fleet["b"].bootstrap)
        self._target.remove_topics()

    def turns(self, workload: Workload, repeat: int) -> dict[str, list[Turn]]:
        """Both commands, one after the other, so many times."""
        fill(self._fleet["a"].bootstrap, workload)
        properties = self._directory / f"{workload.topic}.properties"
        properties.write_text(properties_for(self._fleet, workload.topic, workload.codec, _LINGER_MS))
        found: dict[str, list[Turn]] = {"replicate": [], "verify": []}
        for _ in range(repeat):
            found["replicate"].append(self._run("replicate", properties, "--until-caught-up"))
            found["verify"].append(self._verified(properties, workload))
            self._target.remove_topics()
        return found

    def _verified(self, properties: Path, workload: Workload) -> Turn:
        options = ("-o", "json", "--topic", workload.topic)  # heartbeats are mirrored as well
        return self._run("verify", properties, *options, compared=workload.records)

    def _run(self, command: str, properties: Path, *options: str, compared: int = 0) -> Turn:
        self._number += 1
        folder = self._directory / f"{self._number:02}-{command}"
        with Others(pids_of(self._fleet)) as others:
            answer = run_mmtool(folder, command, "-c", str(properties), *options, timeout=_SECONDS)
        if answer.code:
            raise RuntimeError(f"{command} ended with {answer.code}:\n{answer.stderr}")
        if compared and sum(int(str(row["records_compared"])) for row in answer.rows) != compared:
            raise RuntimeError(f"{command} compared other records than {compared:,}:\n{answer.stdout}")
        turn = Turn(answer.seconds, others.cores)
        print(f"  {command:<12}{turn.seconds:>8.1f} s{turn.others:>10.2f} cores taken by others", flush=True)
        return turn


def main() -> None:
    quick, repeat, file = in_turns(__doc__, "one turn, 30 %% of the records")
    directory = Path(tempfile.mkdtemp(prefix="mmtool-bench-"))
    shape = Shape(jvm=JVM_FOR_SPEED, properties={"log.segment.delete.delay.ms": "100"})
    fleet = Fleet.of(directory, "a", "b", shape=shape)
    found: dict[str, dict[str, list[Turn]]] = {}
    print(f"logs: {directory}")
    with fleet:
        bench = Bench(fleet, directory)
        bench.prepare()
        for whole in WORKLOADS:
            workload = whole.scaled(0.3 if quick else 1.0)
            print(f"\n{workload.records:,} records of {workload.name} in {PARTITIONS} partitions")
            found[workload.name] = bench.turns(workload, repeat)
            _summary(workload, found[workload.name])
    fleet.remove_data()
    if file is not None:
        file.write_text(json.dumps(found, indent=1, default=asdict))


def _summary(workload: Workload, rows: dict[str, list[Turn]]) -> None:
    for command, turns in rows.items():
        rates = [workload.records / turn.seconds for turn in turns]
        print(f"  {command}, records/s: {_three(rates)}")
    ratios = [
        mirrored.seconds / compared.seconds
        for mirrored, compared in zip(rows["replicate"], rows["verify"], strict=True)
    ]
    print(
        f"  times as fast as replicate: {min(ratios):.2f} to {max(ratios):.2f} (wanted: {workload.wanted:g})"
    )
    if any(turn.others > BUSY_CORES for turns in rows.values() for turn in turns):
        print("  other processes took part of the machine: compare turns of one pair only")


def _three(figures: Sequence[float]) -> str:
    return f"min {min(figures):,.0f}, median {median(figures):,.0f}, max {max(figures):,.0f}"


if __name__ == "__main__":
    main()
