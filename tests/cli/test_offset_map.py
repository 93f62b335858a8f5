"""The public Python API on clusters in memory: the map that it reads, and what a Spark task makes of it."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from kit.clusters import FakeFlowState
from kit.maps import about_of, map_of
from kit.scene import half_read
from mmtool.config import load_settings
from mmtool.errors import ConfigError, UnreachableError, UsageError
from mmtool.insight.offset_map import translated_frame
from mmtool.plan.groups.facts import Commit
from mmtool.translation import Exact, MmtoolError, Reason, Refused, TopicPartition, load_offset_map

NAN = math.nan
KEYS = ("downstream_offset", "exactness", "reread_max", "reason")
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = half_read(tmp_path)
    made.has("orders-late", 5)
    made.back = None
    monkeypatch.setattr(
        "mmtool.insight.flow_now.connect", lambda flow, timeout, **_: replace(made.clusters, back=made.back)
    )
    return made


@pytest.fixture
def frame(scene):
    """``frame(topics, partitions, offsets)``: the rows that a task gives for a batch."""
    offset_map = load_offset_map(scene.config)

    def rows(topics, partitions, offsets):
        found = translated_frame(offset_map, pd.Series(topics), pd.Series(partitions), pd.Series(offsets))
        return [
            tuple(None if value is pd.NA else value for value in row) for row in found.itertuples(index=False)
        ]

    return rows


def source_unanswered(scene):
    scene.source.unanswered[TopicPartition("orders", 1)] = UnreachableError("orders-1 has no leader")


def both_sides_write(scene):
    """West has written its records 3 and 4 between those of east, and the reverse flow has copied them."""
    scene.config.write_text(scene.config.read_text() + IDENTITY)
    scene.settings = load_settings(scene.config, {}).flows[0]
    scene.source.add_topic("orders", "id-both", 8)
    scene.target.add_topic("orders", "id-both-there", 8)
    scene.mirrored("orders", 0, [(0, 0, 3), (5, 5, 2)], 7)
    place, flow = TopicPartition("orders", 0), scene.look().identity.way_back
    about = about_of(flow, scene.target.ids["orders"], place, "orders", scene.source.ids["orders"])
    scene.back = FakeFlowState({(about.topic_id, 0): map_of(about, [(3, 3, 2)], 6)})


def a_third_writes_too(scene):
    both_sides_write(scene)
    scene.source.add_topic("mmtool-offset-runs.north.internal", "id-runs", 1)


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (lambda _: None, {"exact", "refused"}),
        (source_unanswered, {"exact", "refused"}),
        (both_sides_write, {"exact", "bounded", "refused"}),
        (a_third_writes_too, {"refused"}),
    ],
    ids=["one side writes", "no leader", "both sides write", "a third writes"],
)
def test_every_offset_is_translated_as_translate_offsets_does(scene, mmtool, happens, words):
    """The command answers one commit for each group and partition: so there is a group for each offset."""
    happens(scene)
    places = [*((TopicPartition("orders", n), at) for n in range(2) for at in range(24))]
    places += [(TopicPartition("orders", 5), 1), (TopicPartition("orders-late", 0), 1)]
    groups = {f"group-{n:02}": place for n, place in enumerate(places)}
    scene.source.groups.committed.clear()
    for group, (place, at) in groups.items():
        scene.source.groups.committed[group] = {place: Commit(at)}
    ended = mmtool("translate-offsets", "-c", scene.config, "--all-groups", "-o", "json")
    told = {(row["group"], row["topic"], row["partition"]): row for row in json.loads(ended.stdout)["data"]}
    columns = zip(*((*place, at) for place, at in places), strict=True)
    answers = load_offset_map(scene.config, "east", "west").translate_many(*columns)
    assert rows_of(answers) == [
        tuple(told[group, *place][key] or None for key in KEYS) for group, (place, _) in groups.items()
    ]
    assert set(answers.exactness) == words


def rows_of(answers):
    """As the command's rows; 0 and None are one here, and the offset is 0 only for commits on 0."""
    columns = [getattr(answers, key).tolist() for key in KEYS]
    return [tuple(value or None for value in row) for row in zip(*columns, strict=True)]


def test_a_map_can_be_narrowed_to_topics(scene):
    assert load_offset_map(str(scene.config), topics=["orders"]).partitions == (("orders", 0), ("orders", 1))


def test_the_file_may_be_named_by_the_environment(scene, monkeypatch):
    monkeypatch.setenv("MMTOOL_CONFIG", str(scene.config))
    assert load_offset_map().target_topics == {"orders": "east.orders"}


def test_a_partition_whose_logs_are_not_shown_is_refused_and_the_others_are_translated(scene):
    del scene.target.logs[TopicPartition("east.orders", 1)]
    offset_map = load_offset_map(scene.config)
    answers = [offset_map.translate("orders", n, 4) for n in range(2)]
    assert answers == [Exact(4), Refused(Reason.PARTITION_MISSING)]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"topics": ["payments"]}, UsageError),
        ({"topics": "orders"}, UsageError),
        ({"config": "nowhere.properties"}, ConfigError),
        ({"source": "mars"}, UsageError),
    ],
)
def test_what_cannot_be_read_is_an_error_with_a_remedy(scene, arguments, kind):
    with pytest.raises(MmtoolError) as caught:
        load_offset_map(**{"config": scene.config, **arguments})
    assert isinstance(caught.value, kind)
    assert caught.value.remedy


def test_a_cluster_that_does_not_answer_is_named(scene):
    scene.target.go_away(UnreachableError("cluster west does not answer"))
    with pytest.raises(MmtoolError, match=r"^cluster west does not answer$"):
        load_offset_map(scene.config)


def test_a_batch_of_a_task_has_a_row_for_each_of_its_rows(frame):
    rows = frame(["orders", "orders", "payments"], [1, 0, 0], [4, 12, 1])
    assert rows == [(4, "exact", 0, None), (11, "exact", 0, None), (None, "refused", None, "not_mirrored")]


@pytest.mark.parametrize(
    "columns",
    [
        ([None], [0], [4]),
        (["orders"], pd.array([None], "Int64"), [4]),
        (["orders"], [NAN], [4]),
        (["orders"], [0], [NAN]),
        (["orders"], [0], pd.array([None], "Int64")),
        (["orders"], [0], [-1]),
    ],
)
def test_without_topic_partition_or_offset_there_is_no_translation_and_a_reason(frame, columns):
    assert frame(*columns) == [(None, "refused", None, "no_commit")]


def test_nulls_beside_them_leave_offsets_exact(frame):
    assert frame(["orders"] * 2, [0.0, 0.0], [NAN, 12.0])[1] == (11, "exact", 0, None)


def test_a_batch_may_be_empty(frame):
    assert (
        frame(pd.Series([], dtype=object), pd.Series([], dtype="int32"), pd.Series([], dtype="int64")) == []
    )


def test_what_is_no_integer_is_not_rounded_to_an_offset(frame):
    with pytest.raises(
        ValueError, match=r"^translate_offsets: column offset must hold whole numbers, and holds 4\.5$"
    ):
        frame(["orders"], [0], [4.5])
