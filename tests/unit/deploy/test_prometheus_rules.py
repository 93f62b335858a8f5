"""The rules that are shipped for Prometheus, judged by Prometheus' own tool."""

import re
import subprocess
from pathlib import Path

import pytest

from kit.debian import has_apt, program

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not has_apt(), reason="promtool comes from Debian's package prometheus"),
]

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"


def promtool(*arguments):
    tool = program("prometheus", "usr/bin/promtool")
    return subprocess.run([tool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)


def test_promtool_finds_no_fault_in_the_rules():
    ended = promtool("check", "rules", "mmtool.rules.yml")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_each_alert_is_raised_when_it_should_be_and_not_before():
    ended = promtool("test", "rules", "mmtool.rules.test.yml")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_example_configuration_is_valid():
    ended = promtool("check", "config", "prometheus.yml")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_alert_is_raised_in_a_test():
    alerts = re.findall(r"alert: (\w+)", (FOLDER / "mmtool.rules.yml").read_text(encoding="utf-8"))
    tests = (FOLDER / "mmtool.rules.test.yml").read_text(encoding="utf-8")
    raised = re.findall(r"alertname: (\w+)\s+exp_alerts:", tests)
    assert len(alerts) > 10
    assert sorted(set(alerts) - set(raised)) == []
