"""Running the real command against the session's clusters."""

from __future__ import annotations

import pytest

from kit.bench import Bench
from kit.kafka_tools import shell_of
from mmtool.lab.fleet import Fleet


@pytest.fixture(scope="module")
def bench(fleet, tmp_path_factory) -> Bench:
    """The session's clusters, and a folder for what the commands say."""
    return Bench(fleet, tmp_path_factory.mktemp("replicate"))


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """Runs the commands of a runbook with Kafka's own tools."""
    return shell_of(tmp_path_factory.mktemp("by-hand"))


@pytest.fixture(scope="module")
def own_bench(tmp_path_factory):
    """The same with clusters that no other file writes to, for files whose ``bench`` this is."""
    clusters = Fleet.of(tmp_path_factory.mktemp("own"), "source", "target")
    with clusters:
        yield Bench(clusters, tmp_path_factory.mktemp("own-runs"))
    clusters.remove_data()
