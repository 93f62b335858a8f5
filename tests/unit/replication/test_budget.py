"""The byte budget bounds what a pump holds, and never blocks for ever."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from mmtool.replication.pump.budget import Budget

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


def test_one_who_wants_more_than_there_is_waits_until_nothing_is_held():
    async def scene():
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
        return order

    assert asyncio.run(scene()) == [400, 700, "goes"]


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


def test_a_flow_that_ends_gives_back_all_that_it_held():
    async def scene():
        budget = Budget(LIMIT, 2)
        stuck, other = budget.account(), budget.account()
        stuck.add(stuck.free)
        waiting = asyncio.create_task(other.wait(LIMIT // 2))
        await asyncio.sleep(0)
        before = waiting.done()
        stuck.close()
        await asyncio.wait_for(waiting, 5)
        return before, other.free

    assert asyncio.run(scene()) == (False, LIMIT * 3 // 4)  # the part of a flow stays its own
