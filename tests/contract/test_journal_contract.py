"""What an operation is kept by promises, in memory and on a real broker alike: journal, marks, operation lock."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from kit.batches import PlainRecord, batch_of
from kit.clusters import FakeFlowState
from kit.lab_admin import configs_of
from kit.operations import FakeJournal, FakeLock, FakeMarks
from kit.raw_producer import append_batches
from mmtool.config import ClusterSettings
from mmtool.errors import OwnedElsewhereError, RefusedError, UnreachableError
from mmtool.failover.operation.journal import About, Journalist
from mmtool.failover.operation.records import recorded
from mmtool.kafka.groups.lease import OperationLock
from mmtool.kafka.state.flow_state import KafkaFlowState
from mmtool.kafka.state.journal import KafkaJournal, KafkaMarks
from mmtool.lab.topics import topics_of
from mmtool.plan.failover.risks import Loss, Risk
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.records.identity import JOURNAL_TOPIC, FlowIdentity
from mmtool.plan.records.journal import EntryKind, JournalEntry, group_body, group_of
from mmtool.plan.records.marks import FailedOverRecord, MovedGroupRecord
from mmtool.translation.answers import Bounded, Knowledge
from mmtool.translation.types import ClusterId, DownstreamOffset, TopicPartition

SECONDS = 30.0
GROUPS, PARTITIONS = 1_000, 20
WAITS_SECONDS = 15.0
"""How long a newcomer waits for a lock; a dead holder's session ends before that."""


@dataclass
class OnFake:
    """A target in memory."""

    queue: list[FakeLock] = field(default_factory=list)
    state: FakeFlowState = field(default_factory=FakeFlowState)
    kept: FakeJournal = field(default_factory=FakeJournal)

    def journal(self):
        return self.kept

    def put(self, key, value):
        """What somebody else has written into the journal."""
        self.kept.stored[key] = value

    def marks(self):
        return FakeMarks(self.state)

    def control(self):
        return self.state.view

    def lock(self):
        return FakeLock(queue=self.queue)


class OnBroker:
    """A real one."""

    def __init__(self, lab, alias):
        self.settings = ClusterSettings(alias="lab", bootstrap_servers=lab.bootstrap)
        self.identity = FlowIdentity(ClusterId(alias), ClusterId(lab.cluster_id), alias, "lab")

    def journal(self):
        return KafkaJournal(self.settings, 1, SECONDS)

    def put(self, key, value):
        record = PlainRecord(0, int(time.time() * 1000), key, value)
        append_batches(self.settings.bootstrap_servers, JOURNAL_TOPIC, 0, [batch_of([record])])

    def marks(self):
        return KafkaMarks(self.settings, self.identity, 1, SECONDS)

    def control(self):
        return KafkaFlowState(self.settings).control(self.identity)

    def lock(self):
        return OperationLock(self.settings, self.identity.source_alias, self.journal().prepare)


@pytest.fixture
def broker(fleet, topic_name):
    return OnBroker(fleet["target"], topic_name("east"))


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka)])
def side(request):
    return OnFake() if request.param == "fake" else request.getfixturevalue("broker")


@pytest.fixture
def operation_id(topic_name):
    return topic_name("20260101T000000Z")


@pytest.fixture
def decoded(monkeypatch):
    """The journal entries that this process has decoded."""
    found, decode = [], JournalEntry.decode

    def counted(value):
        found.append(decode(value))
        return found[-1]

    monkeypatch.setattr(JournalEntry, "decode", counted)
    return found


def began(operation_id, groups=("app",)):
    body = {
        "mode": "emergency",
        "source": "east",
        "target": "lab",
        "source_id": None,
        "target_id": "lab-id",
        "groups": list(groups),
        "steps": [["check_groups", "looks"], ["write", "writes"]],
        "step_states": {},
        "reason": "fire, and \u706b",
    }
    about = EntryKind.BEGAN, 1, "ann@host-1", "running"
    return JournalEntry(operation_id, 1, *about, past_return=False, body=body)


def steps_after(first, count):
    body = {"step": "check_groups", "step_state": "running"}
    return [replace(first, number=n, kind=EntryKind.STEP, body=body) for n in range(2, count + 2)]


def of(operation_id, journal):
    return [entry for entry in journal.entries() if entry.operation_id == operation_id]


def plan_of(group, partitions):
    places = [TopicPartition("orders", number) for number in range(partitions)]
    verdicts = tuple(
        OffsetVerdict(
            group,
            place,
            place._replace(topic="east.orders"),
            Commit(1_000_000 + place.partition, "kept"),
            Bounded(DownstreamOffset(990_000 + place.partition), 10_000),
            before=Commit(17),
            knowledge=Knowledge.CHECKPOINTS,
        )
        for place in places
    )
    return GroupPlan(group, Direction.FORWARD, verdicts), {
        (group, at): Risk(Loss(5, 5), 10_000, 3.25) for at in places
    }


# --- the journal -------------------------------------------------------------------------------------------


def test_what_was_appended_is_read_in_its_order_by_anybody(side, operation_id):
    first = began(operation_id)
    entries = [first, *steps_after(first, 5)]
    journal = side.journal()
    journal.append(entries[:1])
    journal.append(entries[1:])
    assert of(operation_id, side.journal()) == entries


def test_an_entry_that_is_appended_again_is_there_once(side, operation_id):
    """After an error that leaves in doubt what was written."""
    journal, first = side.journal(), began(operation_id)
    journal.append([first])
    journal.append([first])
    assert of(operation_id, journal) == [first]


@pytest.mark.long
def test_an_operation_of_a_thousand_groups_is_read_back_whole(broker, operation_id, measured):
    names = [f"{operation_id}-{number:04}" for number in range(GROUPS)]
    plans = [plan_of(name, PARTITIONS) for name in names]
    first, journal = began(operation_id, names), broker.journal()
    bodies = [group_body(plan, risks) for plan, risks in plans]
    told = [replace(first, number=n, kind=EntryKind.GROUP, body=body) for n, body in enumerate(bodies, 2)]
    journal.append([first])
    beginning = time.monotonic()
    journal.append(told)
    took = time.monotonic() - beginning
    (found,) = [one for one in recorded(broker.journal().entries()) if one.operation_id == operation_id]
    assert found.entries == GROUPS + 1
    assert {group.group: group for group in found.operation.plan.groups} == {p.group: p for p, _ in plans}
    assert found.operation.plan.risks == {at: risk for _, risks in plans for at, risk in risks.items()}
    measured(f"intents of {GROUPS} x {PARTITIONS} on record in {took:.2f} s")


@pytest.mark.long
def test_an_operation_on_a_group_of_ten_thousand_partitions_fits(broker, operation_id):
    plan, risks = plan_of(f"{operation_id}-wide", 10_000)
    first, journal = began(operation_id, [plan.group]), broker.journal()
    journal.append([first, replace(first, number=2, kind=EntryKind.GROUP, body=group_body(plan, risks))])
    assert group_of(of(operation_id, broker.journal())[1].body) == (plan, risks)


def test_what_others_wrote_meanwhile_is_read_and_nothing_twice(broker, operation_id, decoded):
    journal, first = broker.journal(), began(operation_id)
    journal.append([first])
    assert of(operation_id, journal) == [first]
    decoded.clear()
    more = steps_after(first, 3)
    broker.journal().append(more)
    assert of(operation_id, journal) == [first, *more]
    assert of(operation_id, journal) == [first, *more]
    assert of(operation_id, broker.journal()) == [first, *more], "a process has one reader"
    assert decoded == more


def test_twice_as_many_groups_make_twice_the_reading_however_often_the_lock_is_checked(
    broker, operation_id, decoded
):
    def work(count):
        first = began(f"{operation_id}-{count}")
        told = [
            replace(first, number=n, kind=EntryKind.GROUP, body=group_body(*plan_of(f"app-{n}", 3)))
            for n in range(2, count + 2)
        ]
        broker.journal().append([first, *told])
        decoded.clear()
        now = iter(range(0, 10**9, 3600))
        journal = broker.journal()
        (found,) = recorded(of(first.operation_id, journal))
        about = About(found.names, found.source_id, found.target_id, found.group_names, "", found.by)
        journalist = Journalist(journal, about, found.entries, clock=now.__next__)
        journalist.operation = found.operation
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: journalist.still_ours(), range(count)))
        return len([entry for entry in decoded if entry.operation_id == first.operation_id])

    assert (work(50), work(100)) == (51, 101)


@pytest.mark.parametrize("spoilt", ["cut off", "of a newer version", "changed"])
def test_an_entry_that_cannot_be_read_is_refused_and_not_passed_over(side, operation_id, spoilt):
    journal, first = side.journal(), began(operation_id)
    journal.append([first])
    value = first.encode()
    damaged = {
        "cut off": value[:-1],
        "of a newer version": value.replace(b'"v":1', b'"v":2'),
        "changed": value.replace(b"ann", b"eve"),
    }
    side.put(first.key, damaged[spoilt])
    try:
        with pytest.raises(RefusedError) as caught:
            side.journal().entries()
    finally:
        side.put(first.key, value)  # the topic is everybody's
    assert caught.value.code == "unreadable_state"
    assert of(operation_id, side.journal()) == [first]


def test_the_journals_topic_is_compacted_and_has_one_partition(broker, operation_id):
    broker.journal().append([began(operation_id)])
    bootstrap = broker.settings.bootstrap_servers
    config = configs_of(bootstrap, [JOURNAL_TOPIC])[JOURNAL_TOPIC]
    assert (topics_of(bootstrap)[JOURNAL_TOPIC], config["cleanup.policy"]) == (1, "compact")


def test_a_target_that_is_away_is_nine_within_its_time(operation_id):
    away = ClusterSettings(alias="gone", bootstrap_servers="127.0.0.1:1")
    beginning = time.monotonic()
    with pytest.raises(UnreachableError, match="gone"):
        KafkaJournal(away, 1, 2.0).append([began(operation_id)])
    assert time.monotonic() - beginning < 10


# --- marks -------------------------------------------------------------------------------------------------


def failed_over(topic, *, now=True):
    return FailedOverRecord(topic, now, "op-1", "ann@host-1", 1)


def moved(group, *, now=True):
    return MovedGroupRecord(group, now, "op-1", "ann@host-1", 1)


def in_force(side):
    control = side.control()
    return set(control.failed_over), set(control.moved)


def test_a_mark_that_was_written_is_read_by_whoever_runs_the_flow(side):
    side.marks().write([failed_over("orders"), failed_over("bills"), moved("app")])
    assert in_force(side) == ({"orders", "bills"}, {"app"})
    assert side.control().failed_over["orders"] == failed_over("orders")


def test_a_mark_that_is_written_again_changes_nothing(side):
    for _ in range(2):
        side.marks().write([failed_over("orders"), moved("app")])
    assert in_force(side) == ({"orders"}, {"app"})


def test_the_last_word_about_each_topic_and_group_counts(side):
    side.marks().write([failed_over("orders"), moved("app"), moved("other")])
    side.marks().write([failed_over("orders", now=False), moved("app", now=False)])
    assert in_force(side) == (set(), {"other"})


def test_no_mark_is_no_write(side):
    side.marks().write([])
    assert in_force(side) == (set(), set())


def test_marks_of_a_thousand_groups_are_written_together(side):
    names = [f"app-{number}" for number in range(GROUPS)]
    side.marks().write([moved(name) for name in names])
    assert in_force(side) == (set(), set(names))


def test_a_mark_goes_to_the_flows_own_target_and_nowhere_else(broker):
    broker.identity = replace(broker.identity, target_id=ClusterId("another"))
    with pytest.raises(RefusedError, match="another"):
        broker.marks().write([failed_over("orders")])


# --- the operation lock -----------------------------------------------------------------------------------


@pytest.fixture
def locks(side):
    """Makes locks; at the end everybody leaves."""
    made = []

    def another():
        made.append(side.lock())
        return made[-1]

    yield another
    for lock in made:
        lock.leave()


def test_the_lock_is_had_at_once_and_as_often_as_one_asks(locks):
    lock = locks()
    lock.join()
    beginning = time.monotonic()
    for _ in range(3):
        lock.hold()
    assert time.monotonic() - beginning < 5


def test_who_leaves_lets_the_next_one_in_at_once(locks):
    first, second = locks(), locks()
    first.join()
    first.hold()
    second.join()
    first.leave()
    beginning = time.monotonic()
    second.hold()
    assert time.monotonic() - beginning < 3


def test_who_never_joined_may_leave(locks):
    locks().leave()


def test_one_that_comes_to_a_lock_that_is_held_is_told_by_whom(locks, measured):
    first, second = locks(), locks()
    first.join()
    first.hold()
    second.join()
    beginning = time.monotonic()
    with pytest.raises(OwnedElsewhereError, match="operator") as caught:
        second.hold()
    took = time.monotonic() - beginning
    assert (caught.value.exit_code, took < WAITS_SECONDS + 2) == (10, True)
    first.hold()  # a live holder keeps it, whoever else comes
    measured(f"told who has the operation lock after {took:.1f} s")


_MEMBER = """
import sys, time
from mmtool.config import ClusterSettings
from mmtool.kafka.state.journal import KafkaJournal
from mmtool.kafka.groups.lease import OperationLock
target = ClusterSettings(alias="lab", bootstrap_servers=sys.argv[1])
lock = OperationLock(target, sys.argv[2], KafkaJournal(target, 1, 30.0).prepare)
lock.join()
print("joins", flush=True)
lock.hold()
print("held", flush=True)
time.sleep(600)
"""


def kill_member(broker, *, when, seconds=0.0):
    """Another process on this host, killed so long after it said that."""
    arguments = [broker.settings.bootstrap_servers, broker.identity.source_alias]
    with subprocess.Popen(
        [sys.executable, "-c", _MEMBER, *arguments], stdout=subprocess.PIPE, text=True
    ) as member:
        assert when in iter(member.stdout.readline, "")
        time.sleep(seconds)
        member.kill()


def seconds_to_have_the_lock(broker):
    lock = broker.lock()
    beginning = time.monotonic()
    lock.join()
    lock.hold()
    took = time.monotonic() - beginning
    lock.leave()
    return took


def test_members_that_were_killed_while_they_joined_are_waited_for_and_not_taken_for_alive(broker, measured):
    """The group counts them, and may give the lock to one after the other, until their sessions end."""
    kill_member(broker, when="held\n")
    for _ in range(2):
        kill_member(broker, when="joins\n", seconds=1.0)
    took = seconds_to_have_the_lock(broker)
    measured(f"the lock was had {took:.1f} s after three members were killed, two of them while they joined")
