"""Questions of callers without an event loop, and what one leaves behind that is not answered."""

import asyncio
import gc
import signal
import threading
from types import SimpleNamespace

import pytest

from mmtool.errors import UnreachableError
from mmtool.kafka.errors import CUT_SHORT, NO_LEADER, THROTTLED
from mmtool.kafka.wire import blocking_client
from mmtool.kafka.wire.blocking_client import BlockingWireClient, _Errand
from mmtool.kafka.wire.cluster import ConnectionLostError


class HungOnce:
    """A cluster whose first connections lead to a broker that hangs; whoever begins anew finds another one there."""

    alias = "east"

    def __init__(self):
        self.began = self.closed = 0

    async def start(self):
        self.began += 1

    async def close(self):
        self.closed += 1

    async def answer(self):
        if not self.closed:
            await asyncio.Event().wait()
        return self.began


def test_a_question_that_a_broker_leaves_unanswered_does_not_keep_the_next_one_from_another_broker():
    """The connection to one that hangs stays open, and who leads by now is told by the others only."""
    wire = BlockingWireClient(HungOnce(), 0.1)
    with pytest.raises(UnreachableError, match=r"east: asking failed: no answer within 0\.1 s"):
        wire.ask(HungOnce.answer, "asking")
    assert [wire.ask(HungOnce.answer, "asking") for _ in range(2)] == [2, 2]


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (
            THROTTLED,
            "raise the quota of mmtool's principal on east, or wait for less load, then run the same command again",
        ),
        (CUT_SHORT, "run the same command again"),
        (NO_LEADER, "check that every partition of the topic has a leader on east"),
        ("", "check east.bootstrap.servers, and that the brokers of east run"),
    ],
)
def test_the_remedy_of_a_lost_connection_is_that_of_its_cause(cause, remedy):
    async def lost(_):
        raise ConnectionLostError("orders-0 of east cannot be read", cause)

    with pytest.raises(UnreachableError) as caught:
        BlockingWireClient(HungOnce(), 10.0).ask(lost, "reading transactions")
    assert caught.value.remedy == remedy
    assert caught.value.message.startswith("cluster east: reading transactions failed: orders-0")


def test_a_question_that_may_be_repeated_outlives_a_lost_connection():
    lost = [ConnectionLostError("broker 1 is away"), ConnectionLostError("broker 1 is away")]

    async def ask(_):
        if lost:
            raise lost.pop()
        return "answer"

    assert BlockingWireClient(HungOnce(), 10.0, patience=5.0).ask(ask, "listing topics") == "answer"


def test_who_is_interrupted_does_not_go_on_asking_behind_what_takes_it_back():
    """A rule that a hung controller has not made yet was made behind its removal, and a mark set behind its lifting."""
    wire, asked = BlockingWireClient(HungOnce(), 10.0), []

    async def again_and_again(_):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        while True:
            asked.append("deny")
            await asyncio.sleep(0.005)

    async def taken_back(_):
        asked.append("remove")
        await asyncio.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        wire.ask(again_and_again, "changing ACLs")
    wire.ask(taken_back, "changing ACLs")
    assert asked[-1] == "remove"


def test_a_question_that_is_given_up_before_it_began_is_never_asked():
    """An interrupt may come between its being handed over and its first step."""
    asked, errand = [], _Errand()

    async def ask():
        asked.append("deny")

    errand.give_up()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(errand.run(ask()))
    assert asked == []


def test_a_client_that_is_collected_while_the_loop_begins_holds_nobody_up(monkeypatch):
    """The collector runs at any allocation, on the thread that begins the loop as well."""
    begin, made = asyncio.new_event_loop, []
    clients = [BlockingWireClient(SimpleNamespace(alias="east", close=None), 1.0)]

    def collecting():
        clients.clear()
        gc.collect()
        made.append(begin())
        return made[0]

    monkeypatch.setattr(blocking_client, "_begun", None)
    monkeypatch.setattr(asyncio, "new_event_loop", collecting)
    beginning = threading.Thread(target=blocking_client._loop, daemon=True)
    beginning.start()
    beginning.join(10)
    assert not beginning.is_alive()
    made[0].call_soon_threadsafe(made[0].stop)
