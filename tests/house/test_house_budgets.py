"""Sizes that keep a file readable in one sitting and a function in one look."""

from statistics import median

import pytest

pytestmark = pytest.mark.long

FILE_LINES = 600
TEST_LINES = 800
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 8


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


def test_no_function_is_longer_than_its_budget(modules):
    long = {
        f"{module.name}.{function.name}": length(function)
        for module in modules
        for function in module.functions()
        if length(function) > FUNCTION_LINES
    }
    assert long == {}


def test_most_functions_fit_in_one_look(modules):
    assert (
        median(length(function) for module in modules for function in module.functions())
        < MEDIAN_FUNCTION_LINES
    )
