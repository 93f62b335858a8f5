"""Every console block of the documentation that clusters in memory or a shell can run, typed as the page has it.

A page that has fallen behind is mended by ``pytest tests/cli/test_documented.py --update-docs``.
"""

import os
import re
from pathlib import Path

import pytest

from kit.consoles import PASSWORD_VARIABLE, InProcess, type_block
from kit.doc_blocks import cases
from mmtool.commands.app import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def console(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mmtool.runtime.process.operator", lambda: "ann@host-1")
    monkeypatch.setattr("mmtool.insight.status._PUMPS_WRITE_SECONDS", 0.0)
    environ = {PASSWORD_VARIABLE: "changeit", "MMTOOL_CONFIG": "mm2.properties"}
    return InProcess(tmp_path, environ, main, {"~/.local/state": os.environ["XDG_STATE_HOME"]})


@pytest.mark.parametrize("case", cases(ROOT, "scene", "shell"), ids=lambda case: case.name)
def test_its_blocks_show_what_their_commands_print(case, console, monkeypatch, request):
    if case.label.kind == "scene":
        console.begin(case.label.name, lambda at, value: monkeypatch.setattr(f"mmtool.{at}", value))
    update = request.config.getoption("--update-docs")
    wrong = [found for block in case.blocks for found in type_block(block, console, update=update)]
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("case", cases(ROOT, "make"), ids=lambda case: case.name)
def test_a_page_names_targets_that_the_makefile_has(case):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [typed.line.split() for block in case.blocks for typed in block.typed]
    targets = {words[1] for words in lines if words[0] == "make"}
    assert len(targets) == len(lines)
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_properties_file_of_the_readme_can_be_used(console, tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"```properties\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mm2.properties").write_text(file)
    console.run("mmtool config check")
    assert (console.code, console.printed) == (0, "mm2.properties can be used; flows: east->west\n")
