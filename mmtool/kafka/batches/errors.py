"""Errors of record batches, without the topic, which the caller adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError

if TYPE_CHECKING:
    from mmtool.translation.types import UpstreamOffset


OTHER_LEADER = "make another replica the leader of the source partition"
"""What a running flow needs where one replica's bytes are damaged."""


class BatchError(MmtoolError):
    """Bytes that are no record batch, or a batch that breaks Kafka's format."""

    code = "bad_batch"


class CorruptBatchError(BatchError):
    """The checksum of a batch does not fit its bytes (Kafka's CORRUPT_MESSAGE).

    Attributes:
        next_offset: The first offset after the batch.
    """

    code = "corrupt_batch"

    def __init__(self, message: str, next_offset: int) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class LargeBatchError(BatchError):
    """A batch of more records or bytes than mmtool decodes; it is intact, and can be copied as it is.

    Attributes:
        next_offset: The first offset after the batch.
    """

    code = "bad_batch"

    def __init__(self, base_offset: int, size: str, limit: str, next_offset: int) -> None:
        super().__init__(
            f"the batch at offset {base_offset} has {size}; mmtool decodes at most {limit} of one batch",
            remedy="the batch is intact: read its records with another client, such as kafka-console-consumer.sh",
        )
        self.next_offset = next_offset


class OversizeRecordError(BatchError):
    """One record alone is larger than the target accepts (Kafka's MESSAGE_TOO_LARGE).

    Attributes:
        upstream_offset: The record's offset on the source.
        size: Bytes of the smallest batch that can hold it, header included.
        limit: Bytes that a batch may have.
    """

    code = "oversize_record"

    def __init__(self, upstream_offset: UpstreamOffset, size: int, limit: int) -> None:
        super().__init__(
            f"the record at source offset {upstream_offset} needs a batch of {size} bytes; "
            f"the target topic takes {limit}",
            remedy="raise max.message.bytes on the target topic",
        )
        self.upstream_offset = upstream_offset
        self.size = size
        self.limit = limit
