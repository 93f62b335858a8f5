"""State topics of Kafka Streams applications as the target alone knows them."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from mmtool.config import load_settings
from mmtool.insight.applications import app_state_on_target
from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
clusters = A, B
A.bootstrap.servers = localhost:1
B.bootstrap.servers = localhost:2
A->B.enabled = true
"""
CHANGELOG = "app-store-changelog"


def looked_at(settings, *topics):
    """What the target has answered, of a flow that MirrorMaker 2 runs: mmtool has no record of it."""
    stream_time = base64.b64encode(b"\x01" + bytes(8)).decode()
    group = GroupFacts("app", {TopicPartition("orders", 0): Commit(1, stream_time)})
    return SimpleNamespace(
        side=SimpleNamespace(settings=settings, target=SimpleNamespace(alias="B")),
        topics={name: SimpleNamespace(partitions=2) for name in topics},
        facts=SimpleNamespace(groups=[group], partitions={}),
        read_by={},
    )


@pytest.mark.parametrize(
    ("more", "copy"),
    [
        ("", f"A.{CHANGELOG}"),
        ("A.alias = plant\n", f"plant.{CHANGELOG}"),
        ("A->B.source.cluster.alias = eu.plant\n", f"eu.plant.{CHANGELOG}"),
        ("source.cluster.alias =\nreplication.policy.separator =\n", CHANGELOG),
        ("A.alias = plant\nmmtool.topic.rename.format = ${topic}-${source}\n", f"{CHANGELOG}-plant"),
    ],
)
def test_a_state_topic_is_found_by_the_alias_that_names_topics(more, copy, tmp_path: Path):
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + more)
    (flow,) = load_settings(path, {}).flows
    (found,) = app_state_on_target(looked_at(flow, copy), without=False).topics
    assert (found.group, found.name, found.partitions) == ("app", CHANGELOG, 2)
