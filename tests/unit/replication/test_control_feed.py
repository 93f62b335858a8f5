"""Following the control topic: a broker that holds back what is asked for has said nothing, and nothing is wrong."""

from __future__ import annotations

import asyncio

from kit.batches import PlainRecord, batch_of
from kit.mirror import TARGET_ID, fetched
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.plan.records.documents import Command, ControlRecord
from mmtool.replication.control import feed

STOP = ControlRecord("me", Command.STOP, 1)


class Leader:
    """Holds the first fetch back by a quota: its answer names no partition (KIP-219). Then it gives what is there."""

    def __init__(self):
        word = batch_of([PlainRecord(0, key=STOP.key, value=STOP.encode())]).write()
        self.answers = [FetchAnswer(1_000, Code.NONE, []), FetchAnswer(0, Code.NONE, [fetched(word, end=1)])]

    async def send_to_leader(self, *_request, **_purpose):
        return self.answers.pop(0)


def test_a_word_that_a_quota_holds_back_comes_later(monkeypatch):
    monkeypatch.setattr(feed, "_PAUSE_SECONDS", 0)

    async def scene():
        control = feed.ControlFeed(Leader(), "mmtool-control", TARGET_ID, 0)
        return [await control.next(), await control.next()]

    assert asyncio.run(scene()) == [[], [STOP]]
