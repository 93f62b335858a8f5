"""Varints: one at a time and by the column they are the same bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.translation.block_codec import decode_column, encode_column, put_varint, take_varint
from mmtool.translation.errors import UnreadableStateError

numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))


@given(st.lists(numbers, max_size=150))
def test_a_column_is_the_varints_of_its_values_one_after_the_other(values):
    expected = bytearray()
    for value in values:
        put_varint(expected, value)
    assert encode_column(np.array(values, dtype=np.int64)) == expected


@given(st.lists(numbers, max_size=150))
def test_a_column_comes_back_from_its_bytes(values):
    assert decode_column(encode_column(np.array(values, dtype=np.int64)), len(values)).tolist() == values


@given(numbers)
def test_a_number_comes_back_with_the_position_after_it(value):
    out = bytearray(b"x")
    put_varint(out, value)
    assert take_varint(bytes(out) + b"y", 1) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "data"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02")]
)
def test_the_bytes_are_leb128(value, data):
    assert encode_column(np.array([value])) == data


def test_a_negative_number_has_no_varint():
    with pytest.raises(ValueError, match="-1 is negative"):
        put_varint(bytearray(), -1)


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 1), (b"\x01", 0), (b"\x80", 0), (b"\x01\x80", 1), (b"\x01\x02", 1), (b"\x80" * 9 + b"\x01", 1)],
)
def test_a_column_that_does_not_fit_is_refused(data, count):
    with pytest.raises(UnreadableStateError):
        decode_column(data, count)


@pytest.mark.parametrize(("data", "error"), [(b"\x80", IndexError), (b"\x80" * 9 + b"\x01", ValueError)])
def test_a_number_that_is_cut_off_or_too_long_is_refused(data, error):
    with pytest.raises(error):
        take_varint(data, 0)
