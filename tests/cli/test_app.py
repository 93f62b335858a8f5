import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mmtool import __version__
from mmtool.commands.app import COMMANDS, Early
from mmtool.output import OutputFormat

ROOT = Path(__file__).parents[2]
PRESENT = [entry for entry in COMMANDS if (ROOT / "commands" / f"{entry.symbol}.py").exists()]


def test_help_fits_one_screen_and_shows_every_command_under_its_panel(mmtool):
    ended = mmtool("--help")
    lines = ended.stdout.splitlines()
    assert (ended.code, len(lines) <= 45, max(map(len, lines)) <= 80) == (0, True, True)
    for entry in PRESENT:
        assert re.search(rf"^{entry.panel}:\n(  .*\n)*?  {entry.name} ", ended.stdout, re.MULTILINE), entry


def test_help_ends_with_three_examples(mmtool):
    examples = mmtool("--help").stdout.split("Examples:\n")[1]
    assert len(re.findall(r"^  mmtool \S+", examples, re.MULTILINE)) == 3


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("entry", PRESENT, ids=lambda entry: entry.name)
def test_every_command_has_help_at_eighty_columns(mmtool, entry, option):
    ended = mmtool(entry.name, option)
    assert (ended.code, ended.stderr) == (0, "")
    assert max(map(len, ended.stdout.splitlines())) <= 80


def test_the_version_is_the_packages(mmtool):
    assert mmtool("--version").stdout == f"mmtool {__version__}\n"


def test_nothing_typed_is_a_usage_error_that_shows_help_on_stderr(mmtool):
    ended = mmtool()
    assert (ended.code, ended.stdout, "Usage: mmtool" in ended.stderr) == (2, "", True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("replicate --every 0", "invalid value for '--every': must be 1 or more"),
        ("replicate --every x", "invalid value for '--every': must be a whole number"),
        ("lab up --brokers 10", "invalid value for '--brokers': must be 9 or less"),
        (
            "lab status -o xml",
            "invalid value for '-o' / '--output': 'xml' is not one of 'table', 'json', 'csv'",
        ),
        ("failover planned --timeout 0s", "invalid value for '--timeout': '0s' is zero"),
    ],
)
def test_a_value_that_an_option_cannot_take_is_said_plainly(mmtool, arguments, message):
    ended = mmtool(*arguments.split())
    assert (ended.code, ended.stderr.splitlines()[0][: len(message) + 7]) == (2, f"error: {message}")


def test_a_mistyped_line_with_json_is_still_one_document(mmtool):
    ended = mmtool("no-such", "-o", "json")
    assert (ended.code, json.loads(ended.stdout)["errors"][0]["code"]) == (2, "usage")


@pytest.mark.parametrize(
    ("line", "early"),
    [
        ("status -o json", Early("status", OutputFormat.JSON, debug=False)),
        ("status -ojson --debug", Early("status", OutputFormat.JSON, debug=True)),
        ("status -vo json", Early("status", OutputFormat.JSON, debug=False)),
        ("status --output=csv", Early("status", OutputFormat.CSV, debug=False)),
        ("status --output csv -o json", Early("status", OutputFormat.JSON, debug=False)),
        ("status -o yaml", Early("status", OutputFormat.TABLE, debug=False)),
        ("status -- -o json", Early("status", OutputFormat.TABLE, debug=False)),
        ("failover planned -o json", Early("failover planned", OutputFormat.JSON, debug=False)),
        ("failover --help", Early("failover", OutputFormat.TABLE, debug=False)),
        ("nonsense", Early("mmtool", OutputFormat.TABLE, debug=False)),
        ("", Early("mmtool", OutputFormat.TABLE, debug=False)),
    ],
)
def test_the_error_handler_knows_the_format_before_options_are_read(line, early):
    assert Early.of(line.split()) == early


def test_the_console_script_and_the_module_are_the_same_tool():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    ran = subprocess.run(
        [sys.executable, "-m", "mmtool", "--version"], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert (scripts, ran.stdout) == ({"mmtool": "mmtool.__main__:main"}, f"mmtool {__version__}\n")


def test_a_reader_that_goes_away_is_no_error():
    bash = shutil.which("bash")
    line = f"set -o pipefail; {sys.executable} -m mmtool --help | true"
    ran = subprocess.run([bash, "-c", line], check=False, capture_output=True, text=True, cwd=ROOT)
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_completion_offers_the_commands():
    script = Path(sys.executable).with_name("mmtool")
    asked = {"_MMTOOL_COMPLETE": "complete_bash", "COMP_WORDS": "mmtool ", "COMP_CWORD": "1"}
    ran = subprocess.run([script], check=True, capture_output=True, text=True, env=os.environ | asked)
    assert set(ran.stdout.split()) == {entry.name for entry in PRESENT}
