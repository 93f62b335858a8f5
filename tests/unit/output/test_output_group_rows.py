"""A table has one row for each group; what one partition does not know, its group does not know either."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mmtool.output import Column, Result
from mmtool.output import layout as of
from mmtool.output.layout import draw, layout

COLUMNS = (
    Column("group", of_group=of.same),
    Column("topic", of_group=of.names),
    Column("partition", of_group=of.partitions),
    Column("offset"),
    Column("exactness", of_group=of.words),
    Column("lost", of_group=of.total(lambda row: row["exactness"] != "refused")),
    Column("written", of_group=of.flag),
    Column("reason", of_group=of.first(lambda row: row["exactness"] == "refused")),
)


def row(group="app", topic="orders", partition=0, exactness="exact", lost=0, written=True, reason=""):
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "offset": 7,
        "exactness": exactness,
        "lost": lost,
        "written": written,
        "reason": reason,
    }


def summed(*rows):
    return of.by_group(Result("x", rows, COLUMNS, per_group=True)).rows


def test_a_group_is_one_row_with_its_topics_counts_and_first_reason():
    rows = [
        row(),
        row(topic="bills", partition=3, exactness="refused", lost=None, written=False, reason="no_commit"),
        row("late", lost=4),
    ]
    assert summed(*rows) == [
        {
            "group": "app",
            "topic": "bills, orders",
            "partition": 2,
            "exactness": "1 exact, 1 refused",
            "lost": 0,
            "written": "1 of 2",
            "reason": "no_commit",
        },
        {
            "group": "late",
            "topic": "orders",
            "partition": 1,
            "exactness": "exact",
            "lost": 4,
            "written": True,
            "reason": "",
        },
    ]


def test_other_reasons_are_counted():
    rows = [row(reason="slow"), row(exactness="refused", reason="gone"), row(reason="late")]
    assert summed(*rows)[0]["reason"] == "gone (2 more reasons with --partitions)"


@given(some.lists(some.none() | some.integers(0, 9), min_size=1))
def test_a_sum_is_known_only_if_each_number_that_counts_is_known(numbers):
    expected = None if None in numbers else sum(numbers)
    assert summed(*(row(lost=number) for number in numbers))[0]["lost"] == expected


@pytest.mark.parametrize("written", [[True, None], [None, False]])
def test_what_is_unknown_for_one_partition_is_unknown_for_the_group(written):
    assert summed(*(row(written=one) for one in written))[0]["written"] is None


def test_the_table_has_no_offset_of_one_partition_in_the_row_of_a_group():
    text = draw(layout(Result("x", [row(), row(partition=1)], COLUMNS, per_group=True)))
    assert text.splitlines()[0].split() == [
        "GROUP", "TOPICS", "PARTITIONS", "EXACTNESS", "LOST", "WRITTEN", "REASON",
    ]  # fmt: skip
