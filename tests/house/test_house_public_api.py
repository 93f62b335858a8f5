"""The public Python API: what ``mmtool.translation`` names, its page, and nothing else."""

import inspect
import re
import subprocess
import sys

import pytest

import mmtool.translation as api
from kit.reference import generated

FACADE = "mmtool.translation"
FUNCTIONS = [name for name in api.__all__ if inspect.isfunction(getattr(api, name))]


@pytest.fixture(scope="module")
def page():
    return generated()["python-api.md"]


def test_the_page_has_the_public_names_and_no_others(page):
    assert sorted(re.findall(r"^## `(\w+)`$", page, re.MULTILINE)) == sorted(api.__all__)


def test_each_public_name_says_what_it_is():
    assert [name for name in api.__all__ if not inspect.getdoc(getattr(api, name)) and name != "Answer"] == []


def test_each_public_function_documents_its_arguments_what_it_returns_and_raises():
    lacks = {name: lacking(getattr(api, name)) for name in FUNCTIONS}
    assert lacks == {"load_offset_map": [], "translate_offsets_udf": []}


def lacking(function):
    """What a docstring leaves out: an argument, or a section."""
    text = inspect.getdoc(function) or ""
    wanted = [f"    {name}: " for name in inspect.signature(function).parameters]
    return [part for part in [*wanted, "\nReturns:\n", "\nRaises:\n"] if part not in text]


def test_each_public_method_documents_its_arguments_and_what_it_returns(page):
    members = re.findall(r"^### `(\w+)\.(\w+)`$", page, re.MULTILINE)
    values = {f"{name}.{member}": getattr(getattr(api, name), member) for name, member in members}
    methods = {where: value for where, value in values.items() if inspect.isfunction(value)}
    lacks = {where: set(lacking(method)) - {"    self: ", "\nRaises:\n"} for where, method in methods.items()}
    assert lacks == {"OffsetMap.translate": set(), "OffsetMap.translate_many": set()}


def test_columns_say_their_types_and_shapes():
    columns = inspect.getdoc(api.Answers) + inspect.getdoc(api.OffsetMap.translate_many)
    udf = inspect.getdoc(api.translate_offsets_udf)
    assert (columns.count("int64"), columns.count("shape (n,)"), udf.count("``bigint``")) == (2, 3, 4)


def test_the_package_loads_nothing_until_a_name_is_asked_for():
    """Each module of mmtool loads it first: also those that must load no numpy."""
    code = (
        f"import sys; before = set(sys.modules); import {FACADE}; print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {name for name in ran.stdout.split() if name.startswith(("mmtool", "numpy"))} == {"mmtool", FACADE}


def test_no_module_of_ours_takes_a_name_from_the_facade(modules):
    """It would depend on everything that the facade names."""
    public = {f"{FACADE}.{name}" for name in api.__all__}
    assert {f"{m.name}: {name}" for m in modules for name in m.imports if name in public} == set()


def test_a_name_that_is_not_public_is_not_there():
    with pytest.raises(AttributeError, match=r"^module mmtool.translation has no attribute RunMap$"):
        _ = api.RunMap
    assert dir(api) == sorted(api.__all__)


def test_every_name_for_type_checkers_is_the_one_that_is_loaded(modules):
    facade = next(module for module in modules if module.name == FACADE)
    typed = {name.rpartition(".")[2]: name for name in facade.imports if name.startswith("mmtool.")}
    assert typed == {name: f"{home}.{name}" for name, home in api._HOMES.items()}
    assert sorted(typed) == sorted(api.__all__)
