import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.output.values import cell, field, iso, plain, plain_row
from mmtool.plain_text import printable
from mmtool.translation.types import DownstreamOffset, TopicPartition


class Colour(StrEnum):
    RED = "red"


class Number(Enum):
    ONE = 1


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    at: datetime


NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)

PLAINED = [
    (None, None),
    (True, True),
    (DownstreamOffset(7), 7),
    (Colour.RED, "red"),
    (Number.ONE, 1),
    (NOON, "2026-03-01T12:00:00.123Z"),
    (timedelta(milliseconds=1500), 1.5),
    (math.nan, None),
    (math.inf, None),
    (Path("/etc/mm2.properties"), "/etc/mm2.properties"),
    (Point(1, NOON), {"x": 1, "at": "2026-03-01T12:00:00.123Z"}),
    (TopicPartition("orders", 3), ["orders", 3]),
    ({Colour.RED: (1, 2)}, {"red": [1, 2]}),
]


@pytest.mark.parametrize(("value", "expected"), PLAINED, ids=lambda value: type(value).__name__)
def test_every_kind_of_value_has_one_json_form(value, expected):
    assert plain(value) == expected


def test_a_plain_enum_leaves_its_class_behind():
    assert type(plain(Colour.RED)) is str


@pytest.mark.parametrize("value", [b"raw", object(), Point])
def test_a_value_without_an_agreed_form_is_an_error_not_a_guess(value):
    with pytest.raises(TypeError, match="no agreed form"):
        plain(value)


def test_times_are_written_in_utc_whatever_their_zone():
    there = datetime(2026, 3, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    assert iso(there) == "2026-03-01T12:00:00.000Z"


def test_a_time_without_a_zone_is_an_error():
    with pytest.raises(ValueError, match="no time zone"):
        iso(datetime(2026, 3, 1))  # noqa: DTZ001 - the mistake under test


def test_reason_is_always_a_string_and_other_unknowns_are_null():
    assert plain_row({"reason": None, "offset": None}) == {"reason": "", "offset": None}


def test_unknown_is_empty_in_csv_and_a_dash_in_a_table():
    assert (field(None), cell(None)) == ("", "-")


def test_booleans_read_as_in_json():
    assert (field(True), field(False)) == ("true", "false")


def test_nested_values_are_json_inside_a_csv_field():
    assert json.loads(field({"a": [1]})) == {"a": [1]}


@given(st.text())
def test_no_text_breaks_a_line(text):
    assert printable(text).isprintable()


@given(st.text(alphabet=st.characters(categories=("L", "N", "P"))))
def test_printable_text_is_left_alone(text):
    assert printable(text) == text
