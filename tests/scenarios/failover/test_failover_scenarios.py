"""A folder per case, as `kit.scenarios` reads it."""

import re
from pathlib import Path

import pytest

from kit.scenario_ends import differences, operation_of, standing_differences
from kit.scenarios import ScenarioError, read_scenario

_NAME = re.compile(r"\b(OPERATION\d?|FILE|PAGE|DIR|KEPT)\b")
FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/situation.toml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_ends_as_the_operator_was_told(folder, stage, typed, tmp_path):
    scenario = read_scenario(folder)
    there, kept = stage(scenario.situation), tmp_path / "state" / "mmtool" / "undo"
    for name, content in scenario.situation.files.items():
        (tmp_path / name).write_text(content.replace("DIR", str(tmp_path)), encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    before, found, page = there.standing(), [], tmp_path / "page.md"
    names = {
        "OPERATION": "OPERATION",
        "FILE": str(tmp_path / "plan.json"),
        "PAGE": str(page),
        "KEPT": str(kept),
        "DIR": str(tmp_path),
    }
    for number, (words, end) in enumerate(zip(scenario.commands, scenario.ends, strict=True), 1):
        tool, *arguments = [_NAME.sub(lambda found: names[found[0]], word) for word in words]
        assert tool == "mmtool"
        there.begin()
        output = ["-o", "json"] if end.prints is None else []
        answer = typed([*arguments, "-c", str(there.scene.config), *output])
        there.end()
        if begun := operation_of(answer):
            names.update({"OPERATION": begun, f"OPERATION{number}": begun})
        names["KEPT"] = str(next(kept.glob("*"), kept))
        found += [f"command {number}: {difference}" for difference in differences(end, answer)]
        if end.code is None and answer.code != "killed":
            found.append(f"command {number} lived on")
        found += [f"the page does not say {words!r}" for words in end.page if words not in page.read_text()]
    there.check_all_happened()
    found += standing_differences(scenario.expected(before, names), there.standing())
    assert not found, "\n".join(found)


def test_there_are_at_least_thirty_and_each_says_what_is_learnt_in_one_sentence():
    learnt = [read_scenario(folder).situation.learns for folder in FOLDERS]
    assert len(FOLDERS) >= 30
    assert [words for words in learnt if not (words.endswith(".") and len(words.split()) > 5)] == []
    assert len(set(learnt)) == len(learnt)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("situation.toml", 'learns = "It."\nreplicats = 3\n', "nothing reads replicats"),
        ("situation.toml", 'learns = "It."\n[topics]\norders = [{ end = 3 }]\n', "source_end is missing"),
        ("situation.toml", 'learns = "It."\n[groups.app]\ncommits = {}\n', "nothing reads commits"),
        ("expected.toml", "[[commands]]\nexit = 0\ncode = 3\n", "nothing reads code"),
        ("expected.toml", "", "1 commands and 0 ends"),
    ],
)
def test_a_slip_of_the_pen_is_no_passing_test(tmp_path, name, text, why):
    good = {
        "situation.toml": 'learns = "It."\n',
        "command": "mmtool failover list\n",
        "expected.toml": "[[commands]]\nexit = 0\n",
    }
    for file, content in {**good, name: text}.items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(ScenarioError, match=why):
        read_scenario(tmp_path)
