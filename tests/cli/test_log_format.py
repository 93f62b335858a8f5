"""``--log-format json`` and MMTOOL_LOG_FORMAT, as a process has them."""

import json
import os
import subprocess
import sys

import pytest

from kit.schemas import misfits


def lines_of(*arguments, **environ):
    ran = subprocess.run(
        [sys.executable, "-m", "mmtool", *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | environ,
    )
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [misfits("log-line", line) for line in lines if misfits("log-line", line)] == []
    return ran, lines


AS_LOG = {"MMTOOL_LOG_FORMAT": "json"}


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["status", "--bogus", "--log-format", "json"], {}),
        (["status", "--log-format=json", "--bogus"], {}),
        (["status", "--bogus"], AS_LOG),
        (["--bogus"], AS_LOG),
        (["no-such"], AS_LOG),
        (["failover"], AS_LOG),
    ],
    ids=str,
)
def test_an_error_of_usage_is_a_line(arguments, environ):
    ran, lines = lines_of(*arguments, **environ)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert [(line["event"], line["code"], line["exit_code"]) for line in lines] == [("error", "usage", 2)]


def test_the_command_line_beats_the_environment():
    ran, lines = lines_of("status", "--bogus", "--log-format", "json", MMTOOL_LOG_FORMAT="text")
    assert (ran.returncode, len(lines)) == (2, 1)


@pytest.mark.parametrize("environ", [{}, {"MMTOOL_LOG_FORMAT": "yaml"}], ids=str)
def test_a_format_that_does_not_exist_is_refused(mmtool, environ, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ended = mmtool("config", "check", *([] if environ else ["--log-format", "yaml"]))
    assert (ended.code, "'yaml' is not one of 'text', 'json'" in ended.stderr) == (2, True)


def test_warnings_of_the_file_are_lines_with_their_key_and_no_secret(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"
        "a->b.enabled = true\na.consumer.reconnect.backoff.ms = 9999999\nno.such.key = 1\n"
        "a.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="geheim";\n'
        "a.security.protocol = SASL_PLAINTEXT\na.sasl.mechanism = PLAIN\n"
    )
    ran, lines = lines_of("status", "-c", str(path), "--timeout", "500ms", "--log-format", "json")
    told = {(line["event"], line.get("key")) for line in lines}
    assert {("warning", "no.such.key"), ("config_value_adjusted", "a.consumer.reconnect.backoff.ms")} <= told
    assert {line["command"] for line in lines} == {"status"}
    assert lines[-1]["level"] == "error"
    assert "geheim" not in ran.stderr
