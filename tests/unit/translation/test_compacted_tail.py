"""What is left of one sequence of records in two logs is put together again, or it is said that it cannot be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmtool.translation.derive import Appended, Logged, Remains, match_remains


def column(values):
    return np.array(list(values), dtype=np.int64)


@dataclass
class Story:
    """An owner shipped the first ``shipped`` records and vanished; then the cleaner was at both logs.

    Attributes:
        values: What the source's records hold; they lie at every second offset where ``sparse``, markers between them.
        between: How many records of others lie before each record on the target.
        gone_here, gone_there: Which of the shipped ones the cleaner took.
    """

    values: list
    shipped: int
    sparse: bool
    between: list
    gone_here: set
    gone_there: set

    @property
    def up(self):
        return {number: number * 2 if self.sparse else number for number in range(len(self.values))}

    @property
    def down(self):
        at, places = 0, {}
        for number in range(self.shipped):
            at += self.between[number % len(self.between)]
            places[number] = at
            at += 1
        return places

    @property
    def here(self):
        return {n: at for n, at in self.up.items() if n not in self.gone_here}

    @property
    def there(self):
        return {n: at for n, at in self.down.items() if n not in self.gone_there}

    def source(self):
        end = max(self.up.values()) + 1
        gone = {self.up[n] for n in self.gone_here}
        return Remains(0, end, self._logged(self.here), column(at for at in range(end) if at not in gone))

    def target(self):
        end = max(self.down.values(), default=-1) + 1
        gone = {self.down[n] for n in self.gone_there}
        return Remains(0, end, self._logged(self.there), column(at for at in range(end) if at not in gone))

    def _logged(self, places):
        return Logged(column(places.values()), column(self.values[number] for number in places))

    def appended(self, doubts=()):
        return Appended(list(self.down.values()), doubts)

    def found(self, doubts=()):
        return match_remains(self.source(), self.target(), self.appended(doubts))


@st.composite
def stories(draw, *, unlike=True):
    count = draw(st.integers(1, 12))
    values = (
        list(range(100, 100 + count))
        if unlike
        else draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    )
    shipped = draw(st.integers(0, count))
    some = st.sets(st.integers(0, max(shipped - 1, 0)))
    taken = (draw(some), draw(some)) if shipped else (set(), set())
    between = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=1, max_size=4))
    return Story(values, shipped, draw(st.booleans()), between, *taken)


def pairs(found):
    return {r.upstream_start + i: r.downstream_start + i for r in found.runs for i in range(r.count)}


@given(stories())
def test_what_is_left_on_both_sides_belongs_together_again(story):
    found = story.found()
    if found is not None:
        both = story.here.keys() & story.there.keys()
        told = pairs(found)
        assert {story.up[number]: story.down[number] for number in both}.items() <= told.items()
        assert told.items() <= {story.up[number]: story.down[number] for number in story.down}.items()


@given(stories())
def test_where_nothing_else_lay_between_them_what_is_gone_has_its_place_too(story):
    story.sparse = False
    last = story.shipped - 1
    story.gone_here.discard(last)
    story.gone_there.discard(last)
    assert pairs(story.found()) == {story.up[number]: at for number, at in story.down.items()}


@given(stories())
def test_the_mirror_goes_on_behind_what_was_shipped_and_before_what_was_not(story):
    found = story.found()
    if found is not None:
        unshipped = [story.up[number] for number in range(story.shipped, len(story.values))]
        left = [at for number, at in story.here.items() if number < story.shipped]
        assert max([-1, *left]) < found.frontier <= min([*unshipped, story.source().end])


@given(stories())
def test_where_the_last_record_is_left_on_both_sides_it_can_always_be_told(story):
    last = story.shipped - 1
    story.gone_here.discard(last)
    story.gone_there.discard(last)
    assert story.found() is not None


@given(stories(unlike=False))
def test_of_records_alike_one_may_stand_for_another_and_none_for_one_that_is_unlike(story):
    found = story.found()
    if found is None:
        return
    value_up = {at: story.values[number] for number, at in story.here.items()}
    value_down = {at: story.values[number] for number, at in story.there.items()}
    left = [(up, down) for up, down in pairs(found).items() if up in value_up and down in value_down]
    assert all(value_up[up] == value_down[down] for up, down in left)
    passed = {story.values[n] for n, at in story.here.items() if n >= story.shipped and at < found.frontier}
    assert passed <= set(story.values[: story.shipped])


def plain(values, shipped, gone_here=(), gone_there=()):
    return Story(list(values), shipped, False, [0], set(gone_here), set(gone_there))


def test_a_record_that_no_hole_explains_is_of_another_log():
    story = plain([1, 2, 3], 3)
    other = Logged(column([0, 1, 2]), column([1, 9, 3]))
    assert match_remains(Remains(0, 3, other, column([0, 1, 2])), story.target(), story.appended()) is None


def test_whose_last_records_are_gone_from_the_target_is_told_by_the_numbers_of_its_batches_or_not_at_all():
    """Nor where the source has holes there as well."""
    story = plain([1, 2, 3, 4, 5], 4, gone_there=[2, 3])
    found = story.found()
    assert (pairs(found), found.frontier) == ({0: 0, 1: 1, 2: 2, 3: 3}, 4)
    assert story.found(doubts=[4]) is None
    assert plain([1, 2, 3, 4, 5, 6], 4, gone_here=[2], gone_there=[2, 3]).found() is None


def test_between_two_records_that_nobody_knows_the_number_of_nothing_is_matched_by_number():
    """One is gone on either side: they need not be the same where there may have been another batch."""
    story = plain([1, 2, 3], 3, gone_here=[1], gone_there=[1])
    assert pairs(story.found()) == {0: 0, 1: 1, 2: 2}
    assert pairs(story.found(doubts=[1])) == {0: 0, 2: 2}


def test_a_record_of_the_source_for_which_nothing_is_gone_from_the_target_is_of_another_log():
    """It lies between two that belong together, and was never appended between them."""
    source = plain([1, 2, 3], 3).source()
    target = plain([1, 3], 2)
    assert match_remains(source, target.target(), target.appended()) is None
