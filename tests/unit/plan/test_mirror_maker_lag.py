"""How far MirrorMaker 2 has come: by its newest sync, by its stored position, and by the mirror's length."""

import pytest

from mmtool.plan.mirror_maker_lag import next_to_copy
from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

SYNC = OffsetSync(TopicPartition("x", 0), UpstreamOffset(100), DownstreamOffset(80))


@pytest.mark.parametrize(
    ("sync", "last", "target_end", "once", "expected"),
    [
        (None, None, 90, False, None),
        (None, 42, 90, False, 43),
        (SYNC, None, 81, False, 101),  # the synced record is the last one
        (SYNC, None, 90, False, 110),  # nine more were copied since, without a gap
        (SYNC, 150, 90, False, 151),  # the stored position is newer than the look at the mirror
        (SYNC, 42, 90, False, 110),  # and here it is older
        (SYNC, None, None, False, 101),
        (SYNC, None, 70, False, 101),  # the look at the mirror is older than the sync
        (SYNC, 105, 90, True, 106),  # markers lie between the records
    ],
)
def test_the_next_record_that_mm2_copies_is_the_furthest_that_is_known(
    sync, last, target_end, once, expected
):
    assert next_to_copy(sync, last, target_end, exactly_once=once) == expected
