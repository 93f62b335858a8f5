"""An unmodified file of MirrorMaker 2's, both directions: for MM2 on one pair of clusters, for mmtool on another."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kit.lab_admin import compare_topics, configs_of
from kit.lookups import groups_of
from kit.parity import PLAIN, RECORDS, SETTINGS, carries_records, fill, mirrored_topics
from kit.processes import MmtoolProcess
from kit.real_mirror_maker import MirrorMaker
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import end_offsets
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 120
WAYS = (("source", "target"), ("target", "source"))


def missing(pair):
    """What has not come over yet, on either side of a pair of clusters."""
    found = {}
    for here, there in WAYS:
        cluster = pair[there].bootstrap
        topics, remote = mirrored_topics(pair[there]), f"{here}.{PLAIN}"
        found |= {
            f"{there}: topics": {"heartbeats", f"{here}.heartbeats", f"{here}.checkpoints.internal"}
            <= topics.keys(),
            f"{there}: records": sum(end_offsets(cluster, remote).values()) == RECORDS,
            f"{there}: commits": TopicPartition(remote, 0) in groups_of(cluster).commits([here])[here],
        }
    return {what for what, there in found.items() if not there}


@pytest.mark.parametrize("location", ["source", "target"])
def test_what_is_on_both_clusters_is_what_mm2_would_have_brought(tmp_path, location):
    settings = SETTINGS | {"offset-syncs.topic.location": location}
    with ExitStack() as ends:
        theirs, ours = (
            ends.enter_context(Fleet.of(tmp_path / whose, "source", "target")) for whose in ("mm2", "mmtool")
        )
        for pair in (theirs, ours):
            for name in ("source", "target"):
                fill(pair[name])
                groups_of(pair[name].bootstrap).alter(name, {TopicPartition(PLAIN, 0): Commit(60)})
        properties = tmp_path / "mm2.properties"
        properties.write_text(ours.properties(WAYS, **settings))
        mm2 = ends.enter_context(MirrorMaker(theirs.properties(WAYS, **settings), tmp_path))
        process = ends.enter_context(MmtoolProcess(tmp_path / "run", "replicate", "-c", str(properties)))
        for pair in (theirs, ours):
            mm2.wait_until(lambda which=pair: not missing(which), "everything", PATIENCE_SECONDS)
        assert "MirrorMaker" not in process.stderr
        for name in ("source", "target"):
            twins = theirs[name], ours[name]
            wait_until(lambda two=twins: alike(two), f"the same topics on {name}", PATIENCE_SECONDS)
        for here, there in WAYS:
            for topic, remote in carried(ours, here, there):
                verdicts = compare_topics(ours[here].bootstrap, topic, ours[there].bootstrap, remote)
                assert all(v.is_identical for v in verdicts.values()), (remote, verdicts)
            assert (PLAIN, f"{here}.{PLAIN}") in carried(ours, here, there)
        assert process.stop().code == 143


def carried(pair, here, there):
    """Topics whose records came over, and their names there."""
    topics = mirrored_topics(pair[here])
    found = [(topic, f"{here}.{topic}") for topic in topics if carries_records(topic)]
    return [(topic, remote) for topic, remote in found if remote in mirrored_topics(pair[there])]


def alike(twins):
    """Names, partitions and configs."""
    theirs, ours = map(mirrored_topics, twins)
    if theirs != ours:
        return False
    return configs_of(twins[0].bootstrap, theirs) == configs_of(twins[1].bootstrap, ours)
