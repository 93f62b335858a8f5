"""Running the real command against the session's clusters."""

from __future__ import annotations

import pytest

from mmtool.testing.replicating import Bench


@pytest.fixture(scope="module")
def bench(fleet, tmp_path_factory) -> Bench:
    """The session's clusters, and a folder for what the commands say."""
    return Bench(fleet, tmp_path_factory.mktemp("replicate"))
