"""What a record batch costs on one core: ns per batch as it is, ns per record rebuilt.

    python benchmarks/batches.py [--repeat 7]

The smallest of the repeated measurements is printed: what the code costs, not what else the machine did.
"""

from __future__ import annotations

import argparse
import random
from time import perf_counter_ns
from typing import TYPE_CHECKING

from kit.batches import PlainRecord, batch_of
from mmtool.kafka.batches import (
    as_is,
    coalesce,
    iter_batches,
    raw_records,
    rebuild,
    rebuild_reason,
    same_records,
    split,
    view_of,
)
from mmtool.kafka.batches.checksum import crc32c
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.kafka.batches import BatchView

ANSWER_BYTES = 4 << 20
LIMIT = 8 << 20
START = UpstreamOffset(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    print("as it is, ns per batch")
    print(
        f"{'batch':>9} {'all':>8} {'walk':>8} {'reason':>8} {'copy':>8} {'stamp':>8} {'CRC of the bytes':>17}"
    )
    for size in (1_000, 16_000, 128_000, 1_000_000):
        _as_it_is(size, repeat)
    print("\nrebuilt, ns per record")
    print(
        f"{'records':>9} {'bytes':>6} {'codec':>7} {'read':>8} {'rebuild':>8} {'coalesce':>9} {'compare':>8}"
    )
    for count, size, codec in (
        (1, 100, "none"), (1, 100, "lz4"), (10, 100, "none"), (100, 100, "none"), (1000, 100, "none"),
        (1000, 100, "lz4"), (1000, 100, "zstd"), (1000, 100, "snappy"), (1000, 100, "gzip"),
        (100, 1000, "none"),
    ):  # fmt: skip
        _rebuilt(count, size, codec, repeat)


def _as_it_is(size: int, repeat: int) -> None:
    written = _batch(max(1, size // 1000), 1000, "none")
    number = max(1, ANSWER_BYTES // len(written))
    answer = written * number
    views = list(iter_batches(answer))
    ready = [as_is(view) for view in views]

    def everything() -> None:
        for view in iter_batches(answer):
            if rebuild_reason(view, position=START, max_batch_bytes=LIMIT) is None:
                as_is(view).stamp(4000, 1, 77)

    figures = [
        _best(work, repeat) // number
        for work in (
            everything,
            lambda: [None for _ in iter_batches(answer)],
            lambda: [rebuild_reason(view, position=START, max_batch_bytes=LIMIT) for view in views],
            lambda: [as_is(view) for view in views],
            lambda: [batch.stamp(4000, 1, 77) for batch in ready],
            lambda: [crc32c(bytes(view.memory[21:])) for view in views],
        )
    ]
    print(f"{len(written):>9}", *(f"{figure:>8}" for figure in figures[:-1]), f"{figures[-1]:>17}")


def _rebuilt(count: int, size: int, codec: str, repeat: int) -> None:
    number = max(1, 3000 // count)
    views = [next(iter_batches(_batch(count, size, codec)))] * number
    total = number * count
    others = _otherwise(views)
    figures = [
        _best(work, repeat) // total
        for work in (
            lambda: [raw_records(view) for view in views],
            lambda: [rebuild([view], position=START, max_batch_bytes=LIMIT) for view in views],
            lambda: coalesce(views, position=START, max_batch_bytes=LIMIT, target_bytes=1 << 20),
            lambda: same_records(views, START, others, total),
        )
    ]
    print(f"{count:>9} {size:>6} {codec:>7} {figures[0]:>8} {figures[1]:>8} {figures[2]:>9} {figures[3]:>8}")


def _otherwise(views: list[BatchView]) -> list[BatchView]:
    """The same records in two batches each, so that no two batches meet head on."""
    halves = split(as_is(views[0]), max_batch_bytes=LIMIT) if views[0].header.record_count > 1 else []
    return [view_of(half.payload) for half in halves or [as_is(views[0])]] * len(views)


def _batch(count: int, size: int, codec: str) -> bytes:
    chance = random.Random(7)
    half = size // 2
    records = [
        PlainRecord(at, 1_700_000_000_000 + at * 3, b"key-%d" % at, chance.randbytes(half) + b"x" * half)
        for at in range(count)
    ]
    return batch_of(records, codec=codec).write()


def _best(work: Callable[[], object], repeat: int) -> int:
    return min(_once(work) for _ in range(repeat))


def _once(work: Callable[[], object]) -> int:
    start = perf_counter_ns()
    work()
    return perf_counter_ns() - start


if __name__ == "__main__":
    main()
