"""Flows that would repeat records, or write into one topic, are refused."""

from __future__ import annotations

import pytest

from mmtool.config import load_settings
from mmtool.errors import UsageError
from mmtool.replication.limits import refuse_meeting, refuse_repetition

_BASE = """
clusters = a, b
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
a->b.enabled = true
"""
_IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
_BOTH_WAYS = "b->a.enabled = true\n"
_RING = "clusters = a, b, c\nc.bootstrap.servers = localhost:3\nb->c.enabled = true\nc->a.enabled = true\n"


@pytest.fixture
def flows(tmp_path):
    def of(more=""):
        path = tmp_path / "mm2.properties"
        path.write_text(_BASE + more)
        return load_settings(path, {}).flows

    return of


def test_a_pair_may_keep_names_both_ways(flows):
    refuse_repetition(flows(_BOTH_WAYS + _IDENTITY))


def test_a_ring_that_keeps_names_is_refused_by_its_way_around(flows):
    with pytest.raises(UsageError, match="a record of a would come to a again by a->b->c->a"):
        refuse_repetition(flows(_RING + _IDENTITY))


@pytest.mark.parametrize(
    "more",
    [
        "",
        _IDENTITY + "mmtool.origins = local\n",
        _IDENTITY + "a->b.topics = one\nb->c.topics = two, one\nc->a.topics = two\n",
    ],
    ids=["prefixed names", "local origins", "topics that have no way around"],
)
def test_a_ring_in_which_nothing_comes_around_is_fine(flows, more):
    refuse_repetition(flows(_RING + more))


_FAN_IN = "clusters = a, b, c\nc.bootstrap.servers = localhost:3\nc->b.enabled = true\n"


@pytest.mark.parametrize("text", ["dr-${topic}", "${topic}.copy"])
def test_a_rename_format_that_leads_two_sources_into_one_topic_is_refused(flows, text):
    with pytest.raises(UsageError, match=r"a->b and c->b would both write to topic"):
        refuse_meeting(flows(f"{_FAN_IN}mmtool.topic.rename.format = {text}\n"))


@pytest.mark.parametrize(
    "more",
    [
        "mmtool.topic.rename.format = ${source}-${topic}\n",
        "mmtool.topic.rename.format = dr-${topic}\na->b.topics = one\nc->b.topics = two\n",
        _IDENTITY,
    ],
    ids=["named sources", "other topics", "identical names"],
)
def test_sources_that_keep_apart_or_are_meant_to_meet_are_fine(flows, more):
    refuse_meeting(flows(_FAN_IN + more))
