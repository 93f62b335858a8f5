"""What a pump may hold, read and write: its bytes, its share of a throttle, and brokers that hold it back."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.wire import on_loop
from mmtool.errors import UnreachableError
from mmtool.plan.records.documents import UseRecord
from mmtool.replication.driver import slot_watch as throttling
from mmtool.replication.driver.slot_watch import Throttling
from mmtool.replication.pump import budget
from mmtool.replication.pump.budget import BURST_SECONDS, STEP_SECONDS, Budget, Quotas, TokenBucket

FLOW = "src-tgt"
ROUND = 3


class Run(SimpleNamespace):
    """A flow without prefills."""

    @property
    def worker_rate(self):
        return self.flow.settings.throttle_bytes_per_second


class Scene:
    """One flow in two tasks that begin with 300 and 700 bytes per second, and a clock."""

    def __init__(self, monkeypatch, rate=1000, shares=(300.0, 700.0)):
        self.now = 100.0
        self.written = []
        self.away = False
        monkeypatch.setattr(throttling.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(throttling, "write_documents", self._write)
        identity = SimpleNamespace(flow=FLOW, control_topic="control")
        settings = SimpleNamespace(throttle_bytes_per_second=rate)
        self.run = Run(
            owner="me",
            flow=SimpleNamespace(identity=identity, settings=settings),
            watch=SimpleNamespace(uses={}),
        )
        tasks = [
            SimpleNamespace(index=n, flows=[SimpleNamespace(identity=identity, bytes_per_second=share)])
            for n, share in enumerate(shares)
        ]
        self.throttling = Throttling(ROUND, [self.run], tasks)

    async def _write(self, flow, topic, documents):
        if self.away:
            raise UnreachableError("away")
        self.written += documents

    def uses(self, *used, of_round=ROUND):
        for task, (count, is_all) in enumerate(used):
            self.run.watch.uses[task] = UseRecord("me", of_round, task, count, is_all)

    def after(self, seconds):
        """The news then, told."""
        self.now += seconds
        return asyncio.run(self.throttling.divide()).get(FLOW)


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_what_the_last_round_carried_counts_until_the_tasks_have_spoken(scene):
    assert scene.after(0) is None
    scene.uses((300, True), (700, True), of_round=ROUND - 1)
    assert scene.after(1) is None
    scene.uses((300, True), (700, True))
    assert scene.after(1) == {0: 500, 1: 500}


def test_a_task_that_does_not_run_gives_its_share_away(scene):
    scene.uses((300, True))
    assert scene.after(2) is None
    told = scene.after(2)
    assert told[0] > 980
    assert 0 < told[1] < 20


def test_another_rate_is_told_at_once_also_the_first_and_none(scene):
    scene.run.flow.settings.throttle_bytes_per_second = 1020
    assert sum(scene.after(1).values()) == pytest.approx(1020)
    scene.run.flow.settings.throttle_bytes_per_second = None
    assert scene.after(1) == {0: None, 1: None}
    assert scene.after(1) is None
    scene.run.flow.settings.throttle_bytes_per_second = 500
    assert scene.after(1) == {0: 250, 1: 250}
    assert [record.shares for record in scene.written[1:]] == [{"0": None, "1": None}, {"0": 250, "1": 250}]


def test_what_the_target_did_not_take_is_told_again(scene):
    scene.run.flow.settings.throttle_bytes_per_second = 400
    scene.away = True
    first = scene.after(1)
    scene.away = False
    assert (scene.after(1), len(scene.written)) == (first, 1)


def test_no_share_is_told_as_none_at_all(monkeypatch):
    scene = Scene(monkeypatch, rate=1, shares=(1e9, 1e9))
    scene.after(1)
    assert scene.written[0].shares == {"0": 1, "1": 1}


def test_a_flow_without_a_throttle_is_not_spoken_of(monkeypatch):
    scene = Scene(monkeypatch, rate=None, shares=(None, None))
    assert [scene.after(1) for _ in range(5)] == [None] * 5


LIMIT = 1000


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_reserved_and_held_stay_within_the_limit(fetches, chance):
    """Each fetch reserves, brings at most what it reserved, and is acknowledged at some time."""

    async def scene():
        budget, seen = Budget(LIMIT).account(), []

        async def fetch(reserve, brings):
            await budget.wait(reserve)
            budget.add(reserve)
            seen.append(LIMIT - budget.free)
            await asyncio.sleep(0)
            budget.add(-reserve)
            budget.add(min(brings, reserve))
            seen.append(LIMIT - budget.free)
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            budget.add(-min(brings, reserve))

        async with asyncio.timeout(5):
            await asyncio.gather(*(fetch(*of) for of in fetches))
        return max(seen), budget.free

    most, free = asyncio.run(scene())
    assert most <= LIMIT
    assert free == LIMIT


@on_loop
async def test_one_who_wants_more_than_there_is_waits_until_nothing_is_held():
    budget, order = Budget(LIMIT).account(), []
    budget.add(600)

    async def wants():
        await budget.wait(5 * LIMIT)
        order.append("goes")

    waiting = asyncio.create_task(wants())
    for step in (-300, -300):
        await asyncio.sleep(0)
        order.append(budget.free)
        budget.add(step)
    await waiting
    assert order == [400, 700, "goes"]


def test_a_first_batch_larger_than_the_limit_is_held_all_the_same():
    budget = Budget(LIMIT).account()
    budget.add(3 * LIMIT)
    assert budget.free == 0


@given(st.integers(2, 5), st.data())
def test_flows_together_stay_within_the_limit_and_each_has_its_part(count, data):
    budget = Budget(LIMIT, count)
    flows = [budget.account() for _ in range(count)]
    for _ in range(data.draw(st.integers(0, 30))):
        flow = data.draw(st.sampled_from(flows))
        flow.add(data.draw(st.integers(-flow.used, flow.free)))
        assert sum(f.used for f in flows) <= LIMIT
        assert all(f.free >= LIMIT // (2 * count) for f in flows if not f.used)


@on_loop
async def test_a_flow_that_ends_gives_back_all_that_it_held():
    budget = Budget(LIMIT, 2)
    stuck, other = budget.account(), budget.account()
    stuck.add(stuck.free)
    waiting = asyncio.create_task(other.wait(LIMIT // 2))
    await asyncio.sleep(0)
    before = waiting.done()
    stuck.close()
    await asyncio.wait_for(waiting, 5)
    assert (before, other.free) == (False, LIMIT * 3 // 4)  # the part of a flow stays its own


RATES = st.floats(1024, 1e9)
SIZES = st.lists(st.floats(0.001, 3.0), min_size=2, max_size=60)
PAUSES = st.lists(st.floats(0.0, 2.0), min_size=2, max_size=60)


def takings(rate, sizes, pauses):
    """Whoever takes only when nothing is to be waited for: (when, how much), sizes in seconds of the rate."""
    bucket, now = TokenBucket(rate, 0.0), 0.0
    found = []
    for size, pause in zip(sizes, pauses, strict=False):
        now += pause
        while (seconds := bucket.wait_seconds(now)) > 0:
            now += seconds + 1e-6
        bucket.take(size * rate, now)
        found.append((now, size * rate))
    return found


@given(RATES, SIZES, PAUSES)
def test_no_span_of_time_sees_more_than_the_rate_the_burst_and_one_batch(rate, sizes, pauses):
    found = takings(rate, sizes, pauses)
    for first in range(len(found)):
        for last in range(first, len(found)):
            seconds = found[last][0] - found[first][0]
            before = sum(size for _, size in found[first:last])  # the last one may be of any size
            assert before <= rate * (seconds + BURST_SECONDS) * (1 + 1e-6)


@given(RATES, SIZES)
def test_who_always_has_something_to_move_moves_at_the_rate(rate, sizes):
    """A batch of any size goes, and what it is worth is waited for afterwards and not longer."""
    found = takings(rate, sizes, [0.0] * len(sizes))
    moved = sum(size for _, size in found[:-1])
    assert found[-1][0] <= moved / rate + STEP_SECONDS + 1e-3


def test_what_runs_over_is_told_from_what_was_used():
    bucket = TokenBucket(100.0, 0.0)
    bucket.take(50, 1.0)
    assert bucket.use(1.0).bytes_per_second == pytest.approx(50)
    assert bucket.use(1.0).is_all  # nothing is known of no time at all
    bucket.take(1000, 1.0)
    use = bucket.use(3.0)
    assert (use.is_all, use.bytes_per_second) == (True, pytest.approx(100))
    assert not bucket.use(30.0).is_all


@given(RATES, RATES, st.floats(0, 10))
def test_another_rate_makes_nobody_wait_longer_than_for_what_was_taken(old, new, debt_seconds):
    bucket = TokenBucket(old, 0.0)
    bucket.take(old * debt_seconds, 0.0)
    before = bucket.wait_seconds(0.0)
    bucket.set_rate(new, 0.0)
    assert bucket.wait_seconds(0.0) <= before * (1 + 1e-6) + STEP_SECONDS
    assert bucket.balance(100.0) <= new * BURST_SECONDS * (1 + 1e-6)


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(budget.time, "monotonic", lambda: now.seconds)
    return now


def test_clusters_are_named_while_they_make_their_client_wait_for_long_and_a_while_after(clock):
    held = Quotas()
    held.note("north", 499)
    held.note("west", 20_000)
    held.note("east", 900)
    assert held.of == "east and west"
