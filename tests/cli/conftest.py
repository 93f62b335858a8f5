"""What the tests of several commands start with."""

import pytest


@pytest.fixture
def failover(mmtool, scene):
    """``failover("planned", "-g", "app")`` on the module's own ``scene``, with its JSON document."""

    def run(command, *arguments):
        return mmtool("failover", command, *arguments, "-c", scene.config, "-o", "json")

    return run
