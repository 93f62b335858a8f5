"""The two linked rooms have one name each; a second name would be a second copy of every class."""

import ast
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def python(root, code):
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=root)


@pytest.mark.parametrize("room", ["commands", "translation"])
def test_the_bare_name_is_refused_with_the_right_one(root, room):
    ran = python(root, f"import {room}")
    assert (ran.returncode, f"ImportError: import mmtool.{room}, not {room}" in ran.stderr) == (1, True)


@pytest.mark.parametrize("room", ["commands", "translation"])
def test_the_full_name_works(root, room):
    assert python(root, f"import mmtool.{room}").returncode == 0


@pytest.mark.parametrize("room", ["commands", "translation"])
def test_the_links_are_committed_as_links(root, room):
    assert (root / "mmtool" / room).readlink().as_posix() == f"../{room}"


def test_importing_the_package_loads_nothing_else(root):
    ran = python(
        root, "import sys; before = set(sys.modules); import mmtool; print(sorted(set(sys.modules) - before))"
    )
    assert ran.stdout == "['mmtool']\n"


def test_every_benchmark_finds_what_it_imports_of_mmtool(root, benchmarks):
    lines = [
        ast.unparse(node) for module in benchmarks for node in ast.walk(module.tree) if _is_of_mmtool(node)
    ]
    assert len(lines) > 20
    assert python(root, "\n".join(lines)).stderr == ""


def _is_of_mmtool(node):
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmtool")


def test_every_module_imports_by_itself(root, modules):
    names = [module.name for module in modules if not module.name.endswith("__main__")]
    code = f"import importlib\nfor name in {names!r}: importlib.import_module(name)"
    assert python(root, code).stderr == ""
