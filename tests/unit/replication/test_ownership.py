"""The lease of a flow's owner, whatever was the matter with it before."""

import asyncio
import time
from itertools import repeat
from types import SimpleNamespace

import confluent_kafka
import pytest

from kit.wire import on_loop
from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.kafka.groups.lease import GroupLease
from mmtool.kafka.state.claims import all_or_none
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import FlowPhase
from mmtool.plan.flow.status import FlowMember
from mmtool.replication.ownership import ownership
from mmtool.replication.ownership.ownership import FlowLife, Ownership

DENIED = NotAuthorisedError("READ on group g is denied")
FLOW = SimpleNamespace(
    target=None,
    identity=SimpleNamespace(name="a->b", ownership_group="g", control_topic="c"),
    settings=SimpleNamespace(target=None),
)


def owner(phase):
    """The lease of a flow in that phase, before the group has said anything."""
    return Ownership(FLOW, FlowLife(phase))


class QuietLease(GroupLease):
    """Nobody tells it anything."""

    def start(self):
        pass


def quiet(monkeypatch, holders, look_seconds=0.0):
    """Owners whose group says nothing; each look at who has the lease finds the next of these."""
    told = iter(holders)

    async def lease_holder(*_):
        if isinstance(answer := next(told), Exception):
            raise answer
        return answer

    monkeypatch.setattr(ownership, "GroupLease", QuietLease)
    monkeypatch.setattr(ownership, "lease_holder", lease_holder)
    monkeypatch.setattr(ownership, "LOOK_SECONDS", look_seconds)


@on_loop
async def test_an_owner_whose_right_was_taken_away_and_given_back_owns_again(monkeypatch):
    monkeypatch.setattr(ownership, "GroupLease", QuietLease)
    mine = owner(FlowPhase.JOINING)
    mine._now(False)
    mine._lease.failure = DENIED
    with pytest.raises(NotAuthorisedError):
        await mine.again()
    mine._now(True)
    await mine.again()
    assert mine._life.phase is FlowPhase.OWNED


@on_loop
async def test_an_owner_whose_host_has_another_name_by_now_knows_its_own_lease(monkeypatch):
    """As a host gets one that was cut off and has a new lease: its session is not over yet."""
    holder = SimpleNamespace()
    quiet(monkeypatch, repeat(holder), 0.05)
    mine = owner(FlowPhase.JOINING)
    holder.client_id = mine._lease.client_id
    monkeypatch.setattr(ownership.socket, "gethostname", lambda: "another")
    asyncio.get_running_loop().call_later(0.2, mine._now, True)
    await asyncio.wait_for(mine.again(), 5)
    assert mine._life.is_leased


ANOTHER = FlowMember("host-1-pid-7", "10.0.0.8", holds=True)


def given_up(monkeypatch, answers, back_after=None):
    """Whether an owner that lost its lease gives up, told by each answer who has it meanwhile; and its tasks left."""

    async def scene():
        mine = owner(FlowPhase.OWNED)
        mine.claimed()
        mine._now(False)
        if back_after is not None:
            asyncio.get_running_loop().call_later(back_after, mine._now, True)
        await asyncio.sleep(0.5)
        had = mine._life.phase is FlowPhase.GIVEN_UP
        mine._lease.leave = lambda: mine._now(False)  # as a consumer that is closed says once more
        await mine.release()
        await asyncio.sleep(0)
        return had, len(asyncio.all_tasks()) - 1

    quiet(monkeypatch, answers, 0.02)
    monkeypatch.setattr(ownership, "NOBODY_WAITS_SECONDS", 0.3)
    return asyncio.run(scene())


@pytest.mark.long
@pytest.mark.parametrize("answer", [None, UnreachableError("no answer"), ConnectionLostError("closed")])
def test_an_owner_whose_lease_is_lost_gives_up_nothing_while_nobody_else_is_seen_to_have_it(
    monkeypatch, answer
):
    """As when the coordinator's broker dies: until the controllers know it, no heartbeat is answered."""
    assert given_up(monkeypatch, repeat(answer), back_after=0.2) == (False, 0)


@pytest.mark.parametrize("answers", [[None, ANOTHER], repeat(None)])
def test_it_gives_up_where_another_has_the_lease_or_nobody_lets_it_in(monkeypatch, answers):
    assert given_up(monkeypatch, answers) == (True, 0)


@on_loop
async def test_a_lease_that_is_lost_while_the_shards_are_claimed_is_judged_after_the_claim(monkeypatch):
    """Until then `again` judges it: a flow of which nothing is mirrored has no workers to stop."""
    quiet(monkeypatch, repeat(ANOTHER), 0.01)
    mine = owner(FlowPhase.JOINING)
    mine._lease.leave = lambda: None
    mine._now(True)
    mine._now(False)
    await asyncio.sleep(0.05)
    phases = [mine._life.phase]
    mine.claimed()
    phases.append(mine._life.phase)
    await asyncio.sleep(0.05)
    phases.append(mine._life.phase)
    await mine.release()
    assert phases == [FlowPhase.JOINING, FlowPhase.LOST, FlowPhase.GIVEN_UP]


def newcomer(monkeypatch, holders):
    """One that asks for the lease, and is told each second who has it; when it was told what it ends with."""
    clock = iter(range(1000))

    async def scene():
        mine = owner(FlowPhase.DEFERRED)
        mine._target = SimpleNamespace(alias="west")
        mine._loop = SimpleNamespace(time=lambda: float(next(clock)))
        mine.release = released
        await mine.acquire(standby=False, say=said.append)

    async def released():
        pass

    said = []
    quiet(monkeypatch, holders)
    monkeypatch.setattr(ownership, "_SILENT_SECONDS", 0.0)
    with pytest.raises(MmtoolError) as caught:
        asyncio.run(scene())
    return caught.value, said, next(clock)


def test_a_newcomer_to_a_flow_that_somebody_runs_ends_with_10_after_fifteen_seconds(monkeypatch):
    error, said, seconds = newcomer(monkeypatch, repeat(ANOTHER))
    run_by = "flow a->b is run by host-1-pid-7 on 10.0.0.8"
    assert (error.exit_code, error.message, seconds) == (10, run_by, 16)
    assert said == [f"{run_by}; waiting 15 s at the most"]


def test_one_that_nobody_lets_in_does_not_say_that_somebody_runs_the_flow(monkeypatch):
    error, said, seconds = newcomer(monkeypatch, repeat(None))
    assert (error.exit_code, seconds) == (9, 61)
    assert error.message.endswith("was assigned no partition within 60 s, though no other member has one")
    assert ["flow a->b has no owner yet; waiting 60 s" in told for told in said] == [True]


def test_a_lease_that_is_had_has_nothing_the_matter_with_it():
    consumer = SimpleNamespace(incremental_assign=lambda _: None, pause=lambda _: None)
    told = []
    lease = GroupLease(None, "g", "c", "me", told.append)
    lease.failure = DENIED
    lease._assigned(consumer, ["c-0"])
    assert (lease.failure, told) == (None, [True])


class Member:
    """A consumer that is given the lease at once, and breaks down in the middle of it, but for the last one."""

    left = 2

    def __init__(self, _):
        Member.left -= 1
        self.polls = 0

    def subscribe(self, _, on_assign, **__):
        self.on_assign = on_assign

    def poll(self, seconds):
        self.polls += 1
        if self.polls == 1:
            self.on_assign(SimpleNamespace(incremental_assign=len, pause=len), ["c-0"])
        elif Member.left > 0:
            raise RuntimeError("erroneous state")
        time.sleep(seconds / 10)

    def close(self):
        pass


@on_loop
async def test_an_owner_whose_membership_broke_down_does_not_think_that_it_has_the_lease_and_joins_again(
    monkeypatch,
):
    """Somebody else is given the lease then: two that think they have it would fence each other for ever."""
    monkeypatch.setattr(confluent_kafka, "Consumer", Member)
    monkeypatch.setattr("mmtool.kafka.clients.librdkafka_config", lambda *_, **__: {})
    mine = owner(FlowPhase.JOINING)
    mine._lease.start()
    await asyncio.wait_for(mine._life.leased.wait(), 2)
    for _ in range(2000):
        if not mine._life.is_leased:
            break
        await asyncio.sleep(0.001)
    await asyncio.wait_for(mine.again(), 2)
    had = mine._life.phase
    await mine.release()
    assert had is FlowPhase.OWNED


@on_loop
async def test_of_claims_that_are_made_together_none_goes_on_where_one_fails():
    ended = []

    async def slow():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")

    async def fails():
        await asyncio.sleep(0)
        raise DENIED

    with pytest.raises(NotAuthorisedError):
        await all_or_none([slow(), fails()])
    await asyncio.sleep(0)
    assert (len(asyncio.all_tasks()), ended) == (1, ["slow"])
