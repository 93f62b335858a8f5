"""Where a share group continues, from what its coordinator tells: it skips nothing, and is given again what is said."""

from hypothesis import given
from hypothesis import strategies as st

from mmtool.kafka.groups.share_groups import positions
from mmtool.kafka.wire.share_groups import ShareStart
from mmtool.translation.types import UNKNOWN, TopicPartition

PLACE = TopicPartition("orders", 0)


@st.composite
def partitions(draw):
    """A share partition's acknowledged records, the start that was stored, and records that come while it is read."""
    acknowledged = draw(st.lists(st.booleans(), max_size=30))
    first_left = acknowledged.index(False) if False in acknowledged else len(acknowledged)
    return acknowledged, draw(st.integers(0, first_left)), draw(st.integers(0, 5)), draw(st.integers(0, 5))


@given(partitions())
def test_no_record_that_is_left_is_before_the_position_and_no_more_are_given_again_than_is_said(partition):
    acknowledged, start, came_before, came_after = partition
    log = acknowledged + [False] * came_before
    told = ShareStart(start, 0, log[start:].count(False))
    before, after = len(acknowledged), len(log) + came_after
    (found,) = positions({PLACE: told}, {PLACE: before}, {PLACE: after}).values()
    assert all(log[: found.offset])
    assert found.acknowledged is not UNKNOWN
    assert (
        log[found.offset :].count(True) <= found.acknowledged <= log[found.offset :].count(True) + came_after
    )


def test_a_broker_that_does_not_count_leaves_the_number_unknown():
    (found,) = positions({PLACE: ShareStart(7, 0)}, {PLACE: 9}, {PLACE: 9}).values()
    assert (found.offset, found.acknowledged) == (7, UNKNOWN)
