"""Every JSON document has a schema, and real documents are what their schemas say."""

import json
from copy import deepcopy

import pytest
from hypothesis import given

from kit.command_tree import commands
from kit.plans import saved_plans
from kit.reference import schemas
from kit.schemas import check_document, judge, misfits
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.imports import starting_offsets
from mmtool.plan.groups.undo import Replaced, Undo
from mmtool.plan.runbook.plan_file import write_plan
from mmtool.translation.types import ClusterId, TopicPartition

NAMES = sorted(schemas())
PLACE = TopicPartition("east.orders", 3)
SMOKE = {
    "command": "smoke",
    "schema_version": 1,
    "generated_at": "2026-01-01T00:00:00.000Z",
    "data": [{"step": "clusters", "result": "passed", "seconds": 0.1, "message": "both answer"}],
    "warnings": [],
    "errors": [],
}


def keys(schema, path=""):
    """Every key of a schema at any depth, with what is said of it."""
    for name, one in schema.get("properties", {}).items():
        yield f"{path}.{name}", one
        yield from keys(one, f"{path}.{name}")
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
    for one in inner:
        if isinstance(one, dict):
            yield from keys(one, path)


def test_every_command_that_prints_json_has_a_schema():
    printing = {
        path
        for path, command in commands().items()
        if any("--output" in parameter.opts for parameter in command.params)
    }
    known = {word for name in NAMES for word in _commands(name)}
    assert known == printing


def _commands(name):
    return judge(name).schema.get("properties", {}).get("command", {}).get("enum", ())


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_document_has_a_meaning(name):
    assert [path for path, one in keys(judge(name).schema) if not one.get("description")] == []


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [({"extra": 1}, "extra"), ({"seconds": "0.1"}, "seconds"), ({"result": "perhaps"}, "result")],
    ids=["unknown key", "other type", "unknown word"],
)
def test_a_document_that_is_not_what_its_schema_says_is_found(changed, wrong):
    check_document(SMOKE)
    document = deepcopy(SMOKE)
    document["data"][0].update(changed)
    with pytest.raises(AssertionError, match=wrong):
        check_document(document)


@given(saved_plans())
def test_a_saved_plan_is_what_its_schema_says(saved):
    assert misfits("plan", json.loads(write_plan(saved))) == []


@pytest.mark.parametrize("before", [None, Commit(7, "kept")], ids=["no commit before", "a commit before"])
def test_an_undo_file_is_what_its_schema_says(before):
    undo = Undo(ClusterId("w-id"), (Replaced("app", PLACE, before, Commit(9)),))
    assert misfits("undo", json.loads(undo.encode())) == []


def test_spark_offsets_are_what_their_schema_says():
    assert misfits("spark-offsets", json.loads(starting_offsets({PLACE: 5}))) == []
