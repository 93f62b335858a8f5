"""A real MirrorMaker 2 that works well gets a clean bill."""

import pytest

from kit.consumers import consume
from kit.load import Load, produce
from kit.real_mirror_maker import MirrorMaker
from mmtool.doctor.checks import CHECKS
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.java]

MODULES = ("retention", "topics", "groups", "transactions", "mirror_maker")
WORDS = {check.name for check in CHECKS if check.examine.__module__.rpartition(".")[2] in MODULES} - {
    "topics"
}
"""The checks of these modules but the one of flows that create no topics."""
RECORDS = 300
ORDERS, AUDIT = "well-orders", "well-audit"
SETTINGS = {
    "source->target.groups": "well-.*",
    "source->target.sync.group.offsets.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "source.offset.flush.interval.ms": "2000",
    "target.offset.flush.interval.ms": "2000",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Clusters of their own: no other test's MirrorMaker 2 has left anything there."""
    with Fleet.of(tmp_path_factory.mktemp("doctor"), "source", "target") as clusters:
        yield clusters


def test_a_mirror_maker_that_works_well_is_well(bench, mmtool, tmp_path):
    source, properties = bench.fleet["source"].bootstrap, bench.properties("well-.*", **SETTINGS)
    for topic in (ORDERS, AUDIT):
        create_topic(source, topic, 1)
        produce(source, Load(topic, RECORDS, 1, 100))
    consume(source, "well-app", [ORDERS, AUDIT])
    consume(source, "well-slow", [ORDERS], at_most=RECORDS // 2)

    def has_told():
        held = Mm2Topics(bench.flow(properties)).checkpoints().checkpoints
        return len(held.get("well-app", ())) == 2 and "well-slow" in held

    with MirrorMaker(properties.read_text(), tmp_path) as mm2:
        mm2.wait_until(has_told, "checkpoints of both groups")
        answer = mmtool("doctor", "-c", properties, "-o", "json")
    found = [row for row in answer.rows if row["check"] in WORDS]
    assert {row["check"] for row in found} == WORDS, answer
    assert [row for row in found if row["severity"] != "ok"] == []
    assert not any("MirrorMaker 2 does not run" in row["message"] for row in found)
