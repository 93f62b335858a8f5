"""One measurement of offset runs in memory, in a process of its own, so that its peak memory is its own.

    python benchmarks/run_columns.py encode FILE --partitions 1000 --runs 43200 --block 1024
    python benchmarks/run_columns.py load FILE
    python benchmarks/run_columns.py translate --runs 43200

One JSON object on stdout. FILE holds the records of an offset-runs topic, keys and values as they are in Kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gauges import peak_mib

from kit.runs import ORDERS
from mmtool.kafka.state.log_reader import LogRecord
from mmtool.kafka.state.state_log import maps_of
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import TargetLog
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.blocks import (
    Block,
    Follows,
    MirroredTo,
    MirrorStart,
    SeenOffset,
    Tail,
    WriterState,
)
from mmtool.translation.columns import Answers
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.runs import RunMap
from mmtool.translation.translate import translate, translate_many
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.translation.blocks import MirroredPartition

_LENGTHS = struct.Struct(">II")
_FLOW = FlowIdentity(ORDERS.source_cluster_id, ORDERS.target_cluster_id, "east", "west")
_START = MirrorStart(UpstreamOffset(0), DownstreamOffset(0))
_NOW_MS = 1_780_000_000_000
_RECORDS = 3_000  # of a transaction, on average: 50 a second for a minute
_FEW_RECORDS = 10
_ABORTED = 0.02  # of the transactions
_COMMITS = 1_000_000
_ONE_BY_ONE = 100_000
_BLOCK = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("encode", "load", "translate"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--runs", type=int, default=43_200, help="of each partition")
    parser.add_argument("--block", type=int, default=_BLOCK, help="runs in a sealed block")
    given = parser.parse_args()
    if given.what == "encode":
        found = _encode(given.file, given.partitions, given.runs, given.block)
    elif given.what == "load":
        found = _load(given.file)
    else:
        found = _translate(given.runs)
    print(json.dumps(found))


def _encode(file: Path, partitions: int, runs: int, size: int) -> dict[str, float]:
    """Seconds in which all blocks become bytes, once each, and how many bytes those are."""
    seconds, octets = 0.0, 0
    with file.open("wb") as out:
        for number in range(partitions):
            about = replace(ORDERS, partition=number)
            chain = list(chain_of(about, _runs(runs, seed=number), size))
            began = time.perf_counter()
            records = [(encode_key(block.key), encode_block(block)) for block in chain]
            seconds += time.perf_counter() - began
            for key, value in records:
                octets += out.write(_LENGTHS.pack(len(key), len(value)) + key + value)
    return {"runs": partitions * runs, "seconds": seconds, "bytes": octets}


def _runs(number: int, seed: int) -> RunMap:
    """A transactional partition: the marker of each transaction is a hole, an aborted one before it a larger one."""
    chance = np.random.default_rng(seed)
    counts = chance.integers(1, 2 * _RECORDS, number)
    holes = 1 + np.where(chance.random(number) < _ABORTED, chance.integers(2, 2 * _RECORDS, number), 0)
    return RunMap(np.cumsum(holes + counts) - counts, np.cumsum(counts) - counts, counts)


def marked_runs(number: int, seed: int) -> RunMap:
    """Transactions of a few records, as Kafka Streams makes them; the marker of each is a hole."""
    counts = np.random.default_rng(seed).integers(1, 2 * _FEW_RECORDS, number)
    return RunMap(np.cumsum(1 + counts) - counts, np.cumsum(counts) - counts, counts)


def chain_of(about: MirroredPartition, runs: RunMap, size: int) -> Iterator[Block]:
    """The blocks that a pump would have stored, all but the last one sealed."""
    previous: Follows | None = None
    for first in range(0, len(runs), size):
        rows = slice(first, first + size)
        part = RunMap(runs.upstream[rows], runs.downstream[rows], runs.counts[rows])
        start = UpstreamOffset(int(part.upstream[0]) if first else 0)
        frontier = UpstreamOffset(part.upstream_end + 1)
        end = SeenOffset(frontier, _NOW_MS)
        writer = WriterState(4000, 1, part.downstream_end & 0x7FFFFFFF)
        begin = SeenOffset(UpstreamOffset(0), _NOW_MS)
        tail = Tail(frontier, MirroredTo(part.downstream_end), end, begin, writer, 7)
        sealed = first + size < len(runs)
        yield Block(about, start, _START, previous, part, tail, sealed)
        previous = Follows(start, part.upstream_end)


def _load(file: Path) -> dict[str, float]:
    """Seconds from the records to the map of every partition, as `KafkaFlowState.maps` makes them of what it reads."""
    records = list(_records(file.read_bytes()))
    (before,) = peak_mib([os.getpid()])
    began = time.perf_counter()
    maps = maps_of(records, _FLOW)
    seconds = time.perf_counter() - began
    runs = sum(len(known.runs) for known in maps.values())
    (peak,) = peak_mib([os.getpid()])
    return {
        "partitions": len(maps),
        "runs": runs,
        "seconds": seconds,
        "peak_mib": peak,
        "before_mib": before,
    }


def _records(data: bytes) -> Iterator[LogRecord]:
    at = offset = 0
    while at < len(data):
        key, value = _LENGTHS.unpack_from(data, at)
        at += _LENGTHS.size
        yield LogRecord(0, offset, data[at : at + key], data[at + key : at + key + value], _NOW_MS)
        at, offset = at + key + value, offset + 1


def _translate(runs: int) -> dict[str, float]:
    """Offsets per second: a column of commits anywhere in one partition, and the same one after the other."""
    known = join_blocks(chain_of(ORDERS, _runs(runs, seed=0), _BLOCK))
    target = TargetLog(DownstreamOffset(0), known.runs.downstream_end)
    commits = np.random.default_rng(1).integers(0, known.upstream_frontier, _COMMITS)
    began = time.perf_counter()
    answers = Answers(translate_many(known, commits, target=target))
    column = time.perf_counter() - began
    assert (answers.exactness == "exact").all()
    few = [UpstreamOffset(commit) for commit in commits[:_ONE_BY_ONE].tolist()]
    began = time.perf_counter()
    singly = [translate(known, commit, target=target) for commit in few]
    one_by_one = time.perf_counter() - began
    assert singly == [answers[index] for index in range(_ONE_BY_ONE)]
    return {"runs": runs, "column": _COMMITS / column, "one_by_one": _ONE_BY_ONE / one_by_one}


if __name__ == "__main__":
    main()
