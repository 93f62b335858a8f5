"""A MirrorMaker 2 that dies while it copies, and dies again while it copies once more: what its topics still prove."""

import os

import pytest

from kit.bench import Bench
from kit.beside_mm2 import offset_syncs
from kit.load import Load, produce
from kit.mm2_model import mm2_answer, mm2_store
from kit.mm2_truth import Sighted, copied_partitions
from kit.real_mirror_maker import MirrorMaker
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.translation.answers import Refused, TargetLog
from mmtool.translation.sync_map import translate_by_syncs
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]

RECORDS = 150_000
KILLED_AT = (90_000, 20_000, 60_000)
"""How many records each MM2 copies before it dies. The first one's end is reached by none of the others."""
STEP = 997
PATIENCE_SECONDS = 90


def test_no_answer_skips_a_record_whenever_mm2_dies(fleet, measured, tmp_path):
    bench = Bench(fleet, tmp_path)
    source, target = fleet["source"], fleet["target"]
    topic = f"killed-{os.getpid()}"
    properties = bench.properties(topic, **{"target.offset.flush.interval.ms": "600000"})
    flow = bench.flow(properties)
    remote = flow.remote_topic(topic)
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, Load(topic, RECORDS, record_bytes=70))

    def end():
        return end_offsets(target.bootstrap, remote)[0] if remote in topics_of(target.bootstrap) else 0

    theirs = 0
    for number, records in enumerate(KILLED_AT):
        wanted = end() + records
        with MirrorMaker(properties.read_text(), tmp_path / str(number)) as mm2:
            mm2.wait_until(lambda wanted=wanted: end() >= wanted, f"{wanted} records", PATIENCE_SECONDS)
            mm2.kill()
        here, there = Sighted(source, [topic]).look(), Sighted(target, [remote]).look()
        truth = copied_partitions(here, there, {topic: remote})[topic, 0]
        known = Mm2Topics(flow).synced().maps[TopicPartition(topic, 0)]
        log = TargetLog(0, truth.target_end)
        asked = range(0, truth.source_end, STEP)
        assert not any(isinstance(translate_by_syncs(known, c, target=log), Refused) for c in asked)
        assert list(truth.wrong_forward(known, STEP)) == []
        assert list(truth.wrong_back(known, STEP)) == []
        store = mm2_store(offset_syncs(flow)[TopicPartition(topic, 0)])
        answers = [(c, mm2_answer(store, c)) for c in asked]
        theirs += sum(answer is not None and bool(truth.skipped(c, answer)) for c, answer in answers)
    measured(
        f"killed {len(KILLED_AT)} times: MM2's own rule skips records for {theirs} of the commits asked, mmtool's none"
    )
