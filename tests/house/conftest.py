"""The tree as the house tests see it: tracked files, and every module of ours, parsed once."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from kit.reference import REFERENCE, generator

ROOT = Path(__file__).parents[2]


def imported_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@dataclass(frozen=True)
class Module:
    """One of our modules: its import name, its place, its text."""

    name: str
    path: Path

    @cached_property
    def tree(self):
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @cached_property
    def imports(self):
        """Every module named by an import statement, at any depth: inside functions and for types too."""
        return list(imported_in(self.tree))

    def imports_at_start(self):
        """What loading the module loads: nothing inside functions, nothing for types only."""
        for statement in self.tree.body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                yield from imported_in(statement)

    @cached_property
    def imports_for_types(self):
        """What type checkers load, and the program does not; of blocks that name no types as well."""
        blocks = (node for node in self.tree.body if isinstance(node, ast.If))
        return [
            name
            for block in blocks
            if ast.unparse(block.test) == "TYPE_CHECKING"
            and all(isinstance(one, ast.Import | ast.ImportFrom) for one in block.body)
            for name in imported_in(block)
        ]

    @cached_property
    def functions(self):
        return [
            node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]


def _modules():
    for folder, name in (
        ("mmtool", "mmtool"),
        ("commands", "mmtool.commands"),
        ("translation", "mmtool.translation"),
        ("tests/kit", "kit"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT / folder)
            if folder == "mmtool" and relative.parts[0] in {"commands", "translation"}:
                continue
            yield Module(".".join([name, *relative.with_suffix("").parts]).removesuffix(".__init__"), path)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def reference():
    """The folder of the reference pages, with the generated ones as the code writes them now."""
    generator()["write"](REFERENCE)
    return REFERENCE


@pytest.fixture(scope="session")
def modules():
    """Every module that ships, and the kit of the tests."""
    return list(_modules())


@pytest.fixture(scope="session")
def benchmarks():
    """The programs that time mmtool; they import it as users of the wheel do."""
    return [Module(path.stem, path) for path in sorted((ROOT / "benchmarks").rglob("*.py"))]


@pytest.fixture(scope="session")
def tracked():
    """Every file under version control that holds text of ours, links left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]
