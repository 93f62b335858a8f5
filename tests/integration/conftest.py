"""Running the real command against the session's clusters."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kit.bench import Bench
from kit.secure_pairs import SecurePair, secure_pair
from mmtool.lab.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.lab.security.kinds import SecurityKind


@pytest.fixture(scope="module")
def bench(fleet, tmp_path_factory) -> Bench:
    """The session's clusters, and a folder for what the commands say."""
    return Bench(fleet, tmp_path_factory.mktemp("replicate"))


@pytest.fixture(scope="module")
def own_bench(tmp_path_factory):
    """The same with clusters that no other file writes to, for files whose ``bench`` this is."""
    clusters = Fleet.of(tmp_path_factory.mktemp("own"), "source", "target")
    with clusters:
        yield Bench(clusters, tmp_path_factory.mktemp("own-runs"))
    clusters.remove_data()


@pytest.fixture(scope="session")
def secured(tmp_path_factory) -> Iterator[Callable[[SecurityKind], SecurePair]]:
    """``secured(kind)``: two clusters that are secured this way, for every file that has topics and groups of its own.

    Files that use them run in one worker.
    """
    with ExitStack() as ends:

        @cache
        def pair(kind: SecurityKind) -> SecurePair:
            return ends.enter_context(secure_pair(kind, tmp_path_factory.mktemp(kind)))

        yield pair
