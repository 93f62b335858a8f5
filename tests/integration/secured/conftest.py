"""The secured clusters that the files of this folder share, in one worker, and that end with the last of them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kit.secure_pairs import SecurePair, secure_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.lab.security.kinds import SecurityKind


@pytest.fixture(scope="package")
def secured(tmp_path_factory) -> Iterator[Callable[[SecurityKind], SecurePair]]:
    """``secured(kind)``: two clusters that are secured this way, for topics and groups of each file's own."""
    with ExitStack() as ends:

        @cache
        def pair(kind: SecurityKind) -> SecurePair:
            return ends.enter_context(secure_pair(kind, tmp_path_factory.mktemp(kind)))

        yield pair
