"""How far MirrorMaker 2 has come: by its newest sync, by its stored position, and by the mirror's length."""

import pytest

from mmtool.plan.flow.mirror_maker import MirrorMakerProgress, next_to_copy
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


PLACE, OTHER = TopicPartition("x", 0), TopicPartition("y", 0)


def told(stored, *syncs):
    return MirrorMakerProgress.told(
        stored, {sync.topic_partition: sync for sync in syncs}, workers=1, has_left=False
    )


def test_the_later_of_a_stored_position_and_a_sync_counts_and_either_is_enough():
    assert told({PLACE: 42, OTHER: 7}, SYNC).positions == {PLACE: 101, OTHER: 8}
    assert told({PLACE: 150}, SYNC).positions == {PLACE: 151}
    assert not told({})


def test_what_a_mirror_has_grown_by_since_its_sync_was_copied_but_for_markers():
    grown = told({OTHER: 7}, SYNC).with_mirrors({PLACE: 90}, exactly_once=False)
    assert grown.positions == {PLACE: 110, OTHER: 8}
    assert told({}, SYNC).with_mirrors({PLACE: 90}, exactly_once=True).positions == {PLACE: 101}
    assert told({}, SYNC).with_mirrors({}, exactly_once=False).positions == {PLACE: 101}


def test_a_part_of_the_flow_has_its_own_syncs_alone():
    assert told({OTHER: 7}, SYNC).of({OTHER}).with_mirrors({PLACE: 90}, exactly_once=False).positions == {
        OTHER: 8
    }
