"""What copying costs a worker, beside a bare relay that only fetches and produces: CPU time, never wall-clock time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from kit.load import Load, produce
from kit.mirror_flow import Owner, flow_of
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

PARTITIONS = 8
TURNS = 3
MOST = 8.0


@pytest.mark.parametrize(
    ("record_bytes", "codec", "count"),
    [(1000, "none", 200_000), (100, "lz4", 1_000_000)],
    ids=["large records", "small records"],
)
def test_a_worker_spends_a_few_times_what_a_bare_relay_spends(
    fleet, tmp_path, topic_name, measured, record_bytes, codec, count
):
    """2 to 5 times, as measured; half a microsecond for each small record would make it more than 8."""
    relays = []
    source, target = fleet["source"].bootstrap, fleet["target"].bootstrap
    topic = topic_name("cost")
    create_topic(source, topic, PARTITIONS)
    produce(source, Load(topic, count, PARTITIONS, record_bytes, codec, linger_ms=50.0))
    for turn in range(TURNS):
        words = (source, target, topic, f"{topic}-relay-{turn}", str(PARTITIONS), str(count))
        relay = subprocess.run([sys.executable, "-m", "kit.relay", *words], check=True, capture_output=True)
        relays.append(float(relay.stdout))
    ours = asyncio.run(mirrored(flow_of(fleet, tmp_path, "source", "target", topic)))
    measured(f"worker {ours:.2f} CPU seconds, relay {min(relays):.2f}: {ours / min(relays):.1f} times")
    assert ours < MOST * min(relays)


async def mirrored(settings):
    """The CPU seconds of the pump."""
    owner = await Owner.take(settings)
    began = time.process_time()
    await owner.catch_up()
    spent = time.process_time() - began
    await owner.close()
    return spent
