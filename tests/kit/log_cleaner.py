"""A compacted topic that the log cleaner really cleans, when it is told to and not before."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.batches import PlainBatch, PlainRecord, batch_of
from kit.lab_admin import alter_broker, alter_topic
from kit.raw_producer import append_batches
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOLD_MS = str(3_600_000)
_WAVE_MS = 1_000  # of the records' own time, which rolls segments: ten times segment.ms
_BEGAN_MS = 60_000  # ago: later than what the cleaner has to leave alone
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": _HOLD_MS,
}
_SECONDS = 60.0


@contextmanager
def quick_cleaner(bootstrap: str) -> Iterator[None]:
    """Let broker 0's log cleaner check every 100 ms, and every 15 s again when the context ends."""
    alter_broker(bootstrap, 0, log_cleaner_backoff_ms="100")
    try:
        yield
    finally:
        alter_broker(bootstrap, 0, log_cleaner_backoff_ms="15000")


@dataclass
class CompactedTopic:
    """Waves of records, each of some keys and in segments of its own; every seventh is a tombstone.

    A mirror of it has its configs, so that its log is left alone until `compact` as well. The first record stays.
    """

    name: str
    partitions: int = 2
    keys: int = 500
    _waves: int = 0
    _began_ms: int = field(default_factory=lambda: int(time.time() * 1000) - _BEGAN_MS)

    def create(self, bootstrap: str) -> None:
        create_topic(bootstrap, self.name, self.partitions, 1, **CONFIGS)

    def write(self, bootstrap: str, waves: int) -> None:
        """More waves; the first one of a topic has every key."""
        for partition in range(self.partitions):
            batches = [self._wave(wave) for wave in range(self._waves, self._waves + waves)]
            append_batches(bootstrap, self.name, partition, batches)
        self._waves += waves

    def _wave(self, wave: int) -> PlainBatch:
        when, some = self._began_ms + wave * _WAVE_MS, random.Random(wave)
        keys = sorted(some.sample(range(1, self.keys), self.keys // 3)) if wave else range(self.keys)
        values = (None if (key + wave) % 7 == 3 else b"wave %d of key %d" % (wave, key) for key in keys)
        records = [
            PlainRecord(n, when, b"%d" % key, v) for n, (key, v) in enumerate(zip(keys, values, strict=True))
        ]
        return batch_of(records, codec="lz4")


def compact(bootstrap: str, topic: str) -> None:
    """Lets the cleaner take what it can from every partition of a `CompactedTopic` or of its mirror."""
    before = _records(bootstrap, topic)
    alter_topic(bootstrap, topic, min_compaction_lag_ms="0")
    with quick_cleaner(bootstrap):
        wait_until(
            lambda: all(_records(bootstrap, topic)[n] < before[n] for n in before),
            f"compaction of {topic}",
            _SECONDS,
        )
    alter_topic(bootstrap, topic, min_compaction_lag_ms=_HOLD_MS)


def _records(bootstrap: str, topic: str) -> Counter[int]:
    return Counter(record.partition for record in read_topic(bootstrap, topic))
