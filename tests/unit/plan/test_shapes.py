"""JSON values are taken for fields of their annotated type alone."""

from typing import Any, TypedDict

import pytest

from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.shapes import fits, made, made_of, shaped
from mmtool.translation.types import TopicId, TopicPartition


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, int), (-(1 << 63), int), (7, float), (1.5, float), ("x", str), (True, bool), (None, int | None),
        ({"a": {"b": 1}}, dict[str, dict[str, int]]), ([1, 2], tuple[int, ...]), (["a", 1], tuple[str, int]),
        ("id", TopicId),
    ],
)  # fmt: skip
def test_values_of_the_annotated_type_fit(value, kind):
    assert fits(value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int), (1 << 63, int), (1.0, int), ("7", int), (1, bool), (None, str), ({"a": "b"}, dict[str, int]),
        ([1, "2"], tuple[int, ...]), (["a"], tuple[str, int]), (7, TopicId),
    ],
)  # fmt: skip
def test_other_values_do_not(value, kind):
    assert not fits(value, kind)


def test_an_object_is_made_of_values_that_fit():
    assert made(TopicPartition, "orders", 3) == TopicPartition("orders", 3)
    assert made_of(Commit, {"offset": 3}) == Commit(3)


@pytest.mark.parametrize("values", [("orders", "3"), (["orders"], 3), ("orders",), ("orders", 3, 4)])
def test_no_object_is_made_of_others(values):
    with pytest.raises(TypeError):
        made(TopicPartition, *values)


class Side(TypedDict):
    topics: dict[str, tuple[str, int]]
    rows: list[tuple[int, str]]


WHOLE: dict[str, Any] = {"topics": {"orders": ["id", 4]}, "rows": [[7, "m"]]}


def test_a_json_object_gets_the_shape_of_its_typed_dict():
    assert shaped({**WHOLE, "later": 1}, Side) == {"topics": {"orders": ("id", 4)}, "rows": [(7, "m")]}


@pytest.mark.parametrize(
    "value",
    [
        None, [], {}, {"topics": {}}, {**WHOLE, "topics": None}, {**WHOLE, "topics": {"orders": ["id", "4"]}},
        {**WHOLE, "topics": {"orders": ["id"]}}, {**WHOLE, "rows": {}}, {**WHOLE, "rows": [[7, "m", 1]]},
    ],
)  # fmt: skip
def test_a_json_object_of_another_shape_is_refused(value):
    with pytest.raises(TypeError):
        shaped(value, Side)
