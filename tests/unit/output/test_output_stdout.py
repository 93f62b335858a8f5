"""stdout that does not take the result: one line says so, and the exit code still tells what was changed."""

import json
import subprocess
import sys

import pytest

FULL, CLOSED = ">/dev/full", ">&-"
FINISH = """
from mmtool.errors import PartlyAppliedError
from mmtool.output import OutputFormat, Result, finish, handle_failures
with handle_failures("x", OutputFormat({output!r})):
    finish(Result("x", [{{"a": 1}}], warnings=("careful",), applied={applied}), OutputFormat({output!r}), {error})
"""
REMEDIES = {
    FULL: "free space where stdout is redirected to, or redirect it elsewhere",
    CLOSED: "leave stdout open, or redirect it to a file",
}
REASONS = {FULL: "No space left on device", CLOSED: "it is closed"}


def shell(line):
    ran = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True)
    return ran.returncode, ran.stderr.splitlines()


def finished(where, *, output="table", applied=False, error=None):
    script = FINISH.format(output=output, applied=applied, error=error)
    return shell(
        f"{sys.executable} -c '{script}' {where}".replace("'table'", '"table"').replace("'json'", '"json"')
    )


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("where", [FULL, CLOSED])
def test_a_result_that_cannot_be_written_is_one_line_with_its_remedy(where, output):
    code, said = finished(where, output=output)
    assert (code, said) == (
        1,
        [
            "warning: careful",
            f"error: stdout cannot be written: {REASONS[where]}",
            f"remedy: {REMEDIES[where]}, then run the command again",
        ],
    )


@pytest.mark.parametrize("where", [FULL, CLOSED])
def test_work_that_was_done_before_is_not_denied(where):
    code, said = finished(where, applied=True)
    assert (code, said[1]) == (
        7,
        (
            f"error: stdout cannot be written: {REASONS[where]};"
            " the command itself has completed, only its output is missing"
        ),
    )


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_verdict_keeps_its_exit_code(output):
    code, said = finished(FULL, output=output, applied=True, error='PartlyAppliedError("half")')
    assert (code, said[:3]) == (
        6,
        ["warning: careful", "error: half", "error: stdout cannot be written: No space left on device"],
    )


@pytest.mark.parametrize("option", ["--help", "--version", "lab --help", "lab up --help"])
@pytest.mark.parametrize("where", [FULL, CLOSED])
def test_help_that_cannot_be_written_is_said_in_the_same_words(option, where):
    code, said = shell(f"{sys.executable} -m mmtool {option} {where}")
    assert (code, said[0]) == (1, f"error: stdout cannot be written: {REASONS[where]}")


def test_a_usage_error_as_json_keeps_its_exit_code():
    code, said = shell(f"{sys.executable} -m mmtool no-such -o json {FULL}")
    assert (code, len(said), json.dumps(said).count("Traceback")) == (2, 4, 0)


def test_a_full_stderr_stops_nothing():
    assert shell(f"{sys.executable} -m mmtool no-such 2>/dev/full")[0] == 2
