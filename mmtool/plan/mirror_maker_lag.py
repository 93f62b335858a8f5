"""How far MirrorMaker 2 has come in a partition, by what it tells and by how long its mirror is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.translation.mm2_records import OffsetSync
    from mmtool.translation.types import UpstreamOffset


def next_to_copy(
    sync: OffsetSync | None,
    last: UpstreamOffset | None,
    target_end: int | None,
    *,
    exactly_once: bool = False,
) -> int | None:
    """The offset of the next source record that MM2 copies; None where nothing tells.

    Behind its newest sync MM2 has copied without a gap, as it sends a sync for each record that follows one
    (`PartitionState.update`): what the mirror has grown by since then is what was copied. With exactly-once transaction
    markers lie between, and the stored positions are as new as the records.

    Args:
        sync: The newest of the partition.
        last: The last record that was copied, by MM2's stored position: up to a minute old.
        target_end: Where the mirror ends; None where it could not be asked.
        exactly_once: MM2 runs with ``exactly.once.source.support``.
    """
    known = [] if last is None else [last + 1]
    if sync is not None:
        grown = 1 if exactly_once or target_end is None else max(target_end - sync.downstream, 1)
        known.append(sync.upstream + grown)
    return max(known, default=None)
