"""Pictures of the documentation: readable everywhere, and drawn from what was recorded."""

import json
import re
import runpy
import sys

import pytest

IN_GREY = "\x1b[2mone\x1b[0m\r\n"
SPINNER = "\x1b[32m|\x1b[0m two"
ERASED = "\r\x1b[2K"


@pytest.fixture(scope="module")
def session(root):
    """The script that records and draws a session."""
    return runpy.run_path(str(root / "docs" / "_tools" / "session.py"), run_name="session")


@pytest.fixture(params=["data-path.svg", "session.svg"])
def picture(root, request):
    return (root / "docs" / "images" / request.param).read_text(encoding="utf-8")


def cast(*events):
    """A recording of these times and texts."""
    lines = [
        {"version": 2, "width": 122, "height": 200, "title": "demo"},
        *([at, "o", text] for at, text in events),
    ]
    return "\n".join(json.dumps(line) for line in lines)


def test_a_picture_has_colours_for_light_and_for_dark(picture):
    light, dark = picture.split("@media (prefers-color-scheme: dark)", 1)
    colours = [re.findall(r"^ *text \{[^}]*fill: (#\w+)", part, re.MULTILINE) for part in (light, dark)]
    assert [len(found) for found in colours] == [1, 1]
    assert colours[0] != colours[1]


def test_a_picture_loads_nothing_and_names_no_host(picture):
    assert set(re.findall(r"https?://[^\"' )]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"@font-face|@import|href=|<image|<script|<foreignObject", picture) == []


def test_the_session_is_drawn_from_the_recording(root, session):
    assert (root / "docs" / "images" / "session.svg").read_text(encoding="utf-8") == session["picture"]()


def test_the_recorded_session_is_a_demo_that_holds(root):
    text = (root / "docs" / "images" / "session.cast").read_text(encoding="utf-8")
    assert json.loads(text.splitlines()[0])["title"] == "mmtool demo"
    assert re.search(r"3 groups, [\d,]+ records, 0 skipped, 0 re-read", text)


def test_a_row_is_shown_from_when_it_was_printed_until_it_was_replaced(session):
    film = session["film_of"](cast((0.0, IN_GREY), (1.0, SPINNER), (2.0, ERASED), (3.0, "three")))
    assert [(row.row, [run[1] for run in row.content], row.begin, row.end) for row in film.rows] == [
        (0, ["one"], 0.0, 11.0),
        (1, ["|", "two"], 1.0, 2.0),
        (1, ["three"], 3.0, 11.0),
    ]
    assert film.rows[0].content[0][2] == ("brightblack", False)


def test_a_session_longer_than_the_picture_scrolls_to_its_last_row(session):
    rows = session["SHOWN"] + 3
    film = session["film_of"](cast((0.0, "first\r\n"), (2.0, "more\r\n" * (rows - 2)), (4.0, "last")))
    assert film.scrolls == ((0.0, 0), (2.0, 2), (4.0, 3))


def test_a_command_is_recorded_as_on_a_terminal_with_its_exit_code(session):
    program = "import sys; print('terminal', sys.stdout.isatty()); sys.exit(3)"
    text, code = session["record"]([sys.executable, "-c", program], "demo")
    assert code == 3
    assert "".join(json.loads(line)[2] for line in text.splitlines()[1:]) == "$ demo\r\nterminal True\r\n"
