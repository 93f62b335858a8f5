"""Sizes that keep a file readable in one sitting, and a function as long as its thought."""

import ast

import pytest

pytestmark = pytest.mark.long

FILE_LINES = 600
TEST_LINES = 800
FUNCTION_LINES = 60
FUNCTION_BRANCHES = 10
FUNCTION_NESTING = 4

BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
NESTED = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
PARTS = ("body", "handlers", "cases", "orelse", "finalbody")


def python_files(tracked, *, tests):
    return [path for path in tracked if path.suffix == ".py" and ("tests" in path.parts) == tests]


def longer_than(paths, lines):
    counted = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return {name: number for name, number in counted.items() if number > lines}


def length(function):
    return function.end_lineno - function.lineno + 1


def test_no_file_is_longer_than_its_budget(tracked):
    assert longer_than(python_files(tracked, tests=False), FILE_LINES) == {}


def test_no_test_file_is_longer_than_its_budget(tracked):
    assert longer_than(python_files(tracked, tests=True), TEST_LINES) == {}


def statements(node):
    """The statements directly inside one, but not the functions and classes."""
    return [part for name in PARTS for part in getattr(node, name, ()) if not isinstance(part, INNER)]


def branches(node):
    return sum(isinstance(part, BRANCHES) + branches(part) for part in statements(node))


def nesting(node):
    """How many blocks lie in one another at most; an ``elif`` lies beside its ``if``."""
    return max((nesting(part) + is_block(part, node) for part in statements(node)), default=0)


def is_block(part, node):
    is_elif = isinstance(part, ast.If) and isinstance(node, ast.If) and node.orelse == [part]
    return isinstance(part, NESTED) and not is_elif


def over(modules, measure, most):
    measured = {
        f"{module.name}.{function.name}:{function.lineno}": measure(function)
        for module in modules
        for function in module.functions
    }
    return {name: number for name, number in measured.items() if number > most}


def test_the_measures_count_what_a_reader_sees():
    (function,) = ast.parse("""
def one():
    if a:
        for b in c:
            with d:
                pass
    elif e:
        try:
            def inner():
                while True:
                    pass
        except Bad:
            match f:
                case 1:
                    pass
                case _:
                    pass
    else:
        pass
""").body
    assert (branches(function), nesting(function)) == (6, 3)


def test_no_function_is_longer_than_its_budget(modules):
    assert over(modules, length, FUNCTION_LINES) == {}


def test_no_function_has_more_branches_than_its_budget(modules):
    assert over(modules, branches, FUNCTION_BRANCHES) == {}


def test_no_function_nests_deeper_than_its_budget(modules):
    assert over(modules, nesting, FUNCTION_NESTING) == {}
