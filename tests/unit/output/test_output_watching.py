"""A watched result fits its terminal, and says so when it does not."""

import os

from mmtool.output import Column, Result
from mmtool.output.render import picture

COLUMNS = (Column("group"), Column("ready"))
SUMMARY = "300 more rows (2 not ready): show them with -g NAME, --topic NAME or -o json, or pipe the output"


def drawn(rows, lines):
    named = [{"group": f"load-{number}", "ready": number % 2 == 0} for number in range(rows)]
    result = Result("status", named, COLUMNS, headlines=["a->b: " + "groups " * 20], summary=SUMMARY)
    return picture(result, os.terminal_size((80, lines)), color=False)


def test_rows_that_do_not_fit_are_counted_and_what_is_left_out_stays_in_sight():
    shown = drawn(rows=30, lines=24)
    assert shown[-2:] == ["12 more lines do not fit on the terminal", SUMMARY]
    # the headline takes two lines at this width, and so does the summary
    assert len(shown) + 2 == 24


def test_rows_that_fit_are_all_shown():
    shown = drawn(rows=3, lines=24)
    assert (len(shown), "load-2" in shown[-2]) == (1 + 4 + 1, True)


def test_a_terminal_of_a_few_lines_shows_what_is_said_of_the_whole():
    assert drawn(rows=30, lines=3)[-1] == SUMMARY
