"""Foreign records that a new owner finds behind a dead owner's stored state: counted and reported.

The offset runs skip these records at once, so that no worker meets them. Their position is written to the control
topic before: an owner that is killed in between leaves either offset runs that end before the foreign records, or
the position that reports them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.kafka.state.state_log import read_control
from mmtool.replication.control.control_follower import position_by_books
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.plan.records.documents import PositionRecord
    from mmtool.replication.driver.context import FlowContext
    from mmtool.replication.ownership.owned_state import Place
    from mmtool.translation.blocks import Block


async def told_of_others(
    flow: FlowContext, blocks: Mapping[Place, Block], others: Mapping[Place, list[range]]
) -> dict[Place, PositionRecord]:
    """Add new foreign records to the positions on the control topic; returns the changed positions.

    Flows that keep topic names are left out: there other producers may write.

    Args:
        flow: The flow, whose shards are claimed.
        blocks: The last blocks, extended to all that the target holds.
        others: By partition, offsets of foreign records after the stored offset runs.

    Raises:
        UnreachableError, NotAuthorisedError, MmtoolError: the control topic cannot be read, or not be written.
    """
    found = {place: ranges for place, ranges in others.items() if ranges}
    if not found or flow.settings.keeps_names:
        return {}
    control = await in_thread(read_control, flow.settings.target, flow.identity)
    before = {place: control.written_position(*place) or position_by_books(blocks[place]) for place in found}
    told = {place: with_others(before[place], ranges) for place, ranges in found.items()}
    told = {place: position for place, position in told.items() if position != before[place]}
    await write_documents(flow, flow.identity.control_topic, told.values())
    return told


def with_others(position: PositionRecord, others: Iterable[range]) -> PositionRecord:
    """The position with its count of foreign records raised by those after its last counted offset."""
    counted, end = position.foreign, position.foreign_end
    for one in others:
        counted += max(one.stop - max(one.start, end), 0)
        end = max(end, one.stop)
    return replace(position, foreign=counted, foreign_end=end)
