"""What the tests of several commands start with."""

import pytest

from kit.wiring import wire


@pytest.fixture
def failover(mmtool, scene):
    """``failover("planned", "-g", "app")`` on the module's own ``scene``, with its JSON document."""

    def run(command, *arguments):
        return mmtool("failover", command, *arguments, "-c", scene.config, "-o", "json")

    return run


@pytest.fixture
def wired(monkeypatch):
    """``wired(scene)``: commands meet the scene, which comes back, where they would connect to clusters."""

    def on(scene):
        wire(scene, lambda at, value: monkeypatch.setattr(f"mmtool.{at}", value))
        return scene

    return on
