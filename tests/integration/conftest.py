"""Running the real command against the session's clusters."""

from __future__ import annotations

import pytest

from mmtool.testing.replicating import Bench

_MEASURED = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


@pytest.fixture(scope="session")
def measured(request):
    """``measured("10 s until ...")`` puts a figure under the session's result."""
    return request.config.stash.setdefault(_MEASURED, []).append


@pytest.fixture(scope="module")
def bench(fleet, tmp_path_factory) -> Bench:
    """The session's clusters, and a folder for what the commands say."""
    return Bench(fleet, tmp_path_factory.mktemp("replicate"))
