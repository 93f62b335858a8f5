"""Pages that cannot go stale, links that lead somewhere, and words that are the contract's."""

import ast
import re
import runpy
import shutil
import subprocess

import pytest

from kit.doc_blocks import LABS, blocks_of, pages
from kit.doc_scenes import SCENES
from mmtool import errors
from mmtool.doctor.finding import Check

LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def generated(root):
    """What the generator would write now."""
    return runpy.run_path(str(root / "docs" / "_tools" / "reference.py"), run_name="reference")["pages"]()


@pytest.mark.parametrize(
    "name",
    [
        "cli.md",
        "exit-codes.md",
        "failover-states.md",
        "flow-phases.md",
        "log-events.md",
        "metrics.md",
        "python-api.md",
        "refusals.md",
        "runbook-example.md",
    ],
)
def test_a_generated_page_is_what_the_code_says(root, generated, name):
    assert (root / "docs" / "reference" / name).read_text(encoding="utf-8") == generated[name], (
        "run `make docs`"
    )


def test_every_schema_is_what_the_code_says(root):
    made = runpy.run_path(str(root / "docs" / "_tools" / "documents.py"), run_name="documents")["files"]()
    reference = root / "docs" / "reference"
    there = {f"schemas/{path.name}" for path in (reference / "schemas").iterdir()} | {"documents.md"}
    assert there == set(made)
    stale = [name for name, text in made.items() if (reference / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


@pytest.fixture(scope="module")
def manual(root):
    """The manual page that the generator would write now."""
    return runpy.run_path(str(root / "docs" / "_tools" / "manual.py"), run_name="manual")["manual"]()


def test_the_manual_page_is_what_the_code_says(root, manual):
    assert (root / "docs" / "reference" / "mmtool.1").read_text(encoding="utf-8") == manual, "run `make docs`"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_of_in_the_manual_page(root):
    page = root / "docs" / "reference" / "mmtool.1"
    ran = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


def test_the_error_tree_in_the_docstring_is_the_tree(generated):
    page = re.findall(r"^\| (\d+) \| `(\w+)` \|", generated["exit-codes.md"], re.MULTILINE)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    of_two = {errors.StoppedError, errors.StdoutError}  # their exit code depends on what happened
    tree = {(str(kind.exit_code), kind.code) for kind in kinds if kind not in of_two}
    assert set(page) == tree


def test_every_link_between_pages_leads_somewhere(tracked):
    broken = [
        f"{page.name}: {target}"
        for page in tracked
        if page.suffix == ".md"
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_decision_is_listed_where_a_newcomer_looks(root):
    index = (root / "docs" / "index.md").read_text(encoding="utf-8")
    records = {path.name for path in (root / "docs" / "decisions").glob("[0-9]*.md")}
    assert {name for name in records if f"decisions/{name}" not in index} == set()


def test_every_check_of_doctor_has_its_line(root):
    page = (root / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \| [A-Z]", page, re.MULTILINE)) == sorted(Check)


def test_the_map_names_every_package(root):
    text = (root / "docs" / "DESIGN.md").read_text(encoding="utf-8")
    packages = {
        str(path.parent.relative_to(root / "mmtool")) for path in (root / "mmtool").rglob("__init__.py")
    }
    named = {name for name in packages if f"`{name}/`" in text or f"`mmtool/{name}/`" in text}
    assert packages - named == {"."}


def test_every_module_that_a_page_names_is_there(root, tracked):
    files = [str(path.relative_to(root)) for path in tracked]
    pages = [path for path in tracked if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    named = {
        name
        for page in pages
        for name in re.findall(r"`([a-z0-9_/]+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()


def test_every_function_of_a_walk_through_the_code_is_there(root, modules):
    text = (root / "docs" / "DESIGN.md").read_text(encoding="utf-8")
    walks = text[text.index("## A record, from fetch") : text.index("## Facts that are not obvious")]
    named = {name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", walks)}
    defined = {module.name.split(".")[-1] for module in modules}
    for module in modules:
        defined |= {node.name for node in ast.walk(module.tree) if hasattr(node, "name")}
    assert named - defined == set()


def test_every_test_that_the_page_on_translation_names_for_an_edge_is_there(root):
    page = (root / "docs" / "concepts" / "translation.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    sources = [path.read_text(encoding="utf-8") for path in (root / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.MULTILINE)}
    assert len(named) > 15
    assert named - there == set()


def test_every_console_block_says_what_it_is_run_on(root):
    """``<!-- scene: NAME -->`` and the like on the line before it, and a page's other fences name a language."""
    names = {"scene": SCENES, "lab": LABS, "shell": ("",), "make": ("",)}
    blocks = [block for page in pages(root) for block in blocks_of(page)]
    unlabelled = [
        f"{block.page.name}:{block.opened}"
        for block in blocks
        if block.label is None or block.label.name not in names[block.label.kind]
    ]
    assert unlabelled == []


def test_every_lab_that_a_block_names_is_run_by_a_test(root):
    tests = (root / "tests" / "integration").glob("test_*.py")
    source = "".join(path.read_text(encoding="utf-8") for path in tests)
    assert [name for name in LABS if f'lab("{name}")' not in source and f'name="{name}"' not in source] == []
