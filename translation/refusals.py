"""The closed list of reasons why a position is not translated or a group is not moved."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Sides(NamedTuple):
    """The two clusters of a translation, as sentences name them.

    Attributes:
        read: Where commits are read.
        written: Where they would be committed.
        is_reverse: From a flow's target back to its source.
    """

    read: str
    written: str
    is_reverse: bool = False


FORWARD = Sides("the source", "the target")
BACK = Sides("the target", "the source", is_reverse=True)
"""Where no alias is known."""


class Reason(StrEnum):
    """Why there is no answer. The value is what users and scripts see; ``sentence`` is for people."""

    NEVER_RAN = "never_ran"
    UNKNOWN_GROUP = "unknown_group"
    NO_COMMIT = "no_commit"
    BEYOND_MIRROR = "beyond_mirror"
    BEYOND_SOURCE_END = "beyond_source_end"
    TARGET_LOG_START_PASSED = "target_log_start_passed"
    PARTITION_MISSING = "partition_missing"
    NOT_MIRRORED = "not_mirrored"
    ACTIVE_ON_TARGET = "active_on_target"
    WOULD_REWIND = "would_rewind"
    SOURCE_UNREACHABLE = "source_unreachable"
    UNREADABLE_STATE = "unreadable_state"
    AMBIGUOUS = "ambiguous"
    STATE_NOT_MIRRORED = "state_not_mirrored"

    @property
    def sentence(self) -> str:
        """What is the matter, and what helps, in one line, of a translation from source to target."""
        return self.said_of(FORWARD)

    def said_of(self, sides: Sides) -> str:
        """The same, naming the clusters that are meant."""
        template = _BACK.get(self, _SENTENCES[self]) if sides.is_reverse else _SENTENCES[self]
        return template.format(read=sides.read, written=sides.written)


_SENTENCES = {
    Reason.NEVER_RAN: "this flow has never mirrored this partition: run `mmtool replicate` first",
    Reason.UNKNOWN_GROUP: "no group (in an emergency: no checkpoint) of this name: list them with"
    " `mmtool status --groups`",
    Reason.NO_COMMIT: "the group has no committed offset on {read}, and gets none on {written}",
    Reason.BEYOND_MIRROR: "the commit on {read} is past what {written} holds: let `mmtool replicate` catch up",
    Reason.BEYOND_SOURCE_END: "the commit on {read} is past the end of {read}'s log, which was truncated"
    " or recreated, and has no offset on {written}: reset the group on {read}",
    Reason.TARGET_LOG_START_PASSED: "{written} has deleted the records after the group's commit on"
    " {read}: raise the retention on {written}",
    Reason.PARTITION_MISSING: "the topic mirrored from {read} was deleted or recreated on {written}:"
    " `mmtool flow forget`",
    Reason.NOT_MIRRORED: "outside `topics`, older than the mirror, or skipped by it: let the group read"
    " further",
    Reason.ACTIVE_ON_TARGET: "the group has members on {written}, or a group of another kind has its name: stop it",
    Reason.WOULD_REWIND: "the commit on {written} is ahead of the one translated from {read}: `mmtool"
    " translate-offsets --allow-rewind` moves it back",
    Reason.SOURCE_UNREACHABLE: "{read} does not answer, and the state on {written} is not enough: try"
    " again later",
    Reason.UNREADABLE_STATE: "the stored state is damaged, or of another version: run `mmtool flow rebuild`",
    Reason.AMBIGUOUS: "no offset on {written} is proven for the commit on {read}: use `--refine`, or set"
    " one with `mmtool groups import`",
    Reason.STATE_NOT_MIRRORED: "{written} lacks the changelogs by their own names: `--without-state` starts it empty",
}

_BACK = {
    Reason.BEYOND_SOURCE_END: "the commit on {read} is past the end of {read}'s log, or its offset is"
    " past the end of {written}'s, which was truncated or recreated: reset the"
    " group on {read}",
    Reason.TARGET_LOG_START_PASSED: "{read} or {written} has deleted the records after the group's commit"
    " on {read}: raise the retention",
    Reason.PARTITION_MISSING: "the topic mirrored from {written} was deleted or recreated on {read}, or {written} has"
    " no such partition: `mmtool flow forget`",
}
"""Where the way back means something else."""
