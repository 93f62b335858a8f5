"""Records of ours, while the cluster that is to keep them comes and goes."""

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import MmtoolError, RefusedError, UnreachableError
from mmtool.kafka.state import own_log
from mmtool.kafka.wire.cluster import ConnectionLostError


class Cluster:
    """It knows no topic until it has answered, and answers after so many tries; None is never."""

    alias = "east"

    def __init__(self, answers_after, *, holds=True):
        self.left, self.holds, self.known = answers_after, holds, None
        self.appended = []

    async def refresh(self, topics):
        if self.left is None or self.left > 0:
            self.left = None if self.left is None else self.left - 1
            raise ConnectionLostError("no broker of east answers")
        self.known = "id" if self.holds else None

    def topic_id(self, topic):
        return self.known

    async def send_to_leader(self, topic, partition, request, *, purpose):
        self.appended.append((topic, partition))
        return SimpleNamespace(partitions=[SimpleNamespace(error_code=0)])

    def check_denied(self, code, what):
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(own_log, "_LOOK_SECONDS", 0.0)


def append(cluster):
    asyncio.run(own_log.append_records(cluster, "mmtool-control", [(b"k", b"v")]))
    return cluster.appended


def test_a_cluster_that_is_back_in_a_moment_gets_the_record():
    assert append(Cluster(3)) == [("mmtool-control", 0)]


def test_one_that_stays_away_is_said_to_be_away_and_nothing_else_is_raised():
    """Whoever speaks to pumps or closes a flow knows of `MmtoolError` only."""
    said = r"^cluster east: looking up topic mmtool-control failed: no broker of east"
    with pytest.raises(UnreachableError, match=said):
        append(Cluster(None))


def test_a_topic_that_is_not_there_is_named():
    with pytest.raises(MmtoolError, match="topic mmtool-control is missing on cluster east") as raised:
        append(Cluster(0, holds=False))
    assert not isinstance(raised.value, UnreachableError)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("mmtool-offset-runs.a.internal", "which restores them; then start `mmtool replicate`"),
        ("mmtool-control.a.internal", "all of them but failed-over marks and pauses: these are lost"),
        ("mmtool-journal.internal", "no command can restore them: first end open operations"),
    ],
)
def test_a_topic_with_other_partitions_says_what_can_be_restored(name, remedy):
    found = {name: SimpleNamespace(partitions=range(3))}
    with pytest.raises(RefusedError, match="on b has 3 partitions instead of") as raised:
        own_log.check_counts("b", [own_log.state_topic(name, 1, 8 if "runs" in name else 1)], found)
    assert remedy in raised.value.remedy
