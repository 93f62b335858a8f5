"""Back-pressure: what a pump holds is bounded, however far behind it is."""

from __future__ import annotations

import os
import time

import pytest

from kit.load import Load, produce
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MIB = 1 << 20
PARTITIONS = 8
RECORDS = 160_000
BATCH_BYTES = 1_000_000
BUFFER = 16 * MIB
OWN = 256 * MIB


def test_catching_up_ten_times_the_buffer_stays_within_the_buffer(bench, fleet, measured):
    """The peak resident set of a worker: at most 256 MB, the buffer, and three of the largest batches."""
    topic = f"memory-{os.getpid()}"
    create_topic(fleet["source"].bootstrap, topic, PARTITIONS)
    load = Load(topic, RECORDS, PARTITIONS, record_bytes=1000, codec="none", batch_bytes=BATCH_BYTES)
    produce(fleet["source"].bootstrap, load)
    properties = bench.properties(topic, **{"mmtool.buffer.bytes": str(BUFFER)})
    peaks: dict[int, int] = {}
    with bench.start(properties, "--until-caught-up") as process:
        while process.alive:
            for pid in process.pids("worker"):
                peaks[pid] = max(peaks.get(pid, 0), process.peak_rss(pid))
            time.sleep(0.1)
        answer = process.wait()
    measured(
        f"peak RSS of a pump that caught up 160 MB: {max(peaks.values()) / MIB:.0f} MiB in {answer.seconds:.0f} s"
    )
    ends = end_offsets(fleet["target"].bootstrap, f"source.{topic}")
    assert (answer.code, sum(ends.values())) == (0, RECORDS)
    assert max(peaks.values()) <= OWN + BUFFER + 3 * BATCH_BYTES
