"""MM2's heartbeats, judged by MM2's own client library."""

from __future__ import annotations

import time

import pytest

from mmtool.errors import MmtoolError
from mmtool.lab.topics import create_topic, read_topic
from mmtool.lab.waiting import wait_until
from mmtool.testing.mirror_client import ask_mirror_client
from mmtool.testing.processes import MmtoolProcess
from mmtool.translation.mm2_records import Heartbeat, decode_heartbeat

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def beating(fleet, tmp_path_factory):
    """A one-way flow, as an unmodified file of MM2's says it, that ran until its heartbeats were mirrored."""
    folder, topic = tmp_path_factory.mktemp("beats"), f"beats-{time.time_ns()}"
    create_topic(fleet["source"].bootstrap, topic)
    properties = folder / "mm2.properties"
    properties.write_text(fleet.properties([("source", "target")], **{"source->target.topics": topic}))
    with MmtoolProcess(folder, "replicate", "-c", str(properties), "--every", "1") as process:
        wait_until(
            lambda: beats(fleet["target"], "source.heartbeats"), "mirrored heartbeats", PATIENCE_SECONDS
        )
        yield process


def beats(cluster, topic):
    """The heartbeats of a topic; none where the topic is not there."""
    try:
        records = read_topic(cluster.bootstrap, topic)
    except MmtoolError:  # it is to come
        return []
    return [decode_heartbeat(record.key, record.value) for record in records]


def test_both_clusters_hear_that_the_flow_is_alive(fleet, beating):
    there = beats(fleet["target"], "heartbeats")
    back = beats(fleet["source"], "heartbeats")
    assert {(b.source_alias, b.target_alias) for b in there if isinstance(b, Heartbeat)} >= {
        ("source", "target")
    }
    assert {(b.source_alias, b.target_alias) for b in back if isinstance(b, Heartbeat)} >= {
        ("target", "source")
    }


def test_mm2_s_own_client_counts_the_hop(fleet, beating):
    answers = ask_mirror_client(fleet["target"].bootstrap, "upstreams", "hops:source", "hops:nobody")
    assert answers == {"upstreams": "[source]", "hops:source": "1", "hops:nobody": "-1"}
