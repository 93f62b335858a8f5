"""Seeded faults: the seed is printed, and ``--seed N`` runs the same faults again."""

from __future__ import annotations

import os
import random

import pytest

from kit.small_disk import small_disk
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet

_DISK_BYTES = 64 << 20
_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="seed of the faults (default: a new one, printed)")


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("--seed")
    config.stash[_SEED] = random.randrange(1 << 32) if chosen is None else chosen


def pytest_report_header(config: pytest.Config) -> str:
    return f"chaos seed: {config.stash[_SEED]}"


@pytest.fixture
def chance(request, measured) -> random.Random:
    """The source of all that is random in a test."""
    measured(f"chaos seed: {request.config.stash[_SEED]}")
    return random.Random(f"{request.config.stash[_SEED]} {request.node.name}")


@pytest.fixture
def disk(tmp_path):
    """A folder that is a disk of its own, small enough to be filled."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk that is small enough to be filled")
    with small_disk(tmp_path / "small", _DISK_BYTES) as mounted:
        yield mounted


@pytest.fixture
def own(tmp_path):
    """Two clusters of a test's own, to be taken down."""
    with Fleet.of(tmp_path, "source", "target") as clusters:
        yield clusters


@pytest.fixture(scope="module")
def threes(tmp_path_factory):
    """Two clusters of three brokers, which miss a dead one after 3 s instead of 9."""
    shape = Shape(3, properties={"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"})
    clusters = Fleet.of(tmp_path_factory.mktemp("threes"), "source", "target", shape=shape)
    with clusters:
        yield clusters
    clusters.remove_data()
