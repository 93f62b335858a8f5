from __future__ import annotations

import pytest

from mmtool.kafka.batches import iter_batches


@pytest.fixture
def view():
    """The only batch in these bytes."""

    def only(written):
        (found,) = iter_batches(written)
        return found

    return only
