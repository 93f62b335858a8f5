"""What the tree says, and what it never says."""

import ast
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


MESSAGES = {"message", "reason", "remedy", "sentence", "detail", "why", "error", "failure"}
"""Names of texts that mmtool makes, or gets from a broker: what a caller asks them for is a value beside them."""
SAME_ANYWHERE = {"failed", "problem", "refusal", "refused", "cause"}
"""Names of a text, or of several things: only a method of a text shows which."""
METHODS = {
    "endswith",
    "startswith",
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
}
SEARCHES = {"search", "match", "fullmatch", "findall", "finditer", "sub"}
READ = {
    "commands/app.py:_usage_error": "Click's errors have no codes",
    "mmtool/kafka/admin/listeners.py:_open": "asyncio puts the errors of several addresses into one text",
    "mmtool/kafka/batches/compression.py:filled": "cramjam has one error for everything",
    "mmtool/kafka/clients.py:new_client": "librdkafka has one code for every refused key",
    "mmtool/lab/artifacts.py:_run_ivy": "Ivy has no codes",
    "mmtool/plan/flow/status.py:_told_of_loss": "a worker's reason is stored as text: the same sentence comes once",
    "mmtool/plan/topics/configs.py:_sentence": "Kafka names the config again in front of its words",
    "mmtool/plan/topics/configs.py:is_unknown": "Kafka has one code for every refused config",
    "mmtool/plan/words.py:first_part": "remedies may end with a repetition of the command, in one form",
}
"""The functions that read a message, each with the reason why it has no value to ask."""


def named(node):
    """The last name of an expression: ``reason`` of ``row.reason``, ``why[0]`` and ``str(reason)``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=inner):
            return named(inner)
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[inner]):
            return "error" if named(inner) in {"error", "exc", "failure"} else named(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "strip" | "rstrip" | "str")):
            return named(inner)
    return ""


def reads_message(node):
    """Whether a part of the tree looks into a message; ``split()`` alone only joins its lines."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]):
            is_text = isinstance(node.left, ast.JoinedStr | ast.Constant | ast.Name)
            return is_text and named(text) in MESSAGES
        case ast.Call(func=ast.Attribute(value=text, attr=method), args=[_, *_]) if method in METHODS:
            return named(text) in MESSAGES | SAME_ANYWHERE
        case ast.Call(func=ast.Attribute(attr=method), args=arguments) if method in SEARCHES:
            return any(named(text) in MESSAGES for text in arguments)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="str")) as text, slice=ast.Slice()):
            return named(text) in MESSAGES
    return False


def test_no_code_looks_into_a_message(modules, root):
    """What it would look for is a value: a code, a type, a field (`HaltReason`, `Problem`, `GroupReason`)."""
    reading = {
        f"{module.path.relative_to(root)}:{function.name}"
        for module in modules
        if not module.name.startswith("kit")
        for function in module.functions
        if any(map(reads_message, ast.walk(function)))
    }
    assert reading == READ.keys()
