"""The peer that mmtool is compared with is the real MirrorMaker 2."""

from __future__ import annotations

from mmtool.lab.load import Load, produce
from mmtool.lab.mirror_maker import MirrorMaker
from mmtool.lab.records import numbered
from mmtool.lab.topics import create_topic, end_offsets, read_topic


def test_mirror_maker_copies_a_topic_from_source_to_target(fleet, topic_name, tmp_path):
    topic, target = topic_name("orders"), fleet["target"].bootstrap
    create_topic(fleet["source"].bootstrap, topic, partitions=2)
    produce(fleet["source"].bootstrap, Load(topic, count=1000, partitions=2))

    def copied() -> bool:
        return sum(end_offsets(target, f"source.{topic}").values()) == 1000

    with MirrorMaker(fleet.properties(**{"source->target.topics": topic}), tmp_path) as mirror_maker:
        mirror_maker.wait_until(copied, f"1000 records in source.{topic}")
    records = read_topic(target, f"source.{topic}")
    assert [numbered(record.value) for record in records] == [(p, i) for p in (0, 1) for i in range(500)]
