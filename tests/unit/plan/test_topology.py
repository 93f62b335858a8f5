"""Flows with identical names: which sets of them bring a record to a cluster once, and which repeat it."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.topics.retention import Edge, repetition

_NAMES = "abcde"


def _edges(text, origins="all"):
    return [Edge(*pair.split("->"), origins) for pair in text.split()]


@pytest.mark.parametrize(
    "text", ["a->b", "a->b b->a", "a->b b->c", "a->b a->c", "a->c b->c", "a->b b->a b->c c->b"]
)
def test_pairs_chains_fans_and_trees_carry_each_record_once(text):
    assert repetition(_edges(text)) is None


@pytest.mark.parametrize(
    ("text", "route"), [("a->b b->c c->a", ("a", "b", "c", "a")), ("a->b a->c b->c", ("a", "b", "c"))]
)
def test_a_ring_and_a_second_way_are_named(text, route):
    found = repetition(_edges(text))
    assert found is not None
    assert found[1] == route


def test_a_full_mesh_needs_local_origins():
    mesh = " ".join("->".join(pair) for pair in permutations("abc", 2))
    assert repetition(_edges(mesh)) is not None
    assert repetition(_edges(mesh, "local")) is None


@st.composite
def _graphs(draw):
    pairs = draw(st.sets(st.tuples(st.sampled_from(_NAMES), st.sampled_from(_NAMES)), max_size=12))
    return [Edge(a, b, draw(st.sampled_from(["all", "local"]))) for a, b in sorted(pairs) if a != b]


def _arrivals(edges, born):
    """What really happens to one record: it is carried on from every copy by the rule of its last hop."""
    copies, arrived, hops = [(born, None)], [born], 0
    while copies and hops < 50:
        hops += 1
        at, came_from = copies.pop(0)
        for edge in edges:
            if edge.source != at or edge.target == came_from:
                continue
            if came_from is not None and edge.origins == "local":
                continue
            arrived.append(edge.target)
            copies.append((edge.target, at))
    return arrived


@given(_graphs())
def test_a_graph_is_refused_exactly_when_a_record_would_come_somewhere_twice(edges):
    repeats = any(len(got) != len(set(got)) for got in (_arrivals(edges, name) for name in _NAMES))
    assert (repetition(edges) is not None) == repeats
