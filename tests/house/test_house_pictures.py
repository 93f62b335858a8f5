"""Pictures of the documentation: readable everywhere, and drawn from what was recorded."""

import json
import re
import runpy
import sys

import pytest


@pytest.fixture(scope="module")
def session(root):
    """The script that records and draws a session."""
    return runpy.run_path(str(root / "docs" / "_tools" / "session.py"), run_name="session")


@pytest.fixture(params=["data-path.svg", "session.svg"])
def picture(root, request):
    return (root / "docs" / "images" / request.param).read_text(encoding="utf-8")


def test_a_picture_loads_nothing_and_names_no_host(picture):
    assert set(re.findall(r"https?://[^\"' )]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"@font-face|@import|href=|<image|<script|<foreignObject", picture) == []


def test_the_session_is_drawn_from_the_recording(root, session):
    assert (root / "docs" / "images" / "session.svg").read_text(encoding="utf-8") == session["picture"]()


def test_the_recorded_session_is_a_demo_that_holds(root):
    text = (root / "docs" / "images" / "session.cast").read_text(encoding="utf-8")
    assert json.loads(text.splitlines()[0])["title"] == "mmtool demo"
    assert re.search(r"3 groups, [\d,]+ records, 0 skipped, 0 re-read", text)


def test_a_command_is_recorded_as_on_a_terminal_with_its_exit_code(session):
    program = "import sys; print('terminal', sys.stdout.isatty()); sys.exit(3)"
    text, code = session["record"]([sys.executable, "-c", program], "demo")
    assert code == 3
    assert "".join(json.loads(line)[2] for line in text.splitlines()[1:]) == "$ demo\r\nterminal True\r\n"
