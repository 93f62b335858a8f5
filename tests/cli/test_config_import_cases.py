"""``config import`` of resources that people run MirrorMaker 2 with ends as ``import_cases/expected.toml`` says.

Of each import: what is replaced in the file before, the keys that are written, and words that stdout or stderr has and
stdout lacks; of each check of the written file, how often words are on stdout when something was replaced in it.
"""

import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "import_cases"
CASES = tomllib.loads((FOLDER / "expected.toml").read_text())["imports"]


def replaced(text, words):
    for old, new in words.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["learns"])
def test_a_resource_is_imported_as_its_case_says(case, mmtool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, path = tmp_path / case["file"], tmp_path / "mm2.properties"
    given.write_text(replaced((FOLDER / case["file"]).read_text(), case.get("replace", {})))
    ended = mmtool("config", "import", case["option"], given, "-c", path)
    written, told = path.read_text(), ended.stdout + ended.stderr
    lines = [line for line in written.splitlines() if line and not line.startswith("#")]
    keys = dict(line.split(" = ", 1) for line in lines)
    assert ended.code == case["exit"], ended
    assert {key: keys[key].strip() for key in case.get("keys", {})} == case.get("keys", {})
    assert [words for words in case.get("says", ()) if words not in told] == []
    assert [words for words in case.get("once", ()) if ended.stdout.count(words) != 1] == []
    assert [words for words in case.get("lacks", ()) if words in ended.stdout] == []
    assert [secret for secret in case.get("secrets", ()) if secret in written + told] == []
    for check in case.get("checks", ()):
        path.write_text(replaced(written, check.get("replace", {})) + check.get("more", ""))
        checked = mmtool("config", "check", "-c", path)
        counts = {words: checked.stdout.count(words) for words in check["counts"]}
        assert (checked.code, counts) == (0, check["counts"])
