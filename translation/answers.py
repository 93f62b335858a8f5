"""The possible answers of a translation. Callers match all three and end with `assert_never`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mmtool.translation.refusals import Reason
    from mmtool.translation.types import DownstreamOffset, UpstreamOffset


@dataclass(frozen=True, slots=True)
class Exact:
    """A group that continues at this offset reads again nothing that it has read, and skips nothing.

    Attributes:
        offset: The next offset to read on the other cluster.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """A group that continues at this offset skips nothing, and reads again at most ``reread_max`` records.

    Attributes:
        offset: The next offset to read on the other cluster.
        reread_max: A number of records, 1 or more.
    """

    offset: int
    reread_max: int


@dataclass(frozen=True, slots=True)
class Skipping:
    """A group that continues at this offset skips at most ``skip_max`` records: only for an operator who allows it."""

    offset: int
    skip_max: int


@dataclass(frozen=True, slots=True)
class Refused:
    """No offset is safe to commit; the reason says why.

    Attributes:
        reason: One of the closed list, a `Reason`.
    """

    reason: Reason


Answer: TypeAlias = Exact | Bounded | Refused
"""An offset of the *other* log: downstream for `translate`, upstream for `translate_back`."""


class Knowledge(StrEnum):
    """The source of an answer. The value is what users and scripts see."""

    OFFSET_RUNS = "offset_runs"
    """mmtool's own map of every record: exact."""
    OFFSET_SYNCS = "offset_syncs"
    """MirrorMaker 2's pairs of offsets, some hundred records apart: bounded between them."""
    CHECKPOINTS = "checkpoints"
    """MirrorMaker 2's translations of groups' positions, where no sync can be read."""
    RECORDS = "records"
    """The records of both logs, compared from the sync before the commit on (``--refine``)."""


@dataclass(frozen=True, slots=True)
class TargetLog:
    """The target partition's bounds: ``log_start <= committed <= log_end`` holds for every answer."""

    log_start: DownstreamOffset
    log_end: DownstreamOffset


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The source partition's bounds, read from the live source (log end offset, not LSO)."""

    log_start: UpstreamOffset
    log_end: UpstreamOffset
