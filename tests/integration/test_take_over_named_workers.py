"""The real MirrorMaker 2 under names of the file's own: seen while it runs, and gone on from where it stopped."""

from __future__ import annotations

import pytest

from kit.real_mirror_maker import MirrorMaker
from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

PATIENCE_SECONDS = 60
RECORDS = 200


def test_an_mm2_with_a_group_and_an_offsets_topic_of_its_own_is_waited_for_and_no_record_crosses_twice(
    bench, tmp_path, topic_name
):
    """It writes neither heartbeats nor offset syncs: only its group shows it, and only its positions say how far it is.

    The global group is one that MM2 does not read.
    """
    source, target = bench.fleet["source"].bootstrap, bench.fleet["target"].bootstrap
    topic, workers = topic_name("named"), topic_name("workers")
    properties = bench.properties(
        topic,
        **{
            "emit.heartbeats.enabled": "false",
            "emit.offset-syncs.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "group.id": "nobody",
            "target.group.id": workers,
            "offset.storage.topic": f"{workers}-offsets",
            "config.storage.topic": f"{workers}-configs",
            "status.storage.topic": f"{workers}-status",
        },
    )
    create_topic(source, topic)
    produce(source, Load(topic, RECORDS, 1, 100))
    remote = f"source.{topic}"

    def copied():
        return sum(end_offsets(target, remote).values()) == RECORDS

    factor = (
        "offset-syncs.topic.replication.factor=1\n"  # MM2 takes no word of offset syncs where they are off
    )
    with MirrorMaker(properties.read_text().replace(factor, ""), tmp_path) as mm2:
        mm2.wait_until(copied, "copies")
        refused = bench.catch_up(properties)
        assert (refused.code, f"its group {workers} on target has members" in refused.stderr) == (10, True)

        with bench.start(properties, "--take-over") as running:
            running.wait_line(
                f"waiting until MirrorMaker 2 has stopped: its group {workers}", PATIENCE_SECONDS
            )
            mm2.stop()
            running.wait_line("1 partition continues where MirrorMaker 2 stopped$", PATIENCE_SECONDS)
            running.stop()
    produce(source, Load(topic, RECORDS, 1, 100, first_sequence=RECORDS))
    answer = bench.catch_up(properties)
    assert answer.code == 0, answer.stderr
    assert end_offsets(target, remote) == end_offsets(source, topic)
