"""What real servers cost: where Spark starts, and how many clusters do, in each tier. Both may only become fewer.

A test on brokers runs its rounds without Spark unless Spark is what it is about (`kit.forked_rounds`). It shares the
session's clusters (`fleet`, `bench`, `secured`) unless it needs others.
"""

import ast

import pytest

pytestmark = pytest.mark.long

WITH_SPARK = {
    "test_ci_example.py": "the workflow of a page, as users run it",
    "test_demo.py": "the tour of a first quarter of an hour, as users run it",
    "test_documented.py": "the console blocks of pages, as users type them",
    "test_replicate_live.py": "two tasks share a throttle",
    "test_replicate_memory.py": "memory of Spark's workers",
    "test_replicate_running.py": "a stop while the JVM starts",
    "test_secrets.py": "no secret in what Spark writes or shows",
    "test_secured_story.py": "a login, from Spark's workers as well",
    "test_spark_secrets.py": "no secret in what Spark writes or shows",
    "test_spark_workers.py": "how Spark starts workers",
    "test_verify_interrupted.py": "Ctrl-C while Spark's tasks compare",
}
"""The files of `make test-all` whose tests start Spark, and why."""
PROMISES = 7
"""Files of `make test` whose tests start Spark: promises are tested with what users run."""
CLUSTERS = {"test": 1, "test-all": 33}
"""Places that start clusters other than the session's, by the target of the Makefile that runs them."""
STARTERS = {"Fleet.of", "Fleet", "secure_pair", "Cluster"}


def marks_of(node):
    """The markers in ``pytestmark`` or on a function."""
    return {
        child.attr
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute) and ast.unparse(child.value) == "pytest.mark"
    }


def marked(tree):
    """The markers of a file, and each test's own with them."""
    of_file = {
        mark
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in marks_of(node)
    }
    tests = (
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
    return of_file, [of_file.union(*map(marks_of, test.decorator_list)) for test in tests]


@pytest.fixture(scope="module")
def files(root):
    """Each file of tests on real servers, but for those of chaos alone: its markers, its tests' markers, its text."""
    paths = [
        path
        for name in ("integration", "contract", "scenarios")
        for path in (root / "tests" / name).rglob("*.py")
    ]
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(paths)}
    return {name: (*marked(tree), tree) for name, tree in trees.items() if "chaos" not in marked(tree)[0]}


def test_spark_starts_only_in_tests_that_are_about_it(files):
    found = {
        name
        for name, (_, tests, _) in files.items()
        if any("spark" in t and "promise" not in t for t in tests)
    }
    assert found == set(WITH_SPARK)


def test_no_more_promises_start_spark(files):
    found = [
        name for name, (_, tests, _) in files.items() if any("spark" in t and "promise" in t for t in tests)
    ]
    assert len(found) <= PROMISES, found


@pytest.mark.parametrize("target", CLUSTERS)
def test_no_more_clusters_are_started(files, target):
    found = [
        f"{name}:{node.lineno}"
        for name, (of_file, _, tree) in files.items()
        if ("promise" in of_file) is (target == "test")
        for node in ast.walk(tree)
        if starts_clusters(node)
    ]
    assert len(found) <= CLUSTERS[target], found


def starts_clusters(node):
    if isinstance(node, ast.arg):
        return node.arg == "own_bench"
    return isinstance(node, ast.Call) and ast.unparse(node.func) in STARTERS
