"""What a log held when it was looked at is read, whoever leads it by then."""

from __future__ import annotations

import pytest

from kit.batches import data
from kit.mirror import SOURCE_ID, fetched
from mmtool.config import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka.logs.log_parts import KafkaBatches
from mmtool.kafka.wire import scan
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
NEW_LEADER = fetched(end=3)
"""One that was elected a moment ago: it has all of the log, and shows what followers had asked it for (KIP-207)."""


class Leader:
    """Gives these answers in turn, the last of them for ever."""

    alias = "west"

    def __init__(self, *answers):
        self.answers = list(answers)

    async def start(self):
        pass

    async def refresh(self, topics):
        del topics

    def check_denied(self, code, what):
        pass

    async def send_to_leader(self, *_request, **_purpose):
        told = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return FetchAnswer(0, Code.NONE, [told])


def read(monkeypatch, *answers):
    monkeypatch.setattr(scan, "_PAUSE_SECONDS", 0)
    batches = KafkaBatches(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"), 1.0)
    leader = Leader(*answers)
    monkeypatch.setattr(batches._wire, "_cluster", leader)
    return [view.header.base_offset for view in batches.batches(PLACE, SOURCE_ID, range(6), committed=False)]


def test_a_leader_that_was_elected_a_moment_ago_is_asked_again_for_what_was_there(monkeypatch):
    """Else a failback would find no diverged records, and lose them."""
    assert read(monkeypatch, fetched(data(0, 3), end=3), NEW_LEADER, fetched(data(3, 3), end=6)) == [0, 3]


def test_a_log_that_lost_what_was_there_is_not_read_to_its_end(monkeypatch):
    with pytest.raises(UnreachableError, match="at offset 3: the log now ends there") as caught:
        read(monkeypatch, fetched(data(0, 3), end=3), NEW_LEADER)
    assert caught.value.remedy == "run the same command again"
