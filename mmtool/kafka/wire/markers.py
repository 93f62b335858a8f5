"""WriteTxnMarkers (27): control batches that no consumer is given, of one offset each.

They fill the offsets at which a source has no record for a mirror with the source's own offsets. See
docs/decisions/0035.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import only, row
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class Marker(NamedTuple):
    """One marker for each of ``places``.

    Attributes:
        epoch: An epoch below the producer id's current one is refused (INVALID_PRODUCER_EPOCH).
        generation: Kafka's coordinator epoch: one below that of the producer id's last marker in a partition is refused
            (TRANSACTION_COORDINATOR_FENCED).
    """

    producer_id: int
    epoch: int
    generation: int
    places: Collection[TopicPartition]


class WriteTxnMarkersRequest(
    WireRequest[list[dict[TopicPartition, int]]], api=27, versions=(0, 1), flexible=1
):
    """Appends markers; sent to the leader of their partitions. The answer has a list of error codes by partition.

    Answered once all in-sync replicas have the markers. The answer has one entry for each producer id, whatever its
    number of markers. Without markers the request is only authorised: ALTER on the cluster since Kafka 3.8 (KIP-1037),
    CLUSTER_ACTION before.
    """

    markers: Sequence[Marker]
    BODY = row(
        "markers:[marker]",
        marker=row("producer_id:int64 epoch:int16 _commit:bool=0 places:places generation:int32").converted(
            out=Marker._asdict
        ),
    )
    ANSWER = row("markers:[marker]", only, marker=row("_producer_id:int64 places:errors", only))
