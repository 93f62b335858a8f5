"""Fixtures for everybody: two real clusters, started once per session when a test asks for them."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from mmtool.lab.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLUSTERS = pytest.StashKey[Fleet]()
_counter = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-data", action="store_true", help="keep the brokers' data as well as their logs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "fleet" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kafka)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _CLUSTERS in config.stash and terminalreporter.stats.keys() & {"failed", "error"}:
        for log in (log for cluster in config.stash[_CLUSTERS] for log in cluster.logs):
            terminalreporter.write_line(f"broker log: {log}")


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Two single-broker clusters, ``source`` and ``target``; pytest keeps the logs of the last three runs."""
    clusters = Fleet.of(tmp_path_factory.mktemp("fleet"), "source", "target")
    request.config.stash[_CLUSTERS] = clusters
    with clusters:
        yield clusters
    if not request.config.getoption("--keep-data"):
        clusters.remove_data()


@pytest.fixture
def topic_name() -> Callable[..., str]:
    """Names that no other test of this session uses: ``topic_name("orders")`` is orders-4711-3."""

    def unique(stem: str = "topic") -> str:
        return f"{stem}-{os.getpid()}-{next(_counter)}"

    return unique
