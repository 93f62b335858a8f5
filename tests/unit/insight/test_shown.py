"""Commits turn after turn: a group that nobody answers for keeps no other one waiting."""

import threading
from concurrent.futures import wait
from types import SimpleNamespace

import pytest

from kit.clusters import FakeCluster
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.insight.group_lookup import ShownCommits
from mmtool.translation.types import ClusterId

NAMES = ("app", "late")
NOBODY, DENIED = UnreachableError("group late has no coordinator"), NotAuthorisedError("it is denied")


@pytest.fixture
def source():
    """A cluster that notes which groups are asked about, in which thread."""
    cluster = FakeCluster("east", ClusterId("here"))
    cluster.groups.committed = {name: {} for name in NAMES}
    asks = cluster.groups.commits_each
    here, of_turns, apart = threading.get_ident(), [], []

    def commits_each(groups, **options):
        (of_turns if threading.get_ident() == here else apart).append(tuple(groups))
        return asks(groups, **options)

    cluster.groups.commits_each = commits_each
    return SimpleNamespace(cluster=cluster, hidden=cluster.groups.hidden, of_turns=of_turns, apart=apart)


class Turns:
    """Turns of a clock that stands still between them."""

    def __init__(self, source):
        self.clock = 1000.0
        self.shown = ShownCommits(lambda: self.clock)
        self._cluster = source.cluster

    def __call__(self, count=1, *, seconds=5.0, names=NAMES):
        for _ in range(count):
            found = self.shown.of(self._cluster, names)
            wait([self.shown._apart] if self.shown._apart else [], 10)
            self.clock += seconds
        return set(found)


@pytest.fixture
def turns(source):
    return Turns(source)


def test_it_costs_the_turn_that_finds_it_and_is_asked_apart_once_a_minute(source, turns):
    source.hidden["late"] = NOBODY
    assert turns(25) == {"app"}
    assert source.of_turns == [NAMES, *[("app",)] * 24]
    assert source.apart == [("late",)] * 3  # at once, and behind 60 and 120 s
    assert turns.shown.denied == {"late": NOBODY}


def test_however_long_it_is_waited_for_apart_turns_go_on(source, turns):
    source.hidden["late"] = NOBODY
    asks, goes_on = source.cluster.groups.commits_each, threading.Event()

    def hangs(groups, **options):
        if tuple(groups) == ("late",):
            goes_on.wait(10)
        return asks(groups, **options)

    source.cluster.groups.commits_each = hangs
    for _ in range(40):
        assert set(turns.shown.of(source.cluster, NAMES)) == {"app"}
        turns.clock += 5
    goes_on.set()
    wait([turns.shown._apart], 10)
    assert source.apart == [("late",)]


def test_once_it_has_answered_it_is_asked_with_all_others_again(source, turns):
    source.hidden["late"] = NOBODY
    turns(2)
    del source.hidden["late"]
    turns(10)
    assert (turns(), turns.shown.denied) == ({"app"}, {"late": NOBODY})
    assert turns() == set(NAMES)
    assert turns.shown.denied == {}


def test_one_that_is_denied_by_then_says_so(source, turns):
    source.hidden["late"] = NOBODY
    turns(2)
    source.hidden["late"] = DENIED
    turns(13)
    assert turns.shown.denied == {"late": DENIED}


def test_one_that_is_denied_is_asked_again_in_a_minute(source, turns):
    source.hidden["late"] = DENIED
    turns(13)
    assert (source.of_turns.count(NAMES), source.apart) == (2, [])


def test_while_nobody_answers_for_any_group_all_of_them_are_asked_in_each_turn(source, turns):
    """The cluster is away: nobody waits for others, and a minute would be long when it is back."""
    source.hidden.update(dict.fromkeys(NAMES, NOBODY))
    for _ in range(3):
        with pytest.raises(UnreachableError):
            turns()
    assert (source.of_turns, source.apart) == ([NAMES] * 3, [])
    source.hidden.clear()
    assert turns() == set(NAMES)


def test_one_that_is_gone_meanwhile_is_forgotten(source, turns):
    source.hidden["late"] = NOBODY
    turns(2)
    turns(names=("app",))
    assert turns.shown.denied == {}
