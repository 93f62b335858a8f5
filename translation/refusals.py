"""The closed list of reasons why a position is not translated or a group is not moved."""

from __future__ import annotations

from enum import StrEnum


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
        """What is the matter, and what helps, in one line."""
        return _SENTENCES[self]


_SENTENCES = {
    Reason.NEVER_RAN: "this flow has never mirrored this partition: run `mmtool replicate` first",
    Reason.UNKNOWN_GROUP: "no group (in an emergency: no checkpoint) of this name: look with `--groups '.*'`",
    Reason.NO_COMMIT: "the group has no committed offset here: it is left without one",
    Reason.BEYOND_MIRROR: "the commit is past what has been mirrored: let `mmtool replicate` catch up",
    Reason.BEYOND_SOURCE_END: "past the end of the source log, which was cut or made anew: reset the group there",
    Reason.TARGET_LOG_START_PASSED: "the target has deleted the records at this position: raise its retention",
    Reason.PARTITION_MISSING: "the target does not hold what was mirrored: made anew, or gone: `mmtool flow forget`",
    Reason.NOT_MIRRORED: "outside `topics`, from before the mirror began, or passed over: let the group read on",
    Reason.ACTIVE_ON_TARGET: "the group has members on the target, or a group of another kind has its name: stop it",
    Reason.WOULD_REWIND: "the target commit is further on already: `mmtool translate-offsets --allow-rewind` moves it",
    Reason.SOURCE_UNREACHABLE: "the source does not answer, and what the target knows is too little: ask again later",
    Reason.UNREADABLE_STATE: "the stored state is damaged, or of another version: `mmtool flow rebuild` makes it anew",
    Reason.AMBIGUOUS: "no target position can be proven: `--refine`, or name one with `mmtool groups import`",
    Reason.STATE_NOT_MIRRORED: "the changelogs are not there under their own names: `--without-state` starts it empty",
}
