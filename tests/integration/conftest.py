"""Running the real command against the session's clusters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pytest

from mmtool.config import load_settings
from mmtool.testing.processes import Answer, MmtoolProcess, run_mmtool

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.lab.fleet import Fleet

_numbers = count(1)
_MEASURED = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


@pytest.fixture(scope="session")
def measured(request):
    """``measured("10 s until ...")`` puts a figure under the session's result."""
    return request.config.stash.setdefault(_MEASURED, []).append


@dataclass(frozen=True)
class Bench:
    """``mmtool replicate`` between the session's clusters, with a properties file for each call."""

    fleet: Fleet
    directory: Path

    def properties(self, topics: str, **extra: str) -> Path:
        """A properties file that mirrors ``topics``; ``extra`` wins."""
        path = self.directory / f"mm2-{next(_numbers)}.properties"
        settings = {"source->target.topics": topics, "refresh.topics.interval.seconds": "2", **extra}
        path.write_text(self.fleet.properties([("source", "target")], **settings))
        return path

    def flow(self, properties: Path):
        """The one flow of a properties file."""
        (flow,) = load_settings(properties, os.environ).flows
        return flow

    def start(self, properties: Path, *options: str, environ=None) -> MmtoolProcess:
        """A running ``replicate``; use it as a context manager."""
        folder = self.directory / f"run-{next(_numbers)}"
        arguments = ("replicate", "-c", str(properties), "--every", "1", *options)
        return MmtoolProcess(folder, *arguments, environ=environ)

    def catch_up(self, properties: Path, *options: str, environ=None) -> Answer:
        """One ``replicate --until-caught-up`` to its end."""
        folder = self.directory / f"run-{next(_numbers)}"
        arguments = ("replicate", "-c", str(properties), "--until-caught-up", *options)
        return run_mmtool(folder, *arguments, environ=environ)


@pytest.fixture(scope="module")
def bench(fleet, tmp_path_factory) -> Bench:
    return Bench(fleet, tmp_path_factory.mktemp("replicate"))
