"""What an owner refuses to mirror is on record as long as it refuses it, and no longer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import UnreachableError
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.records.documents import OwnerRecord, RefusedRecord
from mmtool.replication.ownership import internal_topics
from mmtool.replication.ownership.internal_topics import Refusals

DENIED = {"orders": "CREATE is denied", "bills": "CREATE is denied"}


@pytest.fixture
def target(monkeypatch):
    """A control topic that owner ``me`` has taken after ``before``; ``writes`` counts who came there to write."""
    view = ControlView()
    for word in (RefusedRecord("before", "orders", "it could not be created"), OwnerRecord("me", "h", 1, 1)):
        view.apply(word.key, word.encode(), view.end)
    made = SimpleNamespace(view=view, writes=0, away=False)

    async def write(_flow, _topic, documents, *, tombstones):
        made.writes += 1
        if made.away:
            raise UnreachableError("west does not answer")
        records = [(word.key, word.encode()) for word in documents] + [(key, None) for key in tombstones]
        for key, value in records:
            view.apply(key, value, view.end)

    monkeypatch.setattr(internal_topics, "write_documents", write)
    made.words = Refusals(SimpleNamespace(identity=SimpleNamespace(control_topic="control")), "me")
    made.words.start(view)
    return made


def tell(target, reasons):
    asyncio.run(target.words.tell(reasons))
    return target.view.refused


def test_what_is_refused_is_on_record_until_it_is_not_any_more(target):
    assert tell(target, DENIED) == DENIED
    assert tell(target, {"bills": "CREATE is denied"}) == {"bills": "CREATE is denied"}
    assert (tell(target, {}), target.view.refusals) == ({}, {})


def test_of_what_the_source_has_no_more_the_word_says_so_until_it_is_refused_for_something_else(target):
    asyncio.run(target.words.tell(DENIED, {"bills"}))
    assert target.view.refused_beside({"orders", "bills"}) == {"orders": "CREATE is denied"}
    assert tell(target, DENIED) == target.view.refused_beside({"orders", "bills"}) == DENIED


def test_what_is_on_record_is_not_written_again(target):
    for _ in range(3):
        tell(target, DENIED)
    assert target.writes == 1


def test_a_target_that_is_away_is_told_at_the_next_look_and_keeps_nothing_waiting(target):
    target.away = True
    assert tell(target, DENIED) == {}
    target.away = False
    assert tell(target, DENIED) == DENIED
