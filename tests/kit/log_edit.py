"""A broker's log edited while the broker is down: damage that no client can do, with checksums put right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kit.segments import batches_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.batches import PlainRecord
    from mmtool.lab.cluster import Cluster

    Edit = Callable[[list[PlainRecord]], list[PlainRecord]]


def edit_log(cluster: Cluster, topic: str, partition: int, edit: Edit, broker: int = 0) -> None:
    """Rewrite the newest segment of a partition of a broker that is down; a batch left empty is dropped.

    Args:
        cluster: Stopped.
        topic: Whose log.
        partition: Likewise.
        edit: From all records of the segment to those that are to be there. Records stay in the batch in whose range
            of offsets they lie.
        broker: Whose.
    """
    folder = cluster.directory / f"broker-{broker}" / "data" / f"{topic}-{partition}"
    segment = max(folder.glob("*.log"))
    batches = batches_in(segment)
    records = edit([record for batch in batches for record in batch.records])
    written = b""
    for batch in batches:
        mine = tuple(r for r in records if batch.base_offset <= r.offset <= batch.last_offset)
        if mine:
            times = [record.timestamp for record in mine]
            last = batch.last_offset if mine[-1].offset != batch.records[-1].offset else mine[-1].offset
            written += replace(batch, records=mine, last_offset=last, max_timestamp=max(times)).write()
    segment.write_bytes(written)
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        index.unlink()
