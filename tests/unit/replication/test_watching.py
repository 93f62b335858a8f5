"""The owner of a flow hears what is written into the control topic, whatever became of one question."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.own_records import own_batches
from mmtool.plan.documents import WHOLE_FLOW, PauseRecord, State
from mmtool.replication import watching
from mmtool.replication.feed import ControlFeed
from mmtool.replication.watching import PositionsWatch, booked_position
from mmtool.testing.mirror import SOURCE_ID, assigned, fetched

PAUSE = PauseRecord(WHOLE_FLOW, "", paused=True, by="ops@host", since_ms=1, reason="night")
REFUSED = NotAuthorisedError("cluster b refuses the credentials: not loaded yet")


class Leader:
    """Who leads the control topic; each of ``answers`` is what one question ends with, and then nothing comes."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def send_to_leader(self, *_, **__):
        if not self.answers:
            await asyncio.sleep(60)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(partitions=[answer])


@pytest.mark.parametrize(
    "trouble", [REFUSED, IndexError("no partition in the answer")], ids=["denied", "empty"]
)
def test_a_pause_is_heard_after_a_question_that_was_refused(monkeypatch, trouble):
    """A broker that was started anew refuses whoever connects before it knows them; said once, however long."""
    monkeypatch.setattr(watching, "_AGAIN_SECONDS", 0.0, raising=False)
    (batch,) = own_batches([(PAUSE.key, PAUSE.encode())], 1, ())

    async def scene():
        watch = PositionsWatch(None, "me", {})
        leader = Leader(trouble, trouble, fetched(bytes(batch.payload), end=1))
        following = asyncio.create_task(watch._follow(ControlFeed(leader, "control", "id", 0)))
        await asyncio.wait({following}, timeout=0.2)
        following.cancel()
        return watch.holds.of("any", "orders"), watch.news

    hold, news = asyncio.run(scene())
    assert hold is not None
    assert news[0] == f"pauses and failovers cannot be heard of: {trouble}"
    assert len(news) == 2


@pytest.mark.parametrize(
    ("states", "left"),
    [
        ([State.HALTED], {(SOURCE_ID, 0): "denied"}),
        ([State.HALTED, State.RUNNING], {}),
        ([State.RUNNING, State.HALTED], {(SOURCE_ID, 0): "denied"}),
    ],
    ids=["halted", "goes on", "halted by now"],
)
def test_what_goes_on_is_not_halted_any_more_though_the_last_round_s_word_came_late(states, left):
    """It came after the next round had let the partition go: whoever waits for it would take it for given up."""
    halted = {}
    watch = PositionsWatch(None, "me", halted)
    for state in states:
        reason = "denied" if state is State.HALTED else ""
        watch._note((SOURCE_ID, 0), replace(booked_position(assigned(), "me"), state=state, reason=reason))
    assert halted == left
