"""A real MirrorMaker 2 that works well gets a clean bill; what it leaves undone is found."""

from __future__ import annotations

import pytest

from kit.consumers import consume
from kit.load import Load, produce
from kit.real_mirror_maker import MirrorMaker
from mmtool.doctor.checks import CHECKS
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.java]

MODULES = ("retention", "topics", "groups", "transactions", "mirror_maker")
WORDS = {check.name for check in CHECKS if check.examine.__module__.rpartition(".")[2] in MODULES}
RECORDS = 300
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
QUICK = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "source->target.sync.group.offsets.enabled": "true",
}


class Mirrored:
    """Two topics, of which groups read, that MirrorMaker 2 mirrors while the context lasts."""

    def __init__(self, bench, folder, mark, **settings):
        self.bench, self.mark = bench, mark
        self.source, self.target = (bench.fleet[side].bootstrap for side in ("source", "target"))
        self.orders, self.audit = f"{mark}-orders", f"{mark}-audit"
        self.own = {"source->target.groups": f"{mark}-.*", **QUICK, **settings}
        self.properties = bench.properties(f"{mark}-.*", **self.own)
        self.flow = bench.flow(self.properties)
        self.maker = MirrorMaker(self.properties.read_text(), folder)
        for topic in (self.orders, self.audit):
            create_topic(self.source, topic, 1)
            produce(self.source, Load(topic, RECORDS, 1, 100))
        consume(self.source, f"{mark}-app", [self.orders, self.audit])
        consume(self.source, f"{mark}-slow", [self.orders], at_most=RECORDS // 2)

    def file(self, topics=None, **settings):
        return self.bench.properties(topics or f"{self.mark}-.*", **{**self.own, **settings})

    def has_told(self):
        held = Mm2Topics(self.flow).checkpoints().checkpoints
        return len(held.get(f"{self.mark}-app", ())) == 2 and f"{self.mark}-slow" in held

    def wait(self):
        self.maker.wait_until(self.has_told, "checkpoints of both groups")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Clusters of their own: no other test's MirrorMaker 2 has left anything there."""
    with Fleet.of(tmp_path_factory.mktemp("doctor"), "source", "target") as clusters:
        yield clusters


@pytest.fixture
def well(bench, tmp_path_factory):
    made = Mirrored(
        bench,
        tmp_path_factory.mktemp("well"),
        "well",
        **{"source.offset.flush.interval.ms": "2000", "target.offset.flush.interval.ms": "2000"},
    )
    with made.maker:
        made.wait()
        yield made


@pytest.fixture(scope="module")
def sick(bench, tmp_path_factory):
    """Under identical names; with few offset syncs, and stopped while a group goes on."""
    made = Mirrored(
        bench,
        tmp_path_factory.mktemp("sick"),
        "sick",
        **{"replication.policy.class": IDENTITY, "source->target.offset.lag.max": "10000"},
    )
    with made.maker:
        made.wait()
        made.maker.stop()
    consume(made.source, "sick-slow", [made.orders])
    return made


def rows_of(mmtool, properties):
    answer = mmtool("doctor", "-c", properties, "-o", "json")
    rows = [row for row in answer.rows if row["check"] in WORDS]
    assert {row["check"] for row in rows} == WORDS, answer
    return rows


def unwell(mmtool, properties, check):
    found = rows_of(mmtool, properties)
    return [row for row in found if row["severity"] != "ok" and row["check"] == check]


def test_a_mirror_maker_that_works_well_is_well(mmtool, well):
    found = rows_of(mmtool, well.properties)
    assert [row for row in found if row["severity"] != "ok"] == []
    assert not any("MirrorMaker 2 does not run" in row["message"] for row in found)


def test_small_topics_under_a_large_offset_lag_are_found(mmtool, sick):
    (row,) = unwell(mmtool, sick.properties, "mm2_offset_lag")
    assert row["severity"] == "warning"
    assert "offset.lag.max = 10,000, and partitions of sick-audit, sick-orders hold fewer" in row["message"]


def test_checkpoints_of_topics_that_the_file_does_not_mirror_are_found(mmtool, sick):
    (row,) = unwell(mmtool, sick.file(sick.orders), "mm2_filters")
    assert (row["subject"], row["severity"]) == (sick.audit, "warning")
    assert "sick-app for topic sick-audit, which source->target does not mirror" in row["message"]


def test_a_group_that_goes_on_without_checkpoints_is_found(mmtool, sick):
    def found():
        rows = unwell(mmtool, sick.properties, "mm2_checkpoints")
        return [row for row in rows if row["subject"] == "sick-slow"]

    wait_until(lambda: bool(found()), "a late checkpoint", 90)
    (row,) = found()
    assert row["severity"] == "problem"
    assert "group sick-slow has committed offset" in row["message"]
    assert "has its last checkpoint at offset" in row["message"]
    assert "source-mm2 has no member: MirrorMaker 2 does not run" in row["message"]
