"""Kafka's reset file, as its own tools write it and as people edit it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.groups.imports import ResetLine, parse_groups_csv, parse_reset_csv, write_reset_csv
from mmtool.translation.types import TopicPartition


def test_three_columns_are_topic_partition_and_offset():
    found = parse_reset_csv(["orders,0,42", "", '"a,b",1, 7'])
    assert {str(place): offset for place, offset in found.items()} == {"orders-0": 42, "a,b-1": 7}


def test_a_heading_is_passed_over_where_headings_stand():
    assert parse_reset_csv(["topic,partition,offset", "a,0,7"]) == parse_reset_csv(["a,0,7"])
    with pytest.raises(ValueError, match="line 2"):
        parse_reset_csv(["a,0,7", "topic,partition,offset"])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["app,orders,0,42"], "line 1 has a fourth column: expected topic,partition,offset without a group"),
        (["orders,0"], "line 1 is 'orders,0': expected topic,partition,offset"),
        (["orders,0,42", "topic,partition,offset"], "line 2"),
        (["orders,0,-1"], "line 1"),
        (["orders,0,1", ",0,2"], "line 2 is ',0,2': expected topic,partition,offset"),
        (["orders,4200000000,1"], "line 1 is 'orders,4200000000,1': expected topic,partition,offset"),
        (["orders,0,1", "x" * 200_000], "line 2: field larger than field limit"),
        (["orders,0,1", "orders,0,2"], "line 2: orders-0 has two offsets, 1 and 2"),
        ([""], "the file has no offsets"),
    ],
)
def test_what_is_no_such_line_is_named(lines, said):
    with pytest.raises(ValueError, match=said):
        parse_reset_csv(lines)


def test_four_columns_name_the_group():
    found = parse_groups_csv(["group,topic,partition,offset", "app,a,0,1", '"b, c",a,0,2', "app,a,1,3"])
    assert found == {"app": {("a", 0): 1, ("a", 1): 3}, "b, c": {("a", 0): 2}}
    assert parse_groups_csv(["a,0,1"]) == {None: {("a", 0): 1}}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["app,a,0,1", "a,0,1"], "line 2: some lines have three columns and others four: lines with three"),
        (["app,a,0,1", "app,a,0,2"], "line 2: a-0 has two offsets, 1 and 2"),
        (["app,a,zero,1"], "line 1"),
    ],
)
def test_groups_that_contradict_each_other_are_named(lines, said):
    with pytest.raises(ValueError, match=said):
        parse_groups_csv(lines)


groups = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), min_size=1)
places = st.builds(
    TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True), st.integers(0, 999)
)


@given(st.dictionaries(groups, st.dictionaries(places, st.integers(0, 10**18 - 1), min_size=1), min_size=1))
def test_what_is_written_is_read_again(wanted):
    lines = [ResetLine(group, at, offset) for group, of in wanted.items() for at, offset in of.items()]
    assert parse_groups_csv(write_reset_csv(lines).split("\n")) == wanted


def test_fields_are_quoted_as_jackson_quotes_them():
    lines = [
        ResetLine(name, TopicPartition("t", 0), 7) for name in ("a-b", "a b", 'a"b', "a" * 24, "a" * 25, "é")
    ]
    assert write_reset_csv(lines).splitlines() == [
        "a-b,t,0,7",
        '"a b",t,0,7',
        '"a""b",t,0,7',
        f"{'a' * 24},t,0,7",
        f'"{"a" * 25}",t,0,7',
        "é,t,0,7",
    ]
