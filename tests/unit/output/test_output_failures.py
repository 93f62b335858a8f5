import json
import signal

import pytest

from kit.processes import TIMED
from mmtool import errors
from mmtool.output import OutputFormat, Result, console, emit, finish, handle_failures, hide

EXIT_CODES = {
    errors.MmtoolError: 1,
    errors.UsageError: 2,
    errors.ConfigError: 2,
    errors.RefusedError: 3,
    errors.GateError: 4,
    errors.StalePlanError: 5,
    errors.PartlyAppliedError: 6,
    errors.CheckFailedError: 7,
    errors.DifferencesError: 8,
    errors.UnreachableError: 9,
    errors.NotAuthorisedError: 9,
    errors.OwnedElsewhereError: 10,
}


@pytest.fixture
def ended(capsys):
    """Raise something inside the handler; what is left is (exit code, stdout, stderr)."""

    def end(error, output=OutputFormat.TABLE, *, debug=False, before=None):
        with pytest.raises(SystemExit) as caught:
            _fail(error, output, debug, before)
        captured = capsys.readouterr()
        return caught.value.code, captured.out, captured.err

    return end


@pytest.mark.parametrize(
    ("kind", "code"), EXIT_CODES.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_every_error_ends_with_the_contracts_exit_code(ended, kind, code):
    assert ended(kind("what, where"))[0] == code


def test_an_error_is_one_line_and_its_remedy_another(ended):
    ended_with = ended(errors.ConfigError("no such key: a.b in mm2.properties", remedy="write a.c"))
    assert ended_with == (2, "", "error: no such key: a.b in mm2.properties\nremedy: write a.c\n")


def test_with_json_stdout_is_one_document_on_failure_too(ended):
    code, out, err = ended(errors.UnreachableError("b1:9092 does not answer"), OutputFormat.JSON)
    document = json.loads(out)
    assert (code, document["command"], document["data"]) == (9, "status", [])
    assert document["errors"] == [{"code": "unreachable", "message": "b1:9092 does not answer", "remedy": ""}]
    assert err == "error: b1:9092 does not answer\n"


def test_an_error_after_the_document_writes_no_second_one(ended):
    code, out, err = ended(errors.GateError("lag"), OutputFormat.JSON, before=Result("status", [{"a": 1}]))
    assert (code, json.loads(out)["data"], err) == (4, [{"a": 1}], "error: lag\n")


@pytest.mark.parametrize("output", OutputFormat)
def test_an_error_that_comes_with_rows_is_in_the_document_and_told_once(capsys, output):
    with pytest.raises(SystemExit) as caught, handle_failures("status", output):
        finish(Result("status", [{"a": 1}]), output, errors.GateError("lag 7", remedy="wait"))
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (4, "error: lag 7\nremedy: wait\n")
    if output is OutputFormat.JSON:
        document = json.loads(out)
        assert (document["data"], document["errors"][0]["message"]) == ([{"a": 1}], "lag 7")


def test_without_an_error_finishing_is_just_writing(capsys):
    finish(Result("status", [{"a": 1}]), OutputFormat.CSV, None)
    assert capsys.readouterr() == ("a\n1\n", "")


def test_interrupt_is_130(ended):
    assert ended(KeyboardInterrupt())[0] == 130


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_clean_stop_ends_with_the_signals_code(ended, signum, code):
    assert ended(errors.StoppedError(signum))[0] == code


@pytest.mark.parametrize("output", [OutputFormat.TABLE, OutputFormat.JSON])
def test_the_end_of_an_endless_command_is_no_error(capsys, output):
    with pytest.raises(SystemExit) as caught, handle_failures("replicate", output):
        finish(Result("replicate", [{"a": 1}]), output, errors.StoppedError(signal.SIGTERM, is_end=True))
    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (143, "stopped by SIGTERM\n")
    if output is OutputFormat.JSON:
        assert (json.loads(out)["data"], json.loads(out)["errors"]) == ([{"a": 1}], [])


def test_messages_of_a_service_start_with_the_time(capsys):
    console.switches.timed = True
    console.talk("owner of the flow")
    console.warn("slow")
    console.fail(errors.GateError("lag"))
    console.switches.start_over()
    console.talk("done")
    *timed, last = capsys.readouterr().err.splitlines()
    assert [TIMED.match(line)[0] != "" for line in timed] == [True] * 3
    assert [TIMED.sub("", line) for line in timed] == ["owner of the flow", "warning: slow", "error: lag"]
    assert last == "done"


def test_the_unexpected_is_one_line_with_a_way_on(ended):
    code, _, err = ended(ZeroDivisionError("division by zero\nsecond line"))
    assert (code, len(err.splitlines())) == (1, 2)
    assert err.startswith("error: unexpected ZeroDivisionError: division by zero (test_output_failures.py:")
    assert "--debug" in err.splitlines()[1]


@pytest.mark.parametrize(
    ("command", "looks_first"),
    [("status", False), ("failover list", False), ("failover planned", True), ("failover resume", True)],
)
def test_after_an_unexpected_error_a_failover_is_looked_at_before_it_is_run_again(
    capsys, command, looks_first
):
    with pytest.raises(SystemExit), handle_failures(command, OutputFormat.TABLE):
        raise KeyError("x")
    assert ("remedy: first run `mmtool failover list -c FILE`" in capsys.readouterr().err) == looks_first


def test_only_debug_shows_a_traceback(ended):
    shown = [("Traceback" in ended(KeyError("x"), debug=debug)[2]) for debug in (False, True)]
    assert shown == [False, True]


@pytest.mark.parametrize("output", [OutputFormat.TABLE, OutputFormat.JSON])
@pytest.mark.parametrize("debug", [False, True])
def test_a_known_secret_is_shown_nowhere(ended, output, debug):
    hide("hunter2-and-more")
    _, out, err = ended(RuntimeError("login as app with hunter2-and-more failed"), output, debug=debug)
    assert "hunter2" not in out + err


def _fail(error, output, debug, before):
    with handle_failures("status", output, debug=debug):
        if before is not None:
            emit(before, output)
        raise error


def test_systemexit_passes_through():
    with pytest.raises(SystemExit) as caught, handle_failures("status", OutputFormat.TABLE):
        raise SystemExit(3)
    assert caught.value.code == 3
