"""Kafka's reset file, as its own tools write it and as people edit it."""

import pytest

from mmtool.plan.reset_csv import parse_reset_csv


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
        (["app,orders,0,42"], "line 1: topic,partition,offset is wanted"),
        (["orders,0,42", "topic,partition,offset"], "line 2"),
        (["orders,0,-1"], "line 1"),
        (["orders,0,1", "orders,0,2"], "line 2: orders-0 is to go to 1 and to 2"),
        ([""], "no line names a partition"),
    ],
)
def test_what_is_no_such_line_is_named(lines, said):
    with pytest.raises(ValueError, match=said):
        parse_reset_csv(lines)
