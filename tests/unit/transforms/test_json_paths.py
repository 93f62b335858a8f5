"""Values in JSON are replaced by their paths, and every other byte stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.transforms.json_paths import JsonRewriter, NotJsonError, parse_paths

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def masked(value, *paths):
    return JsonRewriter(parse_paths(paths), lambda _: '"***"').rewrite(value)


@pytest.mark.parametrize(
    ("before", "paths", "after"),
    [
        (b'{"email":"a@b","n":1}', ["email"], b'{"email":"***","n":1}'),
        (b' { "email" : [1, 2] } ', ["email"], b' { "email" : "***" } '),
        (b'{"a":{"b":1,"c":2}}', ["a.b"], b'{"a":{"b":"***","c":2}}'),
        (b'{"items":[{"card":1},{"card":2}]}', ["items[*].card"], b'{"items":[{"card":"***"},{"card":"***"}]}'),
        (b'{"x":1,"x":2}', ["x"], b'{"x":"***","x":"***"}'),
        (b'{"a.b":1}', ['"a.b"'], b'{"a.b":"***"}'),
        (b'{"n":123456789012345678901234567890,"f":1.10e5,"x":0}', ["x"],
         b'{"n":123456789012345678901234567890,"f":1.10e5,"x":"***"}'),
        (b'{"\\u0065mail":1}', ["email"], b'{"\\u0065mail":"***"}'),
        (b'{"email":null}', ["email"], b'{"email":null}'),
        (b"[1,2]", ["[*]"], b'["***","***"]'),
        ('{"é":"ü","x":"漢"}'.encode(), ["x"], '{"é":"ü","x":"***"}'.encode()),
        (b'"text"', ["x"], b'"text"'),
    ],
)  # fmt: skip
def test_a_value_is_replaced_and_nothing_else(before, paths, after):
    assert masked(before, *paths) == after


@given(st.dictionaries(st.text(), VALUES), st.text(min_size=1))
def test_any_document_without_the_path_keeps_its_bytes(document, key):
    document.pop(key, None)
    text = json.dumps(document).encode()
    assert masked(text, json.dumps(key, ensure_ascii=False)) is text or "\\" in json.dumps(key)


@given(st.dictionaries(st.text(), VALUES), VALUES.filter(lambda v: v is not None))
def test_in_any_document_only_the_value_at_the_path_is_another(document, value):
    before = json.dumps(document | {"secret": value}).encode()
    assert json.loads(masked(before, "secret")) == document | {"secret": "***"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no",
        b'{"a":1',
        b'{"a":1}x',
        b'{"a" 1}',
        b"{a:1}",
        b"NaN",
        b'{"a":NaN}',
        b"\xff",
        b'{"a":1,}',
        b"[" * 99_999,
    ],
)
def test_what_is_no_json_is_refused_without_a_word_of_it(value):
    with pytest.raises(NotJsonError) as refused:
        masked(value, "a", "[*]")
    assert str(refused.value) == ""


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a[0]", "a[*", 'a."b'])
def test_a_path_that_is_none_is_named(path):
    with pytest.raises(ValueError, match="is no path"):
        parse_paths([path])


def test_a_number_of_any_length_stays():
    digits = b"9" * 5_000
    assert masked(b'{"n":' + digits + b',"x":1}', "x") == b'{"n":' + digits + b',"x":"***"}'
