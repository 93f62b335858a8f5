"""The secured clusters that the files of this folder share, in one worker (`kit.file_scheduling`)."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kit.secure_pairs import SecurePair, secure_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.lab.security.kinds import SecurityKind

_STARTED = pytest.StashKey[ExitStack]()


@pytest.fixture(scope="session")
def secured(
    tmp_path_factory, request: pytest.FixtureRequest
) -> Iterator[Callable[[SecurityKind], SecurePair]]:
    """``secured(kind)``: two clusters that are secured this way, for topics and groups of each file's own."""
    with ExitStack() as started:
        request.config.stash[_STARTED] = started

        @cache
        def pair(kind: SecurityKind) -> SecurePair:
            return started.enter_context(secure_pair(kind, tmp_path_factory.mktemp(kind)))

        yield pair


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The clusters end with the last test of the folder: an idle broker takes a hundredth of a core."""
    if nextitem is not None and nextitem.path.parent != item.path.parent and _STARTED in item.config.stash:
        item.config.stash[_STARTED].close()
