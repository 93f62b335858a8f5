"""The owner of a flow hears what is written into the control topic, whatever became of one question."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.batches import PlainRecord, batch_of
from kit.mirror import SOURCE_ID, TARGET_ID, assigned, fetched
from kit.wire import on_loop
from mmtool.errors import NotAuthorisedError
from mmtool.events import Event
from mmtool.kafka.state.own_log import own_batches
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.plan.flow.positions import PartitionRow
from mmtool.plan.records.documents import WHOLE_FLOW, Command, ControlRecord, PauseRecord, State
from mmtool.replication.control import control_follower as watching
from mmtool.replication.control.control_follower import ControlFeed, ControlFollower, booked_position

STOP = ControlRecord("me", Command.STOP, 1)


class QuotaLeader:
    """Holds the first fetch back by a quota: its answer names no partition (KIP-219). Then it gives what is there."""

    def __init__(self):
        word = batch_of([PlainRecord(0, key=STOP.key, value=STOP.encode())]).write()
        self.answers = [FetchAnswer(1_000, Code.NONE, []), FetchAnswer(0, Code.NONE, [fetched(word, end=1)])]

    async def send_to_leader(self, *_request, **_purpose):
        return self.answers.pop(0)


@on_loop
async def test_a_word_that_a_quota_holds_back_comes_later(monkeypatch):
    monkeypatch.setattr(watching, "_PAUSE_SECONDS", 0)
    control = ControlFeed(QuotaLeader(), "mmtool-control", TARGET_ID, 0)
    assert [await control.next(), await control.next()] == [[], [STOP]]


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
@on_loop
async def test_a_pause_is_heard_after_a_question_that_was_refused(monkeypatch, trouble):
    """A broker that was started anew refuses whoever connects before it knows them; said once, however long."""
    monkeypatch.setattr(watching, "_AGAIN_SECONDS", 0.0, raising=False)
    (batch,) = own_batches([(PAUSE.key, PAUSE.encode())], 1, ())
    watch = ControlFollower(None, "me", {})
    leader = Leader(trouble, trouble, fetched(bytes(batch.payload), end=1))
    following = asyncio.create_task(watch._follow(ControlFeed(leader, "control", "id", 0)))
    await asyncio.wait({following}, timeout=0.2)
    following.cancel()
    hold, news = (watch.holds.of("any", "orders"), watch.news)
    assert hold is not None
    unread = "topic control of the target cannot be read, so new pauses and failovers have no effect yet"
    assert news[0] == f"{unread}: {trouble}; mmtool keeps trying"
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
    watch = ControlFollower(None, "me", halted)
    for state in states:
        reason = "denied" if state is State.HALTED else ""
        watch._note((SOURCE_ID, 0), replace(booked_position(assigned(), "me"), state=state, reason=reason))
    assert halted == left


def told_of(*positions):
    """What the driver's log has of positions that came one after the other."""
    watch = ControlFollower(None, "me", {})
    for fields in positions:
        position = replace(booked_position(assigned(), "me"), executor="w1/3", round=2, **fields)
        watch._note((SOURCE_ID, 0), position)
    return watch.news


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        ({"state": State.HALTED, "reason": "denied"}, Event.PARTITION_HALTED),
        ({"state": State.RUNNING, "reason": "held at offset 4"}, Event.PARTITION_WAITING),
        ({"gaps": 3, "gaps_end": 9}, Event.DATA_LOSS),
        ({"foreign": 3, "foreign_end": 9}, Event.FOREIGN_RECORDS),
        ({"dead_letters": 1}, Event.DEAD_LETTERS),
        ({"slowed_by": "b"}, Event.QUOTA_THROTTLED),
        ({"waits_for": "broker 1 of b"}, Event.BROKER_SILENT),
    ],
)
def test_what_a_worker_tells_is_an_event_with_its_executor(fields, event):
    started, told = told_of(fields)
    assert (started.event, told.event) == (Event.WORKER_STARTED, event)
    assert {started.fields["executor"], told.fields["executor"]} == {"w1/3"}
    of_partition = event not in {Event.QUOTA_THROTTLED, Event.BROKER_SILENT}
    assert ({"topic", "partition"} <= told.fields.keys()) == of_partition


def test_a_worker_is_heard_of_once_in_a_round():
    news = told_of({}, {}, {"upstream_position": 7})
    assert [told.event for told in news] == [Event.WORKER_STARTED]


def test_a_halted_partition_is_resumed_once_it_has_moved():
    halted = {"state": State.HALTED, "reason": "denied"}
    news = told_of(
        halted, {"state": State.RUNNING}, halted, {"upstream_position": 3}, {"upstream_position": 4}
    )
    events = [told.event for told in news[1:]]
    assert events == [Event.PARTITION_HALTED, Event.PARTITION_RESUMED]


BROKER, OTHER = "broker 2 of west", "broker 1 of east"
SILENT = "{} does not answer: the partitions that it leads wait; mmtool keeps trying"
QUOTA = "throttled by a quota of east"
LARGER = f"{QUOTA}; raise the quota of mmtool's principal if the lag grows"
DELAYS = [
    ({"slowed_by": "east"}, LARGER, "no longer throttled by a quota", QUOTA),
    (
        {"waits_for": BROKER},
        SILENT.format(BROKER),
        f"no partition waits for {BROKER} any more",
        f"waits for {BROKER}, which does not answer",
    ),
]


def noted(watch, *positions):
    """What is said of these partitions that was not said before."""
    before = len(watch.news)
    for partition, fields in positions:
        position = replace(booked_position(assigned(), "me"), partition=partition, **fields)
        watch._note((SOURCE_ID, partition), position)
    return watch.news[before:]


@pytest.mark.parametrize(("fields", "begins", "ends", "reason"), DELAYS, ids=["a quota", "a silent broker"])
def test_what_delays_many_partitions_is_said_once_and_by_status_of_each(fields, begins, ends, reason):
    watch = ControlFollower(None, "me", {})
    assert noted(watch, (0, fields), (1, fields), (0, {}), (0, fields)) == [begins]
    assert noted(watch, (0, {}), (1, {})) == [ends]
    position = replace(booked_position(assigned(), "me"), state=State.RUNNING, **fields)
    assert (PartitionRow.of("east", "west", position, 5).reason, position.notes) == (reason, "")


def test_a_partition_that_waits_for_another_broker_now_is_no_longer_waiting_for_the_first():
    watch = ControlFollower(None, "me", {})
    noted(watch, (0, {"waits_for": BROKER}))
    ended = f"no partition waits for {BROKER} any more"
    assert noted(watch, (0, {"waits_for": OTHER})) == [ended, SILENT.format(OTHER)]
