"""The CI example of ``deploy/ci``: its shell steps, run as they stand."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

WORKFLOW = Path(__file__).parents[2] / "deploy" / "ci" / "github-actions.yml"
_SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""What GitHub makes of ``shell: bash``."""
_STEP_SECONDS = 240


@pytest.fixture(scope="module")
def job():
    (found,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    return found


@pytest.fixture
def shell(job, tmp_path):
    """Runs a step as a runner does; what it has left running is stopped."""
    environ = {
        key: value.replace("${{ github.workspace }}", str(tmp_path)) for key, value in job["env"].items()
    }
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(script):
        return subprocess.run(
            [*_SHELL, script],
            cwd=tmp_path,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_STEP_SECONDS,
        )

    yield run
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "replicate.pid").read_text()), 9)
    run('mmtool lab down --state-dir "$LAB"')


def test_every_shell_step_of_the_ci_example_passes(job, shell, tmp_path):
    assert job["defaults"]["run"]["shell"] == "bash"
    steps = [step for step in job["steps"] if "run" in step and not step["run"].startswith("pip install")]
    assert len(steps) == 6
    for step in steps:
        ended = shell(step["run"])
        assert ended.returncode == 0, f"{step['name']}:\n{ended.stdout}\n{ended.stderr}"
    suite = ET.fromstring((tmp_path / "smoke.xml").read_text()).find("testsuite")  # noqa: S314  our own
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "0")
    assert "planned failover: records lost (RPO)" in (tmp_path / "drill.html").read_text()
    uploaded = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert all((tmp_path / name).exists() for name in uploaded[0]["with"]["path"].split())
