"""Other names of groups on the target: a group map's lines, and the names in force beside the stored ones."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.groups.names import NO_MAP, GroupMap, GroupNames, parse_group_map

SIDES = ("east", "west")
NAMES = st.sampled_from([f"group-{n}" for n in range(5)])
PAIRS = st.dictionaries(NAMES, st.sampled_from([f"name-{n}" for n in range(5)]))
ONE_TO_ONE = PAIRS.filter(lambda pairs: len(set(pairs.values())) == len(pairs))


def names_of(file=(), stored=(), moved=(), there=()):
    names = GroupNames(SIDES, GroupMap(dict(file), "map.csv"))
    names.adopt(dict(stored), moved, lambda: there)
    return names


@pytest.mark.parametrize(
    ("lines", "pairs"),
    [
        (["a,a-dr", "", "b,b-dr"], {"a": "a-dr", "b": "b-dr"}),
        (["source,target", "a,a-dr"], {"a": "a-dr"}),
        (["Source Name, Target Name ", "a , a-dr"], {"a": "a-dr"}),
        (['"a,1","b ""x"""'], {"a,1": 'b "x"'}),
        (["a,a"], {"a": "a"}),
        (["a,x", "a,x"], {"a": "x"}),
        ([], {}),
    ],
)
def test_a_map_has_one_pair_on_each_line(lines, pairs):
    assert parse_group_map(lines) == pairs


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a,x", "b"], "line 2 does not have two names"),
        (["a,x,y"], "line 1 does not have two names"),
        (["a,x", "b, "], "line 2 does not have two names"),
        (["a,x", "b,x"], "line 2: groups a and b have one target name, x"),
        (["a,a", "b,a"], "line 2: groups a and b have one target name, a"),
        (["a,x", "a,y"], "line 2: group a has two target names, x and y"),
        (["a,b", "b,a"], "line 1: a gets the name b, and line 2 gives group b the name a"),
        (["a,b", "b,c"], "line 1: a gets the name b, and line 2 gives group b the name c"),
        (["a,mmtool.x"], "line 1: mmtool.x is a name of mmtool's internal groups"),
        (["a,x", 'b,"y'], "line 2: unexpected end of data"),
        (["source,target", "target,source,"], "line 2 does not have two names"),
    ],
)
def test_a_bad_line_is_named(lines, problem):
    with pytest.raises(ValueError, match=problem):
        parse_group_map(lines)


@given(ONE_TO_ONE, ONE_TO_ONE, st.sets(NAMES))
def test_a_listing_and_a_request_agree_on_every_group(file, stored, moved):
    names = names_of(file, stored, moved, there=stored.values())
    if len(set(names.pairs.values())) < len(names.pairs):
        return  # the file gives a stored name to another group, which is refused
    listed = names.here([*names.pairs.values(), "other"])
    assert {names.there(group) for group in names.pairs} == listed.keys() - {"other"}
    assert all(names.there(group) == name for name, group in listed.items())


@given(ONE_TO_ONE, ONE_TO_ONE, st.sets(NAMES))
def test_a_stored_name_counts_before_the_file_while_its_group_exists(file, stored, moved):
    names = names_of(file, stored, moved, there=stored.values())
    assert {group: names.there(group) for group in stored} == stored
    for group in moved - stored.keys():
        assert names.renamed(group) is None


def test_the_file_counts_again_once_the_target_no_longer_has_the_group_of_the_stored_name():
    assert names_of({"a": "new"}, {"a": "old"}, there=["old"]).there("a") == "old"
    assert names_of({"a": "new"}, {"a": "old"}, there=[]).there("a") == "new"
    assert names_of({"a": "a"}, {"a": "old"}, there=[]).there("a") == "a"
    assert names_of({"a": "new"}, {"a": "old"}, moved=["a"], there=[]).there("a") == "old"


def test_a_group_that_has_the_old_name_of_a_renamed_one_is_not_listed():
    assert names_of({"a": "a-dr"}).here(["a", "a-dr", "b"]) == {"a-dr": "a", "b": "b"}


@pytest.mark.parametrize(
    ("names", "here", "there", "refused"),
    [
        (names_of({"a": "x"}), ["a"], [], {}),
        (names_of({"a": "x"}), ["a", "x"], [], {"a": "also the name of a group of east", "x": "group a"}),
        (names_of({"a": "x"}), ["a"], ["a"], {"a": "west has a group x that this flow did not create"}),
        (names_of({"a": "x"}, {"a": "x"}), ["a"], ["a"], {}),
        (names_of({"b": "x"}, {"a": "x"}, there=["x"]), ["a", "b"], ["a"], {"a": "group b", "b": "group a"}),
        (names_of({"a": "x"}, {"a": "x"}), ["a", "x"], ["a"], {"x": "is also the name of group a"}),
    ],
)
def test_a_name_that_another_group_has_is_refused(names, here, there, refused):
    found = names.refused(here, here, there)
    assert found.keys() == refused.keys()
    assert all(refused[group] in why for group, why in found.items())


def test_a_map_that_is_turned_round_may_name_groups_that_exist():
    names = GroupNames(SIDES, GroupMap({"a": "x"}, "map.csv").inverse)
    names.adopt({}, (), list)
    assert names.refused(["x"], ["x"], ["x"]) == {}
    assert names.there("x") == "a"


def test_without_its_file_only_groups_with_a_stored_name_and_moved_ones_are_written():
    names = GroupNames(SIDES, GroupMap({}, "map.csv", "map.csv: No such file"))
    names.adopt({"a": "x"}, ["b"], list)
    assert names.refused(["a", "b", "c"], [], []).keys() == {"c"}


def test_each_pair_is_stored_once_and_before_it_is_used():
    stored = []
    names = GroupNames(
        SIDES, GroupMap({"a": "x", "b": "b"}, "map.csv"), store=lambda _, records: stored.extend(records)
    )
    names.adopt({}, (), list)
    names.keep(None, ["a", "b", "c"])
    names.keep(None, ["a"])
    assert [(record.group, record.target_group) for record in stored] == [("a", "x")]


def test_a_group_that_gets_its_own_name_back_is_stored_as_such():
    stored = []
    names = GroupNames(
        SIDES, GroupMap({"a": "a"}, "map.csv"), store=lambda _, records: stored.extend(records)
    )
    names.adopt({"a": "old"}, (), list)
    names.keep(None, ["a"])
    assert [(record.group, record.target_group) for record in stored] == [("a", "a")]


def test_what_was_stored_just_now_is_known_before_the_control_topic_shows_it():
    names = names_of({"a": "x"})
    names.keep(None, ["a"])
    names.adopt({}, (), list)
    assert names.refused(["a"], ["a"], ["a"]) == {}


def test_lines_without_effect_are_told():
    names = names_of({"a": "x", "gone": "y"}, {"a": "old"}, there=["old"])
    unknown, kept = names.warnings(["a"])
    assert unknown == "map.csv names groups that east does not have: gone"
    assert kept.startswith("a has another name on west than map.csv says")
    assert kept.endswith("delete group old on west")
    assert list(names_of({"a": "x"}).warnings(["a"])) == []


def test_a_map_travels_to_workers():
    assert pickle.loads(pickle.dumps(NO_MAP)) == NO_MAP  # noqa: S301  what was just written
