"""The document types of ``mmtool-control.<source>.internal``, recognized by the prefix of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.records.documents import (
    CommitRatesRecord,
    ControlRecord,
    FlowRecord,
    OffsetWritersRecord,
    OwnerRecord,
    PauseRecord,
    PositionRecord,
    PrefillRecord,
    RefusedRecord,
    ShardRecord,
    SharesRecord,
    UseRecord,
)
from mmtool.plan.records.marks import (
    FailedOverRecord,
    LookRecord,
    MovedGroupRecord,
    RemovedRecord,
    VerifiedRecord,
)

if TYPE_CHECKING:
    from mmtool.plan.records.documents import Document

CONTROL_DOCUMENTS: tuple[type[Document], ...] = (
    FlowRecord,
    OwnerRecord,
    OffsetWritersRecord,
    ShardRecord,
    ControlRecord,
    SharesRecord,
    UseRecord,
    SlotsRecord,
    PositionRecord,
    PrefillRecord,
    RefusedRecord,
    PauseRecord,
    FailedOverRecord,
    MovedGroupRecord,
    LookRecord,
    CommitRatesRecord,
    RemovedRecord,
    VerifiedRecord,
)


def decode_control(key: bytes, value: bytes) -> Document | None:
    """Decode a control record; None for a key of another program or of a later mmtool.

    Raises:
        UnreadableDocumentError: The value is damaged, or of another version.
    """
    name = key.decode(errors="replace")
    for kind in CONTROL_DOCUMENTS:
        if name == kind.PREFIX or (kind.PREFIX.endswith("/") and name.startswith(kind.PREFIX)):
            return kind.decode(value)
    return None
