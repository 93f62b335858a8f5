"""Where a secret is read from can be told in one word; and any text can be a value of a properties file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config.placeholders import Placeholder
from mmtool.config.properties import escaped, read_properties


@given(value=st.text().map(str.rstrip))
def test_any_value_is_read_back_as_it_was_given(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "escaped.properties"
    path.write_text(f"key = {escaped(value)}\n", encoding="ascii")
    assert read_properties(path).entries["key"].value == value


@pytest.mark.parametrize(
    ("text", "placeholder"),
    [
        ("env:EAST_PASSWORD", "${env:EAST_PASSWORD}"),
        (" ${env:EAST_PASSWORD} ", "${env:EAST_PASSWORD}"),
        ("file:/etc/kafka/secrets.properties:east", "${file:/etc/kafka/secrets.properties:east}"),
        ("directory:/run/secrets:east", "${directory:/run/secrets:east}"),
    ],
)
def test_a_placeholder_is_read_with_and_without_its_braces(text, placeholder):
    assert str(Placeholder.parse(text)) == placeholder


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "env:",
        "env:9",
        "env:a b",
        'env:a"',
        "file:/only/path",
        "vault:a:b",
        "file:/a}:b",
        "directory::b",
    ],
)
def test_what_is_no_placeholder_is_refused_and_never_quoted(text):
    with pytest.raises(ValueError, match="expected") as caught:
        Placeholder.parse(text)
    said = "expected env:NAME, file:PATH:KEY or directory:PATH:FILE, never the secret itself"
    assert str(caught.value) == said
