"""Records that a group reads again after a failover: by MirrorMaker 2's answers and by mmtool's.

    python benchmarks/rereads.py [--records 200000] [--rate 8000] [--lags 0,100,1600,65000] [--json FILE]

The real MirrorMaker 2 mirrors a to b while the records are written. Then groups commit on a, each at its lag behind the
end; when MirrorMaker 2 has written a checkpoint of every one of these commits it is killed, as with its region. What
each answer makes a group read again is counted in the records themselves. docs/concepts/re-reads.md tells more.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kit.load import Load, Transactions, produce
from kit.lookups import groups_of
from kit.mm2_truth import Sighted, copied_partitions
from kit.processes import run_mmtool
from kit.real_mirror_maker import MirrorMaker
from mmtool.config import load_settings
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.lab.artifacts import MIRROR_MAKER_VERSION
from mmtool.lab.cluster import JVM_FOR_SPEED, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kit.mm2_truth import CopiedPartition
    from mmtool.translation.sync_map import OffsetPair

PLAIN, TRANSACTIONAL = TOPICS = ("rereads-plain", "rereads-transactional")
_RECORDS_PER_TRANSACTION, _ABORT_EVERY = 100, 20
_PATIENCE_SECONDS = 120.0
_QUIET_SECONDS = 3.0

# MirrorMaker 2 as it comes, but for how often it looks at the groups: their checkpoints are young, new ones are seen.
_MM2 = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "a.consumer.isolation.level": "read_committed",  # its default would copy aborted records as well
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for: how many records in each topic, how many a second, which lags."""

    records: int
    rate: float
    lags: Sequence[int]


@dataclass(frozen=True, slots=True)
class Standing:
    """A group of the source: its one commit, and how far that is behind the end (offsets)."""

    topic: str
    lag: int
    commit: int

    @property
    def group(self) -> str:
        return f"{self.topic}-{self.lag}"

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)


@dataclass(frozen=True, slots=True)
class Line:
    """How many records a group reads again, by who tells it where to go on.

    Attributes:
        mm2: MirrorMaker 2's last checkpoint.
        age_seconds: From that checkpoint to the kill.
        by_syncs: mmtool, by MirrorMaker 2's topics; ``reread_max`` is the bound that it prints.
        by_records: mmtool, by the records of both logs (``--refine``), which needs the source.
        by_runs: mmtool, by the offset runs of its own mirror.
    """

    topic: str
    lag: int
    mm2: int
    age_seconds: float
    by_syncs: int
    reread_max: int
    by_records: int
    by_runs: int


@dataclass(slots=True)
class Results:
    """All of a run; ``written`` says how each topic was."""

    written: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)


class Stage:
    """Cluster a, which is written to; b, which MirrorMaker 2 mirrors it to; c, which mmtool mirrors it to."""

    def __init__(self, fleet: Fleet, directory: Path, options: Options) -> None:
        self._fleet = fleet
        self._directory = directory
        self._options = options
        self._by_mm2 = self._properties("b", _MM2)
        self._by_mmtool = self._properties("c", {})

    def _properties(self, target: str, extra: Mapping[str, str]) -> Path:
        """A file with two clusters: MirrorMaker 2 would send heartbeats to a third one as well."""
        path = self._directory / f"a-to-{target}.properties"
        pair = Fleet([self._fleet["a"], self._fleet[target]])
        path.write_text(pair.properties(**{f"a->{target}.topics": "rereads-.*", **extra}))
        return path

    def run(self) -> Results:
        """Written, mirrored, committed, killed, translated.

        Raises:
            AssertionError: An answer skips a record.
        """
        results = Results()
        for topic in TOPICS:
            create_topic(self._fleet["a"].bootstrap, topic)
        with MirrorMaker(self._by_mm2.read_text(), self._directory / "mirror-maker") as mm2:
            mm2.wait_until(self._is_mirroring, "the mirrored topics", _PATIENCE_SECONDS)
            wanted = self._write(results)
            mm2.wait_until(lambda: self._ends("b") == wanted, "the end of the mirror", _PATIENCE_SECONDS)
            groups = self._commit()
            mm2.wait_until(lambda: self._told_of(groups), "a checkpoint of every group", _PATIENCE_SECONDS)
            time.sleep(_QUIET_SECONDS)  # a later one may know better
            mm2.kill()
            killed_ms = time.time() * 1000
        self._mmtool("replicate", "--until-caught-up", "-c", str(self._by_mmtool))
        results.lines = self._judged(groups, killed_ms)
        return results

    def _is_mirroring(self) -> bool:
        return all(end_offsets(self._fleet["b"].bootstrap, f"a.{topic}") for topic in TOPICS)

    def _ends(self, target: str) -> dict[str, int]:
        return {topic: end_offsets(self._fleet[target].bootstrap, f"a.{topic}")[0] for topic in TOPICS}

    def _write(self, results: Results) -> dict[str, int]:
        """Both topics at once, while they are mirrored; how many records of each are to be copied."""
        count, rate = self._options.records, self._options.rate
        how = Transactions("rereads-writer", _RECORDS_PER_TRANSACTION, _ABORT_EVERY)
        loads = [
            Load(PLAIN, count, record_bytes=100, records_per_second=rate),
            Load(TRANSACTIONAL, count, record_bytes=100, records_per_second=rate, transactions=how),
        ]
        with ThreadPoolExecutor(len(loads)) as pool:
            written = list(pool.map(lambda load: produce(self._fleet["a"].bootstrap, load), loads))
        for load, loaded in zip(loads, written, strict=True):
            speed = f"{load.count / loaded.seconds:,.0f} records/s"
            results.written[load.topic] = f"{load.count:,} records in {loaded.seconds:.0f} s, {speed}"
            print(f"{load.topic}: {results.written[load.topic]}", flush=True)
        return {load.topic: count - len(loaded.aborted) for load, loaded in zip(loads, written, strict=True)}

    def _commit(self) -> list[Standing]:
        a = self._fleet["a"].bootstrap
        ends = {topic: end_offsets(a, topic)[0] for topic in TOPICS}
        found = [Standing(topic, lag, ends[topic] - lag) for topic in TOPICS for lag in self._options.lags]
        groups = groups_of(a)
        for one in found:
            assert groups.alter(one.group, {one.place: Commit(one.commit)}) == {}
        return found

    def _told_of(self, groups: Sequence[Standing]) -> bool:
        held = self._checkpoints()
        told = [held.get(one.group, {}).get(one.place) for one in groups]
        return [pair and pair.upstream for pair in told] == [one.commit for one in groups]

    def _checkpoints(self) -> Mapping[str, Mapping[TopicPartition, OffsetPair]]:
        (flow,) = load_settings(self._by_mm2, {}).select("a", "b")
        return Mm2Topics(flow).checkpoints().checkpoints

    def _judged(self, groups: Sequence[Standing], killed_ms: float) -> list[Line]:
        checkpoints = self._checkpoints()
        syncs = self._translated(self._by_mm2, groups, {"offset_syncs"})
        records = self._translated(self._by_mm2, groups, {"offset_syncs", "records"}, "--refine")
        runs = self._translated(self._by_mmtool, groups, {"offset_runs"})
        on_b, on_c = self._truth("b"), self._truth("c")
        lines = []
        for one in groups:
            checkpoint = checkpoints[one.group][one.place]
            by_syncs, by_records, by_runs = (told[one.group] for told in (syncs, records, runs))
            lines.append(
                Line(
                    one.topic,
                    one.lag,
                    _read_again(on_b, one, checkpoint.downstream),
                    (killed_ms - checkpoint.timestamp_ms) / 1000,
                    _read_again(on_b, one, by_syncs["downstream_offset"]),
                    by_syncs["reread_max"],
                    _read_again(on_b, one, by_records["downstream_offset"]),
                    _read_again(on_c, one, by_runs["downstream_offset"]),
                )
            )
        return lines

    def _translated(
        self, properties: Path, groups: Sequence[Standing], knowledge: set[str], *options: str
    ) -> dict[str, dict[str, int]]:
        """The rows of ``translate-offsets``, by group; none told by anything else."""
        selected = [word for one in groups for word in ("-g", one.group)]
        rows = self._mmtool("translate-offsets", *options, *selected, "-o", "json", "-c", str(properties))
        found = {str(row["group"]): row for row in rows if row["downstream_offset"] is not None}
        assert {row["knowledge"] for row in found.values()} <= knowledge, rows
        return found

    def _truth(self, target: str) -> Mapping[tuple[str, int], CopiedPartition]:
        names = {topic: f"a.{topic}" for topic in TOPICS}
        here = Sighted(self._fleet["a"], TOPICS).look()
        return copied_partitions(here, Sighted(self._fleet[target], names.values()).look(), names)

    def _mmtool(self, *command: str) -> list[dict[str, int]]:
        answer = run_mmtool(self._directory / "mmtool", *command)
        assert answer.code == 0, answer.stderr
        return json.loads(answer.stdout)["data"] if "json" in command else []


def _read_again(truth: Mapping[tuple[str, int], CopiedPartition], one: Standing, offset: int) -> int:
    partition = truth[one.place]
    assert partition.skipped(one.commit, offset) == [], (one, offset)
    return partition.read_again(one.commit, offset)


def main() -> None:
    options, kept, file = _options()
    directory = kept or Path(tempfile.mkdtemp(prefix="mmtool-rereads-"))
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    print(f"logs: {directory}")
    fleet = Fleet.of(directory, "a", "b", "c", shape=Shape(jvm=JVM_FOR_SPEED))
    try:
        with fleet:
            results = Stage(fleet, directory, options).run()
    finally:
        fleet.remove_data()
    for topic in TOPICS:
        _show(topic, results)
    print(f"\n{time.monotonic() - began:.0f} s in all")
    if file is not None:
        file.write_text(json.dumps(asdict(results), indent=1))


def _options() -> tuple[Options, Path | None, Path | None]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000, help="in each of the two topics")
    parser.add_argument("--rate", type=float, default=8_000.0, help="records a second into each")
    parser.add_argument("--lags", default="0,100,1600,65000", help="offsets behind the end, one group each")
    parser.add_argument("--directory", type=Path, help="for the clusters' data and all logs")
    parser.add_argument("--json", type=Path, help="write every figure there")
    given = parser.parse_args()
    lags = [int(lag) for lag in given.lags.split(",")]
    return Options(given.records, given.rate, lags), given.directory, given.json


def _show(topic: str, results: Results) -> None:
    print(f"\n{topic.removeprefix('rereads-')}: {results.written[topic]}\n")
    heads = (
        "lag of the group",
        f"MirrorMaker 2 {MIRROR_MAKER_VERSION}",
        "age of its checkpoint",
        "mmtool, by MirrorMaker 2's topics",
        "(its bound)",
        "with `--refine`",
        "mmtool, its own mirror",
    )
    print(f"| {' | '.join(heads)} |\n|{' ---: |' * len(heads)}")
    for line in results.lines:
        if line.topic == topic:
            age = f"{line.age_seconds:.1f} s"
            cells = (line.lag, line.mm2, age, line.by_syncs, line.reread_max, line.by_records, line.by_runs)
            print(f"| {' | '.join(c if isinstance(c, str) else f'{c:,}' for c in cells)} |")


if __name__ == "__main__":
    main()
