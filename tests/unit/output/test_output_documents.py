import csv
import io
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.errors import RefusedError
from mmtool.output import Column, Result, documents
from mmtool.output.redaction import HIDDEN
from mmtool.plain_text import printable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def json_document(result, **options):
    return "".join(documents.json_document(result, now=NOON, **options))


def csv_text(result, **options):
    return "".join(documents.csv_text(result, **options))


def document(result, **options):
    return json.loads(json_document(result, **options))


def test_the_envelope_is_the_contracts():
    result = Result(
        "status",
        [{"topic": "orders", "lag_records": None}],
        warnings=["slow"],
        errors=[RefusedError("no", remedy="wait")],
    )
    assert document(result) == {
        "command": "status",
        "schema_version": 1,
        "generated_at": "2026-03-01T12:00:00.000Z",
        "data": [{"topic": "orders", "lag_records": None}],
        "warnings": ["slow"],
        "errors": [{"code": "refused", "message": "no", "remedy": "wait"}],
    }


def test_nested_data_takes_the_place_of_the_flat_rows():
    result = Result(
        "failover planned", [{"step": 1}], data=[{"operation_id": "a", "steps": [{"name": "fence"}]}]
    )
    assert document(result)["data"] == [{"operation_id": "a", "steps": [{"name": "fence"}]}]


def test_one_line_documents_make_a_stream():
    text = json_document(Result("status", [{"topic": "a"}]), one_line=True)
    assert text.count("\n") == 1


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.text(), _VALUES, max_size=4), max_size=4), st.integers(1, 5))
def test_rows_are_indented_as_the_standard_library_would_in_whatever_pieces(rows, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_ROWS_AT_ONCE", at_once)
        text = json_document(Result("x", rows, warnings=['"data": []']))
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert json.loads(text)["data"] == [
        row | {"reason": row["reason"] or ""} if "reason" in row else row for row in rows
    ]


def test_documents_are_ascii_whatever_the_names():
    assert json_document(Result("x", [{"group": "\u00e9\ud800"}])).isascii()


def test_a_known_secret_is_hidden_in_warnings_and_errors():
    result = Result(
        "x", [], warnings=["key hunter2"], errors=[RefusedError("no hunter2", remedy="not hunter2")]
    )
    assert "hunter2" not in json_document(result, replaced={"hunter2": HIDDEN})


def test_csv_has_a_header_and_every_key():
    rows = [{"topic": "a", "reason": None}, {"topic": "b", "extra": 1}]
    assert csv_text(Result("x", rows)) == "topic,reason,extra\na,,\nb,,1\n"


def test_csv_without_rows_still_names_the_columns():
    assert csv_text(Result("x", [], columns=[Column("topic"), Column("partition")])) == "topic,partition\n"


def test_csv_keeps_raw_numbers_where_the_table_is_human():
    result = Result("x", [{"bytes": 1_500_000}], columns=[Column("bytes", human=lambda _: "1.5 MB")])
    assert csv_text(result) == "bytes\n1500000\n"


def test_csv_without_a_header_continues_a_stream():
    assert csv_text(Result("x", [{"a": 1}]), header=False) == "1\n"


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1), min_size=1))
def test_csv_has_a_line_for_each_row_and_its_names_as_a_table_has_them(names):
    text = csv_text(Result("x", [{"group": name, "n": 1} for name in names]))
    assert text.count("\n") == len(names) + 1
    assert [row["group"] for row in csv.DictReader(io.StringIO(text, newline=""))] == [*map(printable, names)]
