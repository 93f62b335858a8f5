"""When a record that one side has alone is at a wrong place, and when the cleaner has taken the other one."""

import pytest

from kit.chaos.same_offsets import alone
from mmtool.lab.topics import Record


def log(**keys):
    """Records by offset: ``log(a=(0, 2))`` has key a at 0 and at 2."""
    return {
        at: Record(0, at, 0, key.encode(), b"%d" % at, ()) for key, offsets in keys.items() for at in offsets
    }


@pytest.mark.parametrize(
    ("there", "in_plain", "in_compacted"),
    [
        pytest.param(log(a=(0, 2), b=(1,)), [], [], id="equal"),
        pytest.param(log(a=(2,), b=(1,)), [("source", 0)], [], id="an earlier one was compacted"),
        pytest.param(log(a=(0,), b=(1,)), [("source", 2)], [("source", 2)], id="the last one is lost"),
        pytest.param(
            log(a=(0, 3), b=(1,)), [("source", 2), ("target", 3)], [("target", 3)], id="one is displaced"
        ),
        pytest.param(
            log(a=(2,), b=(1,), c=(0,)),
            [("source", 0), ("target", 0)],
            [("source", 0), ("target", 0)],
            id="other",
        ),
    ],
)
def test_a_record_alone_is_right_only_where_its_key_has_a_later_one(there, in_plain, in_compacted):
    home = log(a=(0, 2), b=(1,))
    assert list(alone(home, there, compacted=False)) == in_plain
    assert list(alone(home, there, compacted=True)) == in_compacted
