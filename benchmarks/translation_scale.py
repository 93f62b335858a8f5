"""What translating costs where there is much of it: millions of runs, thousands of groups.

    python benchmarks/translation_scale.py [--quick] [--json FILE]

Runs in memory are measured in a process each (run_columns.py), groups on two real clusters, an emergency
failover of many as well (many_groups.py).
docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from busy import BUSY_CORES, Others
from many_groups import ManyGroups, Size
from options import parser_of

from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RUNS = 5_000_000
_PARTITIONS = 1_000
_DAYS = 30
_RUNS_PER_DAY = 24 * 60  # a transaction that ends every minute, and leaves a marker in each partition
_SEALED_BY_PUMPS = 1024  # runs in a block: mmtool.replication.pump.mirror
_TURNS = 3
_FULL = Size(groups=2_000, partitions=50, transactions=200)
_QUICK = Size(groups=400, partitions=50, transactions=40)
_QUICK_GROUPS = 1_000
_FAILED_OVER = {
    Size(groups=1_000, partitions=20, transactions=40): 20.0,
    Size(groups=5_000, partitions=6, transactions=40): 20.0,
    Size(groups=15_000, partitions=6, transactions=40): 60.0,
}
"""The sizes for which an emergency and its rollback are promised, and in how many seconds each."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        wanted: The bound, above it where ``at_least``; None where there is none.
        measured: In ``unit``; the worst of the turns.
        others: Cores that other processes took meanwhile, on average.
        note: What else is to be known of it.
    """

    name: str
    measured: float
    unit: str
    others: float
    wanted: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def bound(self) -> str:
        if self.wanted is None:
            return ""
        return f"{'above' if self.at_least else 'under'} {self.wanted:,.0f} {self.unit}"

    @property
    def verdict(self) -> str:
        if self.wanted is None:
            return ""
        held = self.measured > self.wanted if self.at_least else self.measured < self.wanted
        return "held" if held else "MISSED"


def main() -> None:
    parser = parser_of(__doc__, "fewer groups")
    parser.add_argument("--only", choices=("memory", "groups", "failover"), help="one part alone")
    parser.add_argument("--directory", type=Path, help="for the clusters' data and all logs")
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="mmtool-scale-"))
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    print(f"logs: {directory}\n\n{_line('', 'wanted', 'measured', '', 'others', '')}")
    figures: list[Figure] = []
    parts = {"memory": _in_memory, "groups": _on_brokers, "failover": _failing_over}
    for part, measure in parts.items():
        if given.only in (None, part):
            for figure in measure(directory, _QUICK if given.quick else _FULL):
                figures.append(figure)
                _show(figure)
    _summary(figures, time.monotonic() - began)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))


def _in_memory(directory: Path, _: Size) -> Iterator[Figure]:
    yield from _translating(_DAYS * _RUNS_PER_DAY)
    yield from _translating(_RUNS)
    yield from _loading(directory / "one.runs", f"{_RUNS:,} runs of one partition", 1, _RUNS, 4096, 1024)
    runs = _DAYS * _RUNS_PER_DAY
    what = f"{_DAYS} days x {_PARTITIONS:,} partitions"
    yield from _loading(directory / "month.runs", what, _PARTITIONS, runs, _SEALED_BY_PUMPS, None)


def _translating(runs: int) -> Iterator[Figure]:
    found, others = _child("translate", "--runs", str(runs))
    where = f"in a map of {runs:,} runs"
    yield Figure(f"translate_many {where}", found["column"], "offsets/s", others, 1e6, at_least=True)
    yield Figure(f"translate {where}", found["one_by_one"], "offsets/s", others, note="one at a time")


def _loading(
    file: Path, what: str, partitions: int, runs: int, block: int, most_mib: float | None
) -> Iterator[Figure]:
    """From the bytes of the topic to maps that answer; what the bytes themselves take is in the peak."""
    shape = ("--partitions", str(partitions), "--runs", str(runs), "--block", str(block))
    made, others = _child("encode", str(file), *shape)
    note = f"{made['runs'] / 1e6:,.1f} million runs, {made['bytes'] / 1e6:,.0f} MB in blocks of {block:,}"
    yield Figure(f"{what}, encoded", made["seconds"], "s", others, note=note)
    found, others = _child("load", str(file))
    file.unlink()
    yield Figure(f"{what}, loaded", found["seconds"], "s", others, 10, note="joined, and still encoded")
    peak = f"of it {found['before_mib']:.0f} the bytes as read, and the interpreter"
    yield Figure(f"{what}, peak memory", found["peak_mib"], "MiB", others, most_mib, note=peak)


def _child(*arguments: str) -> tuple[dict[str, float], float]:
    """What one measurement says, and how many cores others took meanwhile."""
    script = Path(__file__).with_name("run_columns.py")
    with Others() as took:
        ran = subprocess.run(
            [sys.executable, str(script), *arguments], check=True, capture_output=True, text=True
        )
    found: dict[str, float] = json.loads(ran.stdout)
    return found, took.cores


def _on_brokers(directory: Path, size: Size) -> Iterator[Figure]:
    fleet = Fleet.of(directory, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED))
    try:
        with fleet:
            yield from _groups(ManyGroups(fleet, directory, size), size)
    finally:
        fleet.remove_data()


def _groups(bench: ManyGroups, size: Size) -> Iterator[Figure]:
    runs = bench.prepare()
    what = f"{size.groups:,} groups x {size.partitions} partitions"
    translated, written = (5.0, 60.0) if size == _FULL else (None, None)
    note = f"{size.offsets:,} offsets from {runs:,} runs"
    yield _turns(f"{what}, translated", bench.translated, translated, note)
    yield _turns(f"{what}, rehearsed", bench.rehearsed, None, "the whole process, rows as JSON included")
    note = "the whole process: translated, committed, read back"
    yield _turns(f"{what}, written", bench.written, written, note)


def _failing_over(directory: Path, of: Size) -> Iterator[Figure]:
    """The source hangs: whoever asked it something would wait."""
    for size, wanted in _FAILED_OVER.items():
        if of == _FULL or size.groups <= _QUICK_GROUPS:
            yield from _failing_over_one(directory / f"failover-{size.groups}", size, wanted)


def _failing_over_one(directory: Path, size: Size, wanted: float) -> Iterator[Figure]:
    fleet = Fleet.of(directory, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED))
    try:
        with fleet:
            bench = ManyGroups(fleet, directory, size)
            bench.prepare()
            bench.told()
            turns = [bench.failed_over() for _ in range(_TURNS)]
    finally:
        fleet.remove_data()
    slowest, _, steps = max(turns, key=lambda turn: turn[0].seconds)
    where = ", ".join(f"{name} {seconds:.1f}" for name, seconds in steps.items())
    rest = slowest.seconds - sum(steps.values())
    what = f"{size.groups:,} groups x {size.partitions} partitions"
    note = f"the whole process; {where}; start, plan and rows {rest:.1f} s"
    yield _turns(f"{what}, emergency", iter([took for took, _, _ in turns]).__next__, wanted, note)
    undone = iter([took for _, took, _ in turns]).__next__
    yield _turns(f"{what}, its rollback", undone, wanted, "the whole process")


def _turns(name: str, measure: Callable[[], Others], wanted: float | None, note: str) -> Figure:
    took = [measure() for _ in range(_TURNS)]
    said = ", ".join(f"{one.seconds:.1f}" for one in took)
    others = sum(one.cores for one in took) / len(took)
    worst = max(one.seconds for one in took)
    return Figure(name, worst, "s", others, wanted, note=f"{note}; turns: {said} s")


def _show(figure: Figure) -> None:
    number = f"{figure.measured:,.1f}" if figure.measured < 100 else f"{figure.measured:,.0f}"
    measured = f"{number} {figure.unit}"
    others = f"{figure.others:.2f}"
    print(_line(figure.name, figure.bound, measured, figure.verdict, others, figure.note), flush=True)


def _line(name: str, wanted: str, measured: str, verdict: str, others: str, note: str) -> str:
    return f"{name:<46}{wanted:>26}{measured:>22} {verdict:<7}{others:>7}  {note}".rstrip()


def _summary(figures: list[Figure], seconds: float) -> None:
    print("\nothers: cores that other processes took meanwhile; time is the worst of the turns")
    if any(figure.others > BUSY_CORES for figure in figures):
        print("other processes took part of the machine: the times are longer than the code's own")
    print(f"{seconds:.0f} s in all")


if __name__ == "__main__":
    main()
