"""A scenario's commands on clusters in memory: the real command line, in this process."""

import pytest

from mmtool.commands.app import main
from mmtool.testing.operations import KilledError
from mmtool.testing.processes import Answer
from mmtool.testing.scenario_scene import ScenarioScene


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Set the stage for a situation; commands then meet it in place of real clusters."""

    def made(situation):
        stage = ScenarioScene.of(situation, tmp_path)
        scene = stage.scene
        for module in ("failover", "_failover_ways"):
            monkeypatch.setattr(
                f"mmtool.commands.{module}.connect", lambda flow, timeout, **_: scene.clusters
            )
            monkeypatch.setattr(f"mmtool.commands.{module}.engine_drain", lambda: scene)
            monkeypatch.setattr(f"mmtool.commands.{module}.both_ways", lambda *_: scene.both)
        monkeypatch.setattr("mmtool.commands._operations.target_side", lambda flow, timeout: scene.side)
        monkeypatch.setattr("mmtool.commands._diverged.both_ways", lambda *_: scene.both)
        monkeypatch.setattr("mmtool.commands._diverged.passing", lambda: scene.passing)
        monkeypatch.setattr(
            "mmtool.commands._diverged.writer_into", lambda both, diverged, *_: scene.writers[diverged.kind]
        )
        monkeypatch.setattr(
            "mmtool.commands._operations.written_at",
            lambda found, *_: scene.source if found.mode == "failback" else scene.target,
        )
        monkeypatch.setattr("mmtool.commands._operations.operator_seat", lambda *_: scene.seat)
        monkeypatch.setattr("mmtool.commands._operations.tools", scene.tools)
        monkeypatch.setattr("mmtool.commands._operations.journal", lambda *_, **__: scene.journal)
        monkeypatch.setattr("mmtool.people.operator", lambda: "ann@host-1")
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
