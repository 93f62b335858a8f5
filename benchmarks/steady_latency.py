"""End-to-end latency beside MirrorMaker 2 over ten minutes, with rounds that turn over, and what makes records slow.

    python benchmarks/steady_latency.py [--quick] [--minutes 10] [--rate 500 5000] [--json FILE]

Both copiers run in turn on the same brokers, which have run before; what comes in a warm-up does not count. A second
consumer reads the source: a record that is late there as well was late before any copier saw it. docs/benchmarks.md
tells more.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from copiers import MM2, MMTOOL, pids_of, properties_for, start
from gauges import Target, cpu_seconds, tree_of
from latency import Latency, observe
from options import parser_of
from workloads import PARTITIONS

from kit.load import Load, produce
from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

_WARM_UP_SECONDS = 30.0
_ROUND_SECONDS = 60
_EDGES_MS = (0, 1, 2, 5, 10, 20, 50, 100, float("inf"))
_BEFORE, _ROUND, _REST = "before the copier", "round turns over", "copier and target"
_AROUND_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Steady:
    """One copier at one rate.

    Attributes:
        source: Until the record was consumed on the source itself.
        target: Until it was consumed on the target.
        first_record: Seconds from the start of the process to the first record on the target.
        cores: CPU seconds per second, of the copier and of the brokers.
        causes: Of records above 1 ms, how many, by bucket (ms, its lower edge) and cause.
    """

    name: str
    rate: int
    source: Latency
    target: Latency
    first_record: float
    cores: tuple[float, float]
    causes: dict[str, dict[str, int]]

    def show(self) -> None:
        ours, there = self.target, self.source
        copier, brokers = self.cores
        print(
            f"  {self.name:<15}p50 {ours.p50:6.2f}  p99 {ours.p99:6.2f}  p99.9 {ours.p999:7.2f} ms"
            f"   on the source p50 {there.p50:5.2f}  p99 {there.p99:6.2f} ms"
            f"   cores {copier:.2f}, brokers {brokers:.2f}   first record after {self.first_record:.1f} s"
        )
        for bucket, by_cause in self.causes.items():
            print(f"      {bucket:<12}" + "".join(f"{cause}: {n:,}   " for cause, n in by_cause.items()))
        print(end="", flush=True)


def main() -> None:
    parser = parser_of(__doc__, "two minutes of each")
    parser.add_argument("--minutes", type=float, help="of each copier at each rate (10)")
    parser.add_argument("--rate", type=int, nargs="+", default=[500, 5000], help="records per second")
    given = parser.parse_args()
    os.environ["MMTOOL_LOG_FORMAT"] = "json"
    seconds = 60 * (given.minutes or (2 if given.quick else 10))
    directory = Path(tempfile.mkdtemp(prefix="mmtool-latency-"))
    print(f"logs: {directory}")
    with Fleet.of(directory, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED)) as fleet:
        found = _all(fleet, directory, given.rate, seconds)
    fleet.remove_data()
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1))


def _all(fleet: Fleet, directory: Path, rates: Sequence[int], seconds: float) -> list[Steady]:
    found = []
    for rate in rates:
        print(f"\n{rate:,} records/s for {seconds / 60:g} minutes after {_WARM_UP_SECONDS:.0f} s of warm-up")
        for name in (MM2, MMTOOL):
            found.append(_one(fleet, directory / f"{rate}-{name.split()[0]}", name, rate, seconds))
            found[-1].show()
    return found


def _one(fleet: Fleet, directory: Path, name: str, rate: int, seconds: float) -> Steady:
    a, b = fleet["a"].bootstrap, fleet["b"].bootstrap
    topic = f"bench-{directory.name.lower()}"
    create_topic(a, topic, PARTITIONS)
    properties = properties_for(fleet, topic, "none", linger_ms=0)
    properties += f"\nmmtool.round.seconds = {_ROUND_SECONDS}\n"
    produce(a, Load(topic, 10, PARTITIONS, record_bytes=100))
    copier = start(name, properties, directory)
    target, places = Target(b), [(a, topic), (b, f"a.{topic}")]
    try:
        while not target.records(places[1][1], PARTITIONS):
            time.sleep(0.05)
        first_record = time.monotonic() - copier.started
        before, began = _cpu(copier.pid, pids_of(fleet)), time.monotonic()
        source, mirrored = observe(a, topic, places, rate, _WARM_UP_SECONDS + seconds)
        spent = np.subtract(_cpu(copier.pid, pids_of(fleet)), before) / (time.monotonic() - began)
    finally:
        copier.stop()
        target.remove_topics()
    begin = began + _WARM_UP_SECONDS
    (sent, took), (_, there) = (_after(begin, *one) for one in (source, mirrored))
    turns = _turns(directory / "mmtool.log") if name == MMTOOL else np.zeros((0, 2))
    causes = _causes(_after(begin, *mirrored), (sent, took), turns)
    cores = float(spent[0]), float(spent[1])
    return Steady(name, rate, Latency.of(took), Latency.of(there), first_record, cores, causes)


def _cpu(copier: int, brokers: Sequence[int]) -> tuple[float, float]:
    return cpu_seconds(tree_of(copier)), cpu_seconds(brokers)


def _after(begin: float, sent: np.ndarray, took: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return sent[sent >= begin], took[sent >= begin]


def _turns(log: Path) -> np.ndarray:
    """From the end of each round to the start of the next one, in seconds of the monotonic clock."""
    to_monotonic = time.monotonic() - time.time()
    at: dict[str, list[float]] = {"round_ended": [], "round_started": []}
    for line in log.read_text().splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") in at:
            at[event["event"]].append(datetime.fromisoformat(event["timestamp"]).timestamp() + to_monotonic)
    return np.array(list(zip(at["round_ended"], at["round_started"][1:], strict=False))).reshape(-1, 2)


def _causes(
    mirrored: tuple[np.ndarray, np.ndarray], source: tuple[np.ndarray, np.ndarray], turns: np.ndarray
) -> dict[str, dict[str, int]]:
    """Slow records by how slow they are and by what most of their time went on."""
    sent, took = mirrored
    order = np.argsort(source[0])
    known = np.clip(np.searchsorted(source[0][order], sent), 0, len(order) - 1)
    before = source[1][order][known]
    in_turn = np.zeros(len(sent), dtype=np.bool_)
    for ended, started in turns:
        in_turn |= (sent > ended - _AROUND_SECONDS) & (sent < started + _AROUND_SECONDS)
    is_before = before > took / 2
    cause = np.where(is_before, _BEFORE, np.where(in_turn, _ROUND, _REST))
    found = {}
    for low, high in pairwise(_EDGES_MS[1:]):
        of_bucket = cause[(took >= low) & (took < high)]
        names, counts = np.unique(of_bucket, return_counts=True)
        found[f"from {low:g} ms"] = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return found


if __name__ == "__main__":
    main()
