"""Sets of characters obey the laws of sets."""

import regex
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config.codepoints import CodePoints

points = st.integers(0, 0x300)
ranges = st.tuples(points, points).map(lambda pair: (min(pair), max(pair)))
sets = st.lists(ranges, max_size=5).map(CodePoints.of)


@given(sets, sets, points)
def test_union_intersection_and_complement_mean_what_they_say(left, right, point):
    assert (point in (left | right)) == (point in left or point in right)
    assert (point in (left & right)) == (point in left and point in right)
    assert (point in ~left) == (point not in left)


@given(sets)
def test_equal_sets_have_equal_ranges(left):
    assert ~~left == left
    assert left | left == left


@given(sets, points)
def test_a_set_written_as_a_class_matches_its_members(members, point):
    assert bool(regex.fullmatch(members.as_class(), chr(point), regex.V1)) == (point in members)


def test_case_is_folded_for_ascii_letters_only():
    folded = CodePoints.chars("aß9K").any_ascii_case()
    assert [char for char in "aAßẞ9Kk\u212a" if ord(char) in folded] == ["a", "A", "ß", "9", "K", "k"]
