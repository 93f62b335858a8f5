"""Pages that cannot go stale, links that lead somewhere, and words that are the contract's."""

import ast
import re
import shutil
import subprocess

import pytest

from kit.doc_blocks import LABS, blocks_of, pages
from kit.doc_scenes import SCENES
from kit.reference import REFERENCE, generated, generator
from mmtool import errors
from mmtool.doctor.checks import NAMES

LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


def test_a_committed_page_that_is_generated_is_what_the_code_says():
    names = generator()["COMMITTED"]
    stale = [name for name in names if (REFERENCE / name).read_text(encoding="utf-8") != generated()[name]]
    assert stale == [], "run `make docs`"


def test_no_other_generated_page_is_committed(tracked):
    ours = {str(path.relative_to(REFERENCE)) for path in tracked if path.is_relative_to(REFERENCE)}
    assert ours & set(generated()) == set(generator()["COMMITTED"])


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_of_in_the_manual_page(reference):
    page = reference / "mmtool.1"
    ran = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


def test_the_error_tree_in_the_docstring_is_the_tree():
    page = re.findall(r"^\| (\d+) \| `(\w+)` \|", generated()["exit-codes.md"], re.MULTILINE)
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    of_two = {errors.StoppedError, errors.StdoutError}  # their exit code depends on what happened
    tree = {(str(kind.exit_code), kind.code) for kind in kinds if kind not in of_two}
    assert set(page) == tree


def test_every_link_between_pages_leads_somewhere(tracked, reference):
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


def test_the_readme_can_be_read_in_one_go(root):
    assert len((root / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_claim_of_the_comparison_has_its_source_and_every_source_its_claim(root):
    page = (root / "docs" / "concepts" / "comparison.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (m?\d+) \| ", page, re.MULTILINE)
    used = set(re.findall(r"\[(m?\d+)\](?!\()", page))
    assert sorted(used) == sorted(listed)
    assert len(listed) > 20


def test_every_check_of_doctor_has_its_line(root):
    page = (root / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \| [A-Z]", page, re.MULTILINE)) == sorted(NAMES)


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


def test_every_test_that_a_page_names_is_there(root):
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))}
    sources = [path.read_text(encoding="utf-8") for path in (root / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.MULTILINE)}
    there |= {path.stem for path in (root / "tests").rglob("test_*.py")}
    assert len(named) > 20
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
