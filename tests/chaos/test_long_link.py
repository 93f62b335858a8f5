"""A slow, long link to either side: 160 ms there and back, 30 MB/s, batches of 16 KB as plain producers make them."""

import time

import pytest

from kit.chaos.place import behind_a_link
from kit.link import Link, LinkShape
from kit.load import Load, produce
from kit.processes import MmtoolProcess
from mmtool.lab.cluster import JVM_FOR_SPEED, Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation, wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

ROUND_TRIP_SECONDS, BYTES_PER_SECOND = 0.16, 30e6
FIRST, TOPIC, PARTITIONS = "first", "wan", 8
RECORDS, RECORD_BYTES = 300_000, 1000
STEADY = (0.1, 0.9)  # of the records: between the start's small batches and the end's
PATIENCE_SECONDS = 120
_LOOK_SECONDS = 0.3  # the link is carried by this process as well: what looks costs it speed


@pytest.fixture
def ports():
    held = PortReservation()
    yield held.take(), held.take()
    held.release()


@pytest.mark.parametrize("far", ["source", "target"])
def test_a_long_link_is_filled_to_four_fifths_with_default_settings(far, ports, tmp_path, measured):
    behind, advertised = ports
    shapes = {
        name: Shape(properties=behind_a_link(behind, advertised) if name == far else {}, jvm=JVM_FOR_SPEED)
        for name in ("source", "target")
    }
    with Fleet([Cluster(name, tmp_path / name, shape) for name, shape in shapes.items()]) as fleet:
        source, target = fleet["source"].bootstrap, fleet["target"].bootstrap
        create_topic(source, FIRST)
        create_topic(source, TOPIC, PARTITIONS)
        produce(source, Load(TOPIC, RECORDS, PARTITIONS, RECORD_BYTES, codec="none", batch_bytes=16_384))
        properties = tmp_path / "mm2.properties"
        where = {f"{far}.bootstrap.servers": f"127.0.0.1:{advertised}"}
        properties.write_text(fleet.properties(**where, topics=FIRST))
        shape = LinkShape(ROUND_TRIP_SECONDS, BYTES_PER_SECOND)
        line = ("replicate", "-c", str(properties))
        with Link(advertised, behind, shape), MmtoolProcess(tmp_path / "run", *line) as process:
            # the heartbeats' topic comes after the start with a new round, which costs a long link seconds
            process.wait_line("partitions 2 caught_up", PATIENCE_SECONDS)
            properties.write_text(fleet.properties(**where, topics=f"{FIRST}, {TOPIC}"))
            passed = [passes(target, share * RECORDS) for share in STEADY]
            answer = process.stop()
        assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
    (first, began), (last, ended) = passed
    rate = (last - first) * RECORD_BYTES / (ended - began)
    measured(f"a long link to the {far}: {rate / 1e6:.1f} MB/s of {BYTES_PER_SECOND / 1e6:.0f}")
    assert rate >= 0.8 * BYTES_PER_SECOND


def passes(target, count):
    """How many records there are when it is at least so many, and the time then."""
    seen = 0

    def enough():
        nonlocal seen
        seen = sum(end_offsets(target, f"source.{TOPIC}").values())
        return seen >= count

    wait_until(enough, f"{count} records", PATIENCE_SECONDS, poll=_LOOK_SECONDS)
    return seen, time.monotonic()
