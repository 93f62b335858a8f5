"""Records that change on the way beside whole batches and beside MirrorMaker 2 without a transform, in turns.

    python benchmarks/transforms.py [--quick] [--repeat 3] [--json FILE]

JSON of 1 KB in 8 partitions. docs/benchmarks.md has the figures.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from busy import BUSY_CORES
from confluent_kafka import Producer
from copiers import MM2, MMTOOL, Turn, pids_of, properties_for
from gauges import Copied, Target
from options import in_turns
from workloads import PARTITIONS, warm_up

from mmtool.lab.cluster import JVM_FOR_SPEED, Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

RECORDS, TOPIC = 1_000_000, "documents"
WHOLE, UNSELECTED, IDENTITY, MASKED, THEIRS = "whole batches", "not selected", "identity", "mask_json", MM2
MASK = {"mmtool.transform": "mmtool.transforms:mask_json", "mmtool.transform.paths": "customer.email"}
SETTINGS = {
    WHOLE: {},
    UNSELECTED: {**MASK, "mmtool.transform.topics": "others"},
    IDENTITY: {"mmtool.transform": "identity:change"},
    MASKED: MASK,
    THEIRS: {},
}
_FILLER = {f"field-{number}": "x" * 20 for number in range(24)}


def fill(bootstrap: str, records: int) -> None:
    """Documents of about 1 KB, one of whose thirty fields is masked."""
    create_topic(bootstrap, TOPIC, PARTITIONS)
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1 << 18}
    producer = Producer({**settings, "queue.buffering.max.messages": 200_000})
    customer = {"name": "Ann", "email": "ann@example.com", "city": "Oslo"}
    text = json.dumps({"id": 0, "customer": customer, "total": 12.5, **_FILLER}).replace(
        '"id": 0', '"id": %d'
    )
    for number in range(records):
        producer.produce(TOPIC, text % number, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
        while len(producer) > 150_000:
            producer.poll(0.1)
    producer.flush()


def main() -> None:
    quick, repeat, file = in_turns(__doc__, "one turn of each, a third of the records")
    records = RECORDS // 3 if quick else RECORDS
    directory = Path(tempfile.mkdtemp(prefix="mmtool-bench-"))
    print(f"logs: {directory}")
    fleet = Fleet([Cluster(name, directory / name, Shape(jvm=JVM_FOR_SPEED)) for name in ("a", "b")])
    found: dict[str, list[Copied]] = {kind: [] for kind in SETTINGS}
    with fleet:
        target = Target(fleet["b"].bootstrap)
        warm_up(fleet["b"].bootstrap)
        target.remove_topics()
        fill(fleet["a"].bootstrap, records)
        for number in range(repeat):
            for kind in list(SETTINGS)[:: -1 if number % 2 else 1]:
                folder = directory / f"{number}-{kind.replace(' ', '-')}"
                folder.mkdir()
                lines = "".join(f"{key} = {value}\n" for key, value in SETTINGS[kind].items())
                for place in (folder, directory):  # beside the file that the copier reads
                    (place / "identity.py").write_text("def change(batches):\n    yield from batches\n")
                text = properties_for(fleet, TOPIC, "none", 50) + lines
                turn = Turn(target, f"a.{TOPIC}", pids_of(fleet))
                one = turn.run(MM2 if kind == THEIRS else MMTOOL, text, folder, records)
                found[kind].append(one)
                print(
                    f"  {kind:<14}{one.rate:>11,.0f} records/s{one.copier_cores:>6.2f} cores of the copier"
                    f"{one.brokers_cores:>6.2f} of the brokers{one.other_cores:>6.2f} of others",
                    flush=True,
                )
    fleet.remove_data()
    for kind, other in ((UNSELECTED, WHOLE), (IDENTITY, WHOLE), (MASKED, THEIRS)):
        ratios = [one.rate / two.rate for one, two in zip(found[kind], found[other], strict=True)]
        print(f"  {kind}, times as fast as {other}: {median(ratios):.2f} (median)")
    if any(one.other_cores > BUSY_CORES for copied in found.values() for one in copied):
        print("  other processes took part of the machine: compare turns of one round only")
    if file is not None:
        file.write_text(json.dumps(found, indent=1, default=asdict))


if __name__ == "__main__":
    main()
