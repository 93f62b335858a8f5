"""Find from the header alone why a batch cannot be passed on unchanged."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mmtool.kafka.batches.header import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, LOG_OVERHEAD, MAGIC

if TYPE_CHECKING:
    from mmtool.kafka.batches.header import BatchView

_SPECIAL_TIME: Final = LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT


class RebuildReason(StrEnum):
    """Why a batch has to be decoded and encoded again."""

    OLD_MAGIC = "old_magic"
    """Message format 0 or 1: brokers accept format 2 only."""

    STARTS_BEFORE_POSITION = "starts_before_position"
    """The batch contains records before the wanted offset: a fetch returns the whole batch around an offset."""

    HOLES = "holes"
    """Compacted, perhaps to no record: brokers refuse it as an inconsistent offset range (error 87)."""

    LOG_APPEND_TIME = "log_append_time"
    """Brokers accept a batch with this flag, but its timestamps become its records' create times."""

    DELETE_HORIZON = "delete_horizon"
    """The base timestamp is the deletion time that the source's log cleaner stored (KIP-534)."""

    TOO_LARGE = "too_large"
    """Above the target's ``max.message.bytes``: it must be split."""


def rebuild_reason(view: BatchView, *, position: int, max_batch_bytes: int) -> RebuildReason | None:
    """The reason why a data batch must be rebuilt; None where it moves as it is.

    Args:
        view: A batch that is no control batch.
        position: The next upstream offset wanted.
        max_batch_bytes: The target's limit for a batch, header included.
    """
    header = view.header
    if (
        header.last_offset_delta + 1 == header.record_count
        and header.base_offset >= position
        and header.length + LOG_OVERHEAD <= max_batch_bytes
        and not header.attributes & _SPECIAL_TIME
        and header.magic == MAGIC
    ):
        return None
    return _reason(view, position)


def _reason(view: BatchView, position: int) -> RebuildReason:
    header = view.header
    if header.magic != MAGIC:
        return RebuildReason.OLD_MAGIC
    if header.base_offset < position:
        return RebuildReason.STARTS_BEFORE_POSITION
    if header.last_offset_delta + 1 != header.record_count:
        return RebuildReason.HOLES
    if header.is_log_append_time:
        return RebuildReason.LOG_APPEND_TIME
    if header.has_delete_horizon:
        return RebuildReason.DELETE_HORIZON
    return RebuildReason.TOO_LARGE
