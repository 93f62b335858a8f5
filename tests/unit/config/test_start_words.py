"""A start is worded as the file would have it, with the key that decides it."""

from types import SimpleNamespace

import pytest

from mmtool.replication.mm2.takeover import Mm2Takeover


@pytest.mark.parametrize(
    ("lines", "worded"),
    [
        ("", "mmtool.start = earliest"),
        ("mmtool.start = latest\n", "mmtool.start = latest"),
        ("mmtool.start = 2026-01-31T13:00:00+00:00\n", "mmtool.start = 2026-01-31T13:00:00Z"),
        ("mmtool.start = 2026-01-31T13:00:00.5+01:00\n", "mmtool.start = 2026-01-31T13:00:00.500000+01:00"),
        ("A.consumer.auto.offset.reset = Latest\n", "consumer.auto.offset.reset = latest"),
        (
            "A.consumer.auto.offset.reset = by_duration:P7D\n",
            "consumer.auto.offset.reset = by_duration:P7D",
        ),
        (
            "A.consumer.auto.offset.reset = by_duration:PT26H3M4.25S\n",
            "consumer.auto.offset.reset = by_duration:P1DT2H3M4.25S",
        ),
        (
            "A.consumer.auto.offset.reset = by_duration:PT0S\n",
            "consumer.auto.offset.reset = by_duration:PT0S",
        ),
        ("A.consumer.auto.offset.reset = latest\nmmtool.start = earliest\n", "mmtool.start = earliest"),
    ],
)
def test_a_take_over_words_a_start_as_the_file_would(load, lines, worded):
    warnings = []
    flow = SimpleNamespace(settings=load(lines).flows[0])
    predecessor = Mm2Takeover(flow, take_over=True, warnings=warnings)
    predecessor._say_what_follows({}, 3)
    assert warnings == [f"A->B: MirrorMaker 2 stored no offset of 3 partitions: mirrored from {worded}"]
    assert f" {worded}" in predecessor._what_follows()
