"""Property tests share the machine with brokers: a slow moment is no failure."""

import pytest
from hypothesis import settings

from mmtool.kafka.batches import iter_batches

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


@pytest.fixture
def view():
    """The only batch in these bytes."""

    def only(written):
        (found,) = iter_batches(written)
        return found

    return only
