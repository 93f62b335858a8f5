"""The closed list of reasons why an offset is not translated or a group is not moved."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Sides(NamedTuple):
    """The two clusters of a translation, as sentences name them.

    Attributes:
        read: The cluster that commits are read from.
        written: The cluster that they would be written to.
        is_reverse: From a flow's target back to its source.
        is_emergency: Commits are read from checkpoints on the target, and the source is not asked.
    """

    read: str
    written: str
    is_reverse: bool = False
    is_emergency: bool = False


FORWARD = Sides("the source", "the target")
BACK = Sides("the target", "the source", is_reverse=True)
"""Names for messages without aliases, for a translation from target to source; `FORWARD` is the other one."""


class Reason(StrEnum):
    """Why an offset is refused. The value is the word in ``reason``; ``sentence`` is the cause and the remedy."""

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
        """The cause and the remedy, in one line, for a translation from source to target."""
        return self.said_of(FORWARD)

    def said_of(self, sides: Sides) -> str:
        """The cause and the remedy as of `sentence`, for a translation between the clusters of ``sides``."""
        other = _BACK if sides.is_reverse else _EMERGENCY if sides.is_emergency else _SENTENCES
        template = other.get(self, _SENTENCES[self])
        return template.format(read=sides.read, written=sides.written)


_SENTENCES = {
    Reason.NEVER_RAN: "the flow from {read} to {written} has never mirrored this partition: run `mmtool replicate`"
    " first",
    Reason.UNKNOWN_GROUP: "{read} has no such group: `mmtool status -c FILE --groups` lists the groups",
    Reason.NO_COMMIT: "no commit on {read}, so none on {written}: auto.offset.reset decides",
    Reason.BEYOND_MIRROR: "the commit on {read} is past what {written} holds: let `mmtool replicate` catch up",
    Reason.BEYOND_SOURCE_END: "the commit on {read} is past the end of {read}'s log, which was truncated"
    " or recreated, and has no offset on {written}: reset the group on {read} with `kafka-consumer-groups"
    " --reset-offsets --execute`",
    Reason.TARGET_LOG_START_PASSED: "{written} has deleted the records after the group's commit on"
    " {read}: let the group read past them on {read}, or, if mmtool mirrored them, skip them with `mmtool"
    " translate-offsets -g GROUP --allow-skip --execute`",
    Reason.PARTITION_MISSING: "the topic mirrored from {read} was deleted or recreated on {written}: to mirror it"
    " again, stop `mmtool replicate`, run `mmtool flow forget --topic TOPIC --execute`, and start"
    " `mmtool replicate` again",
    Reason.NOT_MIRRORED: "the topic is not in `topics`: add it; or the records after the group's commit were not"
    " mirrored: let the group read past them on {read}, or, if mmtool runs the flow, skip them with `mmtool"
    " translate-offsets -g GROUP --allow-skip --execute`",
    Reason.ACTIVE_ON_TARGET: "consumers of this group run on {written}: stop them; or a share or Streams group has its"
    " name on {written}: delete that one, or give the consumer group another name",
    Reason.WOULD_REWIND: "the commit on {written} is ahead of the one translated from {read}: `mmtool"
    " translate-offsets -g GROUP --allow-rewind --execute` moves it back",
    Reason.SOURCE_UNREACHABLE: "{read} does not answer, and {written} has no checkpoint of this partition: nothing is"
    " committed on {written} unless you add `--unknown earliest` or `--unknown latest` to `mmtool failover emergency`",
    Reason.UNREADABLE_STATE: "the stored state is damaged, or a newer mmtool wrote it: upgrade mmtool if a newer one"
    " did; for damaged offset runs, stop `mmtool replicate` and run `mmtool flow rebuild --execute`",
    Reason.AMBIGUOUS: "no offset on {written} is proven for the commit on {read}: if MirrorMaker 2 runs the flow,"
    " try `mmtool translate-offsets --refine`; otherwise, or if the answer stays ambiguous, set an offset with"
    " `mmtool groups import --execute`",
    Reason.STATE_NOT_MIRRORED: "{written} does not have all records of this Kafka Streams application's state topic"
    " under its own name: mirror it with IdentityReplicationPolicy; or `--without-state` moves the application with"
    " empty state",
}

_EMERGENCY = {
    Reason.UNKNOWN_GROUP: "{written} has no checkpoint of the group, so the group cannot move in an emergency: `mmtool"
    " failover emergency -c FILE --all-groups` lists the groups that can",
}
"""Sentences that differ when only the target is read."""

_BACK = {
    Reason.NEVER_RAN: "the flow from {written} to {read} has never mirrored this partition: run `mmtool replicate`"
    " first",
    Reason.UNKNOWN_GROUP: "{read} has no such group: `kafka-consumer-groups --list` lists the groups of {read}",
    Reason.BEYOND_MIRROR: "the commit on {read} is past what {written} holds: let the `mmtool replicate` of the flow"
    " from {read} to {written} catch up",
    Reason.WOULD_REWIND: "the commit on {written} is ahead of the one translated from {read}: `mmtool"
    " translate-offsets -g GROUP --reverse --allow-rewind --execute` moves it back",
    Reason.BEYOND_SOURCE_END: "the commit on {read} is past the end of {read}'s log, or its offset on"
    " {written} is past the end of {written}'s log, because that log was truncated or recreated: set the group's offset"
    " on {written} with `kafka-consumer-groups --reset-offsets --execute`, or leave the group on {read}",
    Reason.TARGET_LOG_START_PASSED: "{read} or {written} has deleted the records after the group's commit"
    " on {read}: let the group read past them on {read}",
    Reason.PARTITION_MISSING: "the mirror of the topic on {read} was deleted or recreated: to mirror it again, stop"
    " `mmtool replicate`, run `mmtool flow forget --topic TOPIC --execute`, and start `mmtool replicate` again; or"
    " {written} no longer has the partition: create it on {written}, or leave the group on {read}",
    Reason.NOT_MIRRORED: "the topic is not in `topics`: add it; or the records after the group's commit were not"
    " mirrored from {written}: let the group read past them on {read}",
    Reason.AMBIGUOUS: "no offset on {written} is proven for the commit on {read}: set an offset on {written} with"
    " `kafka-consumer-groups --reset-offsets --execute`",
}
"""Sentences that differ for a translation from target to source."""
