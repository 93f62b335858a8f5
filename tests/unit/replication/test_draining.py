"""A drain that cannot come to its end says so."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from kit.maps import position_of
from kit.scene import PROPERTIES
from mmtool.config import load_settings
from mmtool.errors import GateError, OwnedElsewhereError, RefusedError
from mmtool.events import NoticeDeduplicator
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.records.documents import OwnerRecord, PauseRecord, RefusedRecord, State
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.topics.facts import source_deleted, source_made_again
from mmtool.replication.driver import drain as draining
from mmtool.replication.driver.drain import Drain
from mmtool.replication.driver.progress import FlowsShown
from mmtool.translation.types import TopicPartition

IDENTITY = FlowIdentity("east-id", "west-id", "east", "west")


@pytest.fixture
def drained(tmp_path, monkeypatch):
    """Drain behind an engine that is kept out by an owner, for half a second at the most; how often it was tried."""

    def run(owner):
        tried = []

        class Engine:
            def __init__(self, *_):
                tried.append(owner)

            async def run(self):
                raise OwnedElsewhereError("somebody has the flow", code=owner)

        async def locate(drain):
            drain.identity, drain.goal, drain.names = IDENTITY, {("id-1", 0): 5}, {"id-1": "orders"}

        async def no(*_):
            return False

        monkeypatch.setattr(Drain, "_locate", locate)
        monkeypatch.setattr(Drain, "_is_reached", no)
        monkeypatch.setattr(draining, "Engine", Engine)
        monkeypatch.setattr(draining, "holder_now", lambda *_: None)
        monkeypatch.setattr(draining, "read_control", lambda *_: ControlView())
        monkeypatch.setattr(draining, "_POLL_SECONDS", 0.01)
        (tmp_path / "mm2.properties").write_text(PROPERTIES)
        flow = load_settings(tmp_path / "mm2.properties", {}).flows[0]
        with suppress(GateError):
            asyncio.run(Drain(flow, {}, FlowsShown(print), NoticeDeduplicator(print)).run(0.5))
        return tried

    return run


@pytest.mark.java
def test_where_mirror_maker_runs_the_flow_it_is_refused_and_not_tried_for_ever(drained):
    with pytest.raises(OwnedElsewhereError, match="somebody has the flow"):
        drained("mirror_maker")


@pytest.mark.java
def test_an_owner_that_comes_in_between_is_watched_in_the_end(drained):
    assert len(drained("owned_elsewhere")) > 1


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A drain of the topic ``orders``, by its new id, that somebody else runs; ``watched(words)`` is its end."""

    def run(*words, extra=""):
        control = ControlView()
        for offset, word in enumerate((OWNER, *words)):
            control.apply(word.key, word.encode(), offset)

        async def no(*_):
            return False

        monkeypatch.setattr(Drain, "_is_reached", no)
        monkeypatch.setattr(draining, "holder_now", lambda *_: "somebody")
        monkeypatch.setattr(draining, "read_control", lambda *_: control)
        monkeypatch.setattr(draining, "_POLL_SECONDS", 0.01)
        (tmp_path / "mm2.properties").write_text(PROPERTIES + extra)
        flow = load_settings(tmp_path / "mm2.properties", {}).flows[0]
        drain = Drain(flow, {}, FlowsShown(lambda _: None), NoticeDeduplicator(print))
        drain.identity, drain.goal, drain.names = IDENTITY, {("new-id", 0): 5}, {"new-id": "orders"}

        async def until():
            async with asyncio.timeout(0.5):
                await drain.reach()

        asyncio.run(until())

    return run


OWNER = OwnerRecord("me", "host-1", 4711, since_ms=1)
BEGINS_AGAIN = "mmtool.on.topic.recreated = restart\n"
DELETED = RefusedRecord("me", "orders", source_deleted("orders", 0), gone=True)
OLD = position_of(TopicPartition("orders", 0), "old-id", 60, 60, State.CAUGHT_UP)


@pytest.mark.parametrize(
    ("words", "extra", "why"),
    [
        ([OLD], "", source_made_again("orders")),  # its owner may not have looked yet
        ([RefusedRecord("me", "orders", "it cannot be created")], "", "it cannot be created"),
        ([replace(OLD, topic_id="new-id"), DELETED], BEGINS_AGAIN, "source topic orders was deleted"),
    ],
    ids=["made again", "refused", "deleted meanwhile"],
)
def test_a_drain_does_not_wait_for_a_topic_that_cannot_be_mirrored(watched, words, extra, why):
    with pytest.raises(RefusedError) as refused:
        watched(*words, extra=extra)
    assert f"orders cannot be mirrored: {why}" in refused.value.message


@pytest.mark.parametrize(
    ("word", "code"),
    [
        (
            FailedOverRecord("orders", failed_over=True, operation_id="fo-1", by="ann@east", since_ms=1),
            "failed_over",
        ),
        (PauseRecord("new-id", "orders", paused=True, by="bob@west", since_ms=1, reason=""), "paused"),
    ],
)
def test_a_drain_does_not_wait_for_what_nobody_mirrors(watched, word, code):
    with pytest.raises(RefusedError, match="the remaining records of orders cannot be mirrored: ") as raised:
        watched(word)
    assert raised.value.code == code


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ([RefusedRecord("an earlier one", "orders", "it could not be created")], ""),
        ([OLD], BEGINS_AGAIN),
        ([OLD, DELETED], BEGINS_AGAIN),
    ],
)
def test_a_drain_waits_for_what_is_still_to_come(watched, words, extra):
    """What an earlier owner refused, and what begins again behind the old one's records, said to be deleted or not."""
    with pytest.raises(TimeoutError):
        watched(*words, extra=extra)


@pytest.mark.parametrize("owner", ["me", "an earlier one"])
def test_an_owner_that_does_not_mirror_what_is_waited_for_is_told_of(owner, watched, monkeypatch, capsys):
    """Its properties file names other topics: it is waited for without end, and must not be so in silence."""
    monkeypatch.setattr(draining, "_SPOKEN_OF_SECONDS", 0.1)
    told = replace(position_of(TopicPartition("orders", 0), "new-id", 4, 4, State.CAUGHT_UP), owner=owner)
    with pytest.raises(TimeoutError):
        watched(told)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == (owner != "me")
    assert all("the running `mmtool replicate` does not mirror orders yet" in line for line in said)
