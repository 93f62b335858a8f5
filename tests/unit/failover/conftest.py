import pytest

from kit.scene import Scene


@pytest.fixture
def scene(tmp_path):
    """``east->west``: orders with two partitions of 100 records, mirrored to 60 and 100; app has read 50 and 100."""
    made = Scene(tmp_path)
    made.has("orders", 100, 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    made.mirrored("orders", 1, [(0, 0, 100)], 100)
    made.commits("app", "orders", 50, 100)
    return made
