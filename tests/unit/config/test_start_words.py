"""A start is worded as the file would have it, with the key that decides it."""

from types import SimpleNamespace

import pytest

from mmtool.errors import RefusedError
from mmtool.replication.mm2.takeover import Mm2Takeover
from mmtool.translation.types import TopicPartition


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
    assert warnings == [
        f"A->B: MirrorMaker 2 stored no offset of 3 partitions: mmtool mirrors them from {worded}"
    ]
    assert f" {worded}" in predecessor._what_follows()


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        ("", ", and"),
        ("mmtool.start = latest\n", ", set A->B.mmtool.start = earliest, and"),
        ("A.consumer.auto.offset.reset = by_duration:P7D\n", ", set A->B.mmtool.start = earliest, and"),
    ],
)
def test_the_way_to_each_record_once_mirrors_from_the_earliest(load, lines, more):
    """At another start, a mirror that was deleted would stay without the records that the source has."""
    flow = SimpleNamespace(settings=load(lines).flows[0])
    said = Mm2Takeover(flow, take_over=True, warnings=[])._each_once("the mirror", {"orders"})
    assert f"--topic orders --execute`{more} start `mmtool replicate` again" in said


ENDS = "MirrorMaker 2 mirrored source offset 5000, but the source's log ends at 1200"
ORDERS, OTHERS = [TopicPartition("orders", 0)], [TopicPartition("payments", 1), TopicPartition("orders", 2)]


@pytest.mark.parametrize(
    ("places", "names", "do"),
    [
        (ORDERS, "A->B: orders-0", "delete the mirror of topic orders on B"),
        (
            ORDERS + OTHERS,
            "3 partitions (topics orders, payments)",
            "for each of these topics, delete its mirror",
        ),
    ],
    ids=["one", "several"],
)
def test_a_take_over_that_is_contradicted_names_every_topic(load, places, names, do):
    flow = SimpleNamespace(settings=load("").flows[0], target=SimpleNamespace(alias="B"))
    with pytest.raises(RefusedError) as refused:
        Mm2Takeover(flow, take_over=True, warnings=[])._refuse(dict.fromkeys(places, ENDS))
    assert (names in refused.value.message, ENDS in refused.value.message) == (True, True)
    assert do in refused.value.remedy
    assert "from mmtool.start = earliest), or add the topic to topics.exclude" in refused.value.remedy
