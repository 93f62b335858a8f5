"""A scenario's commands on clusters in memory: the real command line, in this process."""

import pytest

from kit.operations import KilledError
from kit.processes import Answer
from kit.scenario_scene import ScenarioScene
from kit.wiring import wire_failovers
from mmtool.commands.app import main


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Set the stage for a situation; commands then meet it in place of real clusters."""

    def made(situation):
        stage = ScenarioScene.of(situation, tmp_path)
        wire_failovers(stage.scene, lambda name, value: monkeypatch.setattr(f"mmtool.{name}", value))
        monkeypatch.setattr("mmtool.runtime.process.operator", lambda: "ann@host-1")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        return stage

    return made


@pytest.fixture
def typed(capsys):
    """Run a command to its end, or until it is killed."""

    def run(arguments):
        capsys.readouterr()
        code = "killed"
        try:
            main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except KilledError:
            pass
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err, 0.0)

    return run
