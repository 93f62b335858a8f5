"""Whole shards are spread over tasks, evenly and always the same way."""

from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.flow.slots import ShardLoad, pack

_WEIGHTS = st.integers(0, 1 << 40).map(float)  # bytes per second; whole numbers add up without rounding


@st.composite
def loads(draw):
    places = draw(st.lists(st.tuples(st.sampled_from(["a-b", "b-a"]), st.integers(0, 31)), unique=True))
    return [ShardLoad(flow, shard, draw(_WEIGHTS)) for flow, shard in places]


@given(loads(), st.integers(1, 12))
def test_every_shard_is_in_one_task_and_no_task_is_empty(given_loads, tasks):
    piles = pack(given_loads, tasks)
    packed = [load for pile in piles for load in pile]
    assert sorted(packed, key=repr) == sorted(given_loads, key=repr)
    assert len(piles) == min(tasks, len(given_loads))
    assert all(piles)


@given(loads(), st.integers(1, 12))
def test_no_task_is_heavier_than_the_lightest_by_more_than_its_lightest_shard(given_loads, tasks):
    piles = pack(given_loads, tasks)
    weights = [sum(load.weight for load in pile) for pile in piles]
    for pile, weight in zip(piles, weights, strict=True):
        assert weight - min(weights) <= min(load.weight for load in pile)


@given(loads(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_order_of_the_shards_does_not_matter(given_loads, tasks, chance):
    shuffled = list(given_loads)
    chance.shuffle(shuffled)
    assert pack(shuffled, tasks) == pack(given_loads, tasks)


def test_without_shards_there_are_no_tasks():
    assert pack([], 4) == []
