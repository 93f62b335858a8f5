"""The units of ``deploy/systemd``: valid for systemd, hardened, and with commands that mmtool has."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kit.command_tree import parsed

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
INSTALLED = "/opt/mmtool/bin/"
HARDENED = 2.5
"""Of 10, the exposure that systemd itself computes: below it calls a unit OK."""

by_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def settings(unit):
    """The assignments of a unit, by key, in their order."""
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


@pytest.fixture
def options():
    """Reads the command that a unit starts."""

    def read(unit):
        (command,) = settings(unit)["ExecStart"]
        program, *arguments = shlex.split(command)
        assert program == f"{INSTALLED}mmtool"
        command, found = parsed(arguments)
        return {**found, "command": command}

    return read


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def unit_here(tmp_path):
    """A unit that starts the programs of this environment: systemd checks that they exist."""

    def made(unit, **replaced):
        text = unit.read_text(encoding="utf-8").replace(INSTALLED, f"{Path(sys.executable).parent}/")
        for old, new in replaced.items():
            text = text.replace(old, new)
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
        return str(tmp_path / unit.name)

    return made


def test_there_is_a_unit_for_the_owner_and_one_for_the_exporter(options):
    assert [unit.name for unit in UNITS] == ["mmtool-metrics.service", "mmtool-replicate.service"]
    assert [options(unit)["command"] for unit in UNITS] == ["metrics", "replicate"]


@by_systemd
@each_unit
def test_systemd_finds_no_fault_in_a_unit(unit, unit_here):
    ended = analyze("verify", "--man=no", unit_here(unit))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@by_systemd
@each_unit
def test_systemd_calls_a_unit_hardened(unit, unit_here):
    ended = analyze("security", "--offline=true", unit_here(unit))
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", ended.stdout)
    assert float(exposure) < HARDENED


def test_replicate_is_told_to_stop_alone_and_has_the_time_for_it():
    """A SIGTERM to Spark as well would end it before the records on their way are written."""
    replicate = settings(UNITS[1])
    assert replicate["KillMode"] == ["mixed"]
    assert int(replicate["TimeoutStopSec"][0]) >= 2 * 30


def test_the_module_that_is_run_before_is_there():
    (command,) = settings(UNITS[1])["ExecStartPre"]
    assert find_spec(shlex.split(command)[-1]) is not None


def test_a_second_host_with_the_same_unit_waits_for_the_lease(options):
    assert options(UNITS[1])["standby"] is True


@each_unit
def test_a_service_starts_again_unless_its_file_has_to_be_changed_first(unit):
    assert settings(unit)["Restart"] == ["always"]
    assert settings(unit)["RestartPreventExitStatus"] == ["2"]


def test_both_services_fit_on_one_host(options):
    metrics, replicate = map(options, UNITS)
    assert metrics["port"] != replicate["metrics_port"]
    ours = [settings(unit)["StateDirectory"] + settings(unit)["RuntimeDirectory"] for unit in UNITS]
    assert set(ours[0]) & set(ours[1]) == set()
