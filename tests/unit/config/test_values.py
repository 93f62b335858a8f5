"""Text becomes a value as ``ConfigDef`` and ``Boolean.parseBoolean`` make one."""

from datetime import UTC, datetime

import pytest

from mmtool.config.values import (
    java_parse_boolean,
    parse_boolean,
    parse_integer,
    parse_list,
    parse_replication_factor,
    parse_start,
)


@pytest.mark.parametrize(("text", "expected"), [("true", True), (" TRUE ", True), ("False", False)])
def test_a_boolean_is_true_or_false_in_any_case(text, expected):
    assert parse_boolean(text) == expected


@pytest.mark.parametrize("text", ["yes", "1", "", "tru"])
def test_nothing_else_is_a_boolean(text):
    with pytest.raises(ValueError, match="true or false"):
        parse_boolean(text)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TrUe", True), ("yes", False), ("", False)])
def test_javas_parse_boolean_takes_everything(text, expected):
    assert java_parse_boolean(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("  ", ()),
        ("a", ("a",)),
        (" a , b,c ", ("a", "b", "c")),
        ("a,,b", ("a", "", "b")),
        ("a,", ("a", "")),
        ("a, b, a", ("a", "b")),
    ],
)
def test_a_list_is_split_at_commas_with_the_space_around_them(text, expected):
    assert parse_list(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("5", 5), (" +7 ", 7), ("10", 10)])
def test_a_number_within_its_bounds(text, expected):
    assert parse_integer(text, 5, 10) == expected


@pytest.mark.parametrize("text", ["4", "11", "-7", "1e1", "5.0", "0x5", "", "\u0665", "1_0"])
def test_no_number_or_out_of_bounds(text):
    with pytest.raises(ValueError, match="a whole number from 5 to 10"):
        parse_integer(text, 5, 10)


def test_a_replication_factor_is_positive_or_left_to_the_broker():
    assert [parse_replication_factor(text) for text in ("1", "-1", " 3 ")] == [1, -1, 3]
    for text in ("0", "-2", "x"):
        with pytest.raises(ValueError, match="-1 for the broker's default"):
            parse_replication_factor(text)


def test_a_start_is_a_word_or_an_instant():
    assert [parse_start(text) for text in ("earliest", " Latest ")] == ["earliest", "latest"]
    assert parse_start("2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text in ("2026-01-31T12:00:00", "2026-01-31", "now"):
        with pytest.raises(ValueError, match="a time with its zone"):
            parse_start(text)
