"""Seeded faults: the seed is printed, and ``--seed N`` runs the same faults again."""

from __future__ import annotations

import random

import pytest

_SEED = pytest.StashKey[int]()
_MEASURED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="seed of the faults (default: a new one, printed)")
    parser.addoption("--kills", type=int, default=20, help="how many faults a chaos test injects")


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("--seed")
    config.stash[_SEED] = random.randrange(1 << 32) if chosen is None else chosen


def pytest_report_header(config: pytest.Config) -> str:
    return f"chaos seed: {config.stash[_SEED]}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")
    if _MEASURED in config.stash:
        terminalreporter.write_line(f"chaos seed: {config.stash[_SEED]}")


@pytest.fixture
def chance(request) -> random.Random:
    """The source of all that is random in a test."""
    return random.Random(f"{request.config.stash[_SEED]} {request.node.name}")


@pytest.fixture(scope="session")
def measured(request):
    """``measured("10 s until ...")`` puts a figure under the session's result."""
    return request.config.stash.setdefault(_MEASURED, []).append
