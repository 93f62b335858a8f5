"""What the tree says, and what it never says."""

import re
import tomllib

import pytest

HOSTS = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "repo1." + "maven",
    "repo." + "maven",
    "maven" + "central",
    "crates" + ".io",
    "registry." + "npmjs",
    "proxy." + "golang",
    "deb." + "debian",
    "archive." + "ubuntu",
    "docker" + ".io",
    "dlcdn." + "apache",
]
UNFINISHED = [
    "TO" + "DO",
    "FIX" + "ME",
    "XX" + "X",
    "NotImplemented" + "Error",
    "mark." + "skip",
    "mark." + "xfail",
]


def lines_with(tracked, needle, *, suffixes=None):
    pattern = re.compile(needle)
    return [
        f"{path.name}:{number}: {line.strip()}"
        for path in tracked
        if suffixes is None or path.suffix in suffixes
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize("host", HOSTS)
def test_no_file_names_a_package_registry(tracked, host):
    assert lines_with(tracked, re.escape(host)) == []


@pytest.mark.parametrize("word", UNFINISHED)
def test_nothing_is_left_unfinished(tracked, word):
    assert lines_with(tracked, rf"\b{re.escape(word)}\b", suffixes={".py", ".toml"}) == []


def test_every_exception_from_a_lint_rule_has_its_reason(tracked):
    bare = lines_with(tracked, r"#\s*noqa(:\s*[A-Z0-9, ]+)?\s*$", suffixes={".py"})
    assert bare == []


def test_every_type_checker_exception_is_a_narrow_one(tracked):
    assert lines_with(tracked, r"#\s*type:\s*ignore(?!\[)", suffixes={".py"}) == []


def test_every_ignored_lint_rule_has_its_reason(root):
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    lint = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.isort]")]
    rules = re.findall(r'^  "([A-Z0-9]+)",(.*)$', lint, re.MULTILINE)
    assert [rule for rule, rest in rules if not re.match(r"\s+# [\w\"]", rest)] == []
    assert len(rules) > 20


def test_every_dependency_is_pinned_to_one_version(root):
    pins = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.]+", pin)] == []


def test_every_declared_dependency_has_its_pin(root):
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = {
        normal(re.match(r"[\w.-]+", name)[0])
        for names in (project["dependencies"], *extras)
        for name in names
    }
    pinned = {normal(pin.split("==")[0]) for pin in (root / "constraints.txt").read_text().splitlines()}
    assert declared - pinned == {"mmtool"}  # an extra that holds another


def normal(name):
    """PyPA's rule for comparing project names."""
    return re.sub(r"[-_.]+", "-", name).lower()
