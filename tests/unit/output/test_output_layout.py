from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.output import Column, Result
from mmtool.output.layout import draw, fitted, fold, layout, width

ROWS = [
    {
        "group": "billing",
        "topic": f"orders.{number}",
        "partition": number,
        "upstream_offset": 1_000_000 + number,
        "downstream_offset": 2_000_000 + number,
        "exactness": "exact",
    }
    for number in range(3)
]
ESSENTIAL = [Column(key) for key in ROWS[0]]


def shown(rows, columns, at):
    return draw(fitted(layout(Result("x", rows, columns)), at), columns=at)


def test_what_fits_is_a_plain_table():
    assert shown(ROWS[:1], ESSENTIAL, 120) == (
        "GROUP    TOPIC     PARTITION  UPSTREAM-OFFSET  DOWNSTREAM-OFFSET  EXACTNESS\n"
        "billing  orders.0          0          1000000            2000000  exact\n"
    )


def test_first_headings_take_several_lines():
    assert shown(ROWS[:1], ESSENTIAL, 65) == (
        "                              UPSTREAM-  DOWNSTREAM-\n"
        "GROUP    TOPIC     PARTITION     OFFSET       OFFSET  EXACTNESS\n"
        "billing  orders.0          0    1000000      2000000  exact\n"
    )


def test_then_what_is_the_same_in_every_row_is_said_once():
    assert shown(ROWS, ESSENTIAL, 50) == (
        "In every row: GROUP billing, EXACTNESS exact\n"
        "                     UPSTREAM-  DOWNSTREAM-\n"
        "TOPIC     PARTITION     OFFSET       OFFSET\n"
        "orders.0          0    1000000      2000000\n"
        "orders.1          1    1000001      2000001\n"
        "orders.2          2    1000002      2000002\n"
    )


def test_then_the_unessential_goes_from_the_right():
    columns = [Column(key, essential=key != "downstream_offset") for key in ROWS[0]]
    chosen = fitted(layout(Result("x", ROWS, columns)), 35)
    assert (chosen.left_out, [strip.column.key for strip in chosen.strips]) == (
        ("downstream_offset",),
        ["topic", "partition", "upstream_offset"],
    )


def test_sentences_are_folded_between_words():
    assert fold("the group has no commit", 12) == ["the group ", "has no ", "commit"]
    assert fold("payments-of-last-year in east", 12) == ["payments-of-", "last-year ", "in east"]


def test_then_names_are_folded_and_numbers_are_not():
    rows = [{"topic": "a" * 50, "offset": 123_456_789}, {"topic": "b" * 50, "offset": 7}]
    assert shown(rows, None, 40) == (
        f"TOPIC{' ' * 24}     OFFSET\n"
        f"{'a' * 29}  123456789\n"
        f"{'a' * 21}\n"
        f"{'b' * 29}          7\n"
        f"{'b' * 21}\n"
    )  # fmt: skip


def test_at_last_a_row_is_a_block():
    assert shown(ROWS[:2], ESSENTIAL, 20) == (
        "GROUP              billing\n"
        "TOPIC              orders.0\n"
        "PARTITION          0\n"
        "UPSTREAM-OFFSET    1000000\n"
        "DOWNSTREAM-OFFSET  2000000\n"
        "EXACTNESS          exact\n"
        "\n"
        "GROUP              billing\n"
        "TOPIC              orders.1\n"
        "PARTITION          1\n"
        "UPSTREAM-OFFSET    1000001\n"
        "DOWNSTREAM-OFFSET  2000001\n"
        "EXACTNESS          exact\n"
    )


names = st.text(alphabet="abcdefgh.-\u4e16\u754c\u0301", min_size=1, max_size=60)
rows = st.lists(
    st.fixed_dictionaries({"group": names, "topic": names, "offset": st.integers(0, 10**12)}), min_size=1
)


@given(rows, st.integers(20, 200))
def test_no_line_is_wider_than_the_terminal_unless_rows_are_blocks(rows, at):
    chosen = fitted(layout(Result("x", rows)), at)
    widest = max(map(width, draw(replace(chosen, above=()), columns=at).splitlines()))
    assert chosen.blocks or widest <= at


@given(rows, st.integers(20, 200))
def test_numbers_stay_whole_at_any_width(rows, at):
    text = shown(rows, None, at)
    assert [row["offset"] for row in rows if str(row["offset"]) not in text] == []


@given(names, st.integers(1, 30))
def test_folding_loses_no_character(text, limit):
    assert "".join(fold(text, limit)) == text


@pytest.mark.parametrize(("text", "cells"), [("abc", 3), ("\u4e16\u754c", 4), ("e\u0301", 1), ("", 0)])
def test_width_counts_terminal_cells(text, cells):
    assert width(text) == cells


def test_each_cell_is_measured_a_few_times_however_long_the_table_is(monkeypatch):
    """Thousands of partitions took minutes when every line measured its whole column."""
    measured = []
    monkeypatch.setattr("mmtool.output.layout.width", lambda text: measured.append(text) or len(text))
    rows = ROWS * 100
    assert draw(layout(Result("x", rows, ESSENTIAL))).count("\n") == len(rows) + 1
    assert len(measured) < 3 * len(rows) * len(ESSENTIAL)
