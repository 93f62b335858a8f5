"""Text becomes a value as ``ConfigDef`` and ``Boolean.parseBoolean`` make one."""

from datetime import UTC, datetime
from functools import partial

import pytest

from mmtool.config.values import (
    java_parse_boolean,
    parse_boolean,
    parse_integer,
    parse_list,
    parse_replication_factor,
    parse_start,
)

from_5_to_10 = partial(parse_integer, minimum=5, maximum=10)


@pytest.mark.parametrize(
    ("parse", "values"),
    [
        (parse_boolean, {"true": True, " TRUE ": True, "False": False}),
        (java_parse_boolean, {"true": True, "TrUe": True, "yes": False, "": False}),
        (parse_list, {"": (), "  ": (), "a": ("a",), " a , b,c ": ("a", "b", "c"), "a,,b": ("a", "", "b")}),
        (parse_list, {"a,": ("a", ""), "a, b, a": ("a", "b")}),
        (from_5_to_10, {"5": 5, " +7 ": 7, "10": 10}),
        (parse_replication_factor, {"1": 1, "-1": -1, " 3 ": 3}),
        (parse_start, {"earliest": "earliest", " Latest ": "latest"}),
        (parse_start, {"2026-01-31T12:00:00Z": datetime(2026, 1, 31, 12, tzinfo=UTC)}),
    ],
)
def test_a_text_is_the_value_that_it_is_to_kafka(parse, values):
    assert {text: parse(text) for text in values} == values


@pytest.mark.parametrize(
    ("parse", "texts", "expected"),
    [
        (parse_boolean, ("yes", "1", "", "tru"), "true or false"),
        (from_5_to_10, ("4", "11", "-7", "1e1", "5.0", "0x5", "", "\u0665", "1_0"), "from 5 to 10"),
        (parse_replication_factor, ("0", "-2", "x"), "-1 for the broker's default"),
        (parse_start, ("2026-01-31T12:00:00", "2026-01-31", "now"), "a time with its zone"),
    ],
)
def test_any_other_text_is_an_error_that_says_what_is_expected(parse, texts, expected):
    for text in texts:
        with pytest.raises(ValueError, match=expected):
            parse(text)
