"""How starting, translating and failing over grow with the number of partitions and groups.

    python benchmarks/sizes.py [--quick] [--only partitions|groups] [--json FILE]

plots.py draws what is in FILE. docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from many_groups import ManyGroups, Size
from options import parser_of
from watched import MIRROR_ONCE, first_record, ran

from kit.load import Load, produce
from kit.lookups import commit
from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Row = dict[str, float]

_PARTITIONS = (1, 10, 100, 1_000, 5_000)
_GROUPS = (1, 100, 1_000, 5_000, 15_000)
_PARTITIONS_OF_GROUPS = 6
_TRANSACTIONS = 40
_RECORDS = 500  # of a partition
MIB = "MiB"


def main() -> None:
    parser = parser_of(__doc__, "up to 100 partitions and 1,000 groups")
    parser.add_argument("--only", choices=("partitions", "groups"), help="one part alone")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mmtool-sizes-"))
    print(f"logs: {directory}")
    found: dict[str, list[Row]] = {}
    parts = {"partitions": (_of_partitions, _PARTITIONS), "groups": (_of_groups, _GROUPS)}
    for name, (measure, sizes) in parts.items():
        if given.only in (None, name):
            rows = measure(directory, sizes[:3] if given.quick else sizes)
            found[name] = [_shown(name, row) for row in rows]
            print("  slope of the last two: " + _words(slopes(name, found[name])))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))


def _shown(name: str, row: Row) -> Row:
    print(f"  {row[name]:>7,.0f} {name}: " + _words(row), flush=True)
    return row


def _words(row: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.2f}" for name, value in row.items())


def slopes(name: str, rows: Sequence[Row]) -> Row:
    """Of each figure, how much of it each further partition or group takes: in ms, or in KiB."""
    before, last = rows[-2:]
    more = last[name] - before[name]
    return {
        f"{figure}, {'KiB' if MIB in figure else 'ms'} each": (last[figure] - before[figure])
        / more
        * (1024 if MIB in figure else 1000)
        for figure in last
        if figure != name
    }


# --- partitions -------------------------------------------------------------------------------------------


def _of_partitions(directory: Path, sizes: Sequence[int]) -> Iterator[Row]:
    for count in sizes:
        where = directory / f"partitions-{count}"
        with Fleet.of(where, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED)) as fleet:
            yield _partitions(fleet, where, count)
        fleet.remove_data()


def _partitions(fleet: Fleet, directory: Path, count: int) -> Row:
    """The first start creates the topic on the target; the second one finds all partitions mirrored."""
    source, topic = fleet["a"].bootstrap, "sizes"
    properties = directory / "sizes.properties"
    properties.write_text(fleet.properties([("a", "b")], **{"a->b.topics": topic}))
    create_topic(source, topic, count)
    load = Load(topic, _RECORDS * count, count, record_bytes=100)
    produce(source, load)
    first, _ = ran(directory, properties, *MIRROR_ONCE)
    produce(source, load)
    again, peak = ran(directory, properties, *MIRROR_ONCE)
    commit(source, "sizes", topic, *[5] * count)
    translated, _ = ran(directory, properties, "translate-offsets", "--group", "sizes", "-o", "json")
    status, _ = ran(directory, properties, "status", "-o", "json")
    return {
        "partitions": count,
        "first start: first record, s": first_record(first),
        "second start: first record, s": first_record(again),
        "translate-offsets of a group, s": translated.seconds,
        "status, s": status.seconds,
        "replicate, peak MiB": peak,
    }


# --- groups -----------------------------------------------------------------------------------------------


def _of_groups(directory: Path, sizes: Sequence[int]) -> Iterator[Row]:
    for count in sizes:
        where = directory / f"groups-{count}"
        with Fleet.of(where, "a", "b", shape=Shape(jvm=JVM_FOR_SPEED)) as fleet:
            yield _groups(ManyGroups(fleet, where, Size(count, _PARTITIONS_OF_GROUPS, _TRANSACTIONS)), count)
        fleet.remove_data()


def _groups(bench: ManyGroups, count: int) -> Row:
    bench.prepare()
    bench.told()
    read = bench.translated()
    shown, shown_mib = bench.shown()
    emergency, rollback, _ = bench.failed_over()
    return {
        "groups": count,
        "read and translate, s": read.seconds,
        "status --groups, s": shown.seconds,
        "emergency failover, s": emergency.seconds,
        "its rollback, s": rollback.seconds,
        "status --groups, peak MiB": shown_mib,
        "emergency failover, peak MiB": bench.emergency_mib,
    }


if __name__ == "__main__":
    main()
