"""The possible answers of a translation, and the closed list of reasons of a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from mmtool.translation.types import DownstreamOffset, Unknown, UpstreamOffset


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
    MIRROR_NOT_VERIFIED = "mirror_not_verified"

    @property
    def sentence(self) -> str:
        """The cause and the remedy, in one line, for a translation from source to target."""
        return self.said_of(FORWARD)

    def said_of(
        self,
        sides: Sides,
        *,
        is_alone: bool | None = None,
        tool: str = "consumer-groups",
        starts_by: str = "auto.offset.reset",
    ) -> str:
        """The cause and the remedy as of `sentence`, for a translation between the clusters of ``sides``.

        Args:
            sides: The clusters.
            is_alone: Whether the refused partition has no counterpart on the cluster that commits are written to; None
                where that is unknown: the sentence then has both causes.
            tool: Kafka's tool that resets positions of the group, without ``kafka-``.
            starts_by: The config that decides where the group starts without a position.
        """
        other = _BACK if sides.is_reverse else _EMERGENCY if sides.is_emergency else _SENTENCES
        template = other.get(self, _SENTENCES[self])
        if is_alone is False and not sides.is_emergency:
            template = (_PAIRED_BACK if sides.is_reverse else _PAIRED).get(self, template)
        elif is_alone:
            alone = _ALONE_BACK if sides.is_reverse else _ALONE_EMERGENCY if sides.is_emergency else _ALONE
            template = alone.get(self, template)
        return template.format(read=sides.read, written=sides.written, tool=tool, starts_by=starts_by)


_NOT_IN_FLOW = (
    "the flow from {read} to {written} does not mirror this topic, so its offsets are not moved: `mmtool groups audit"
    " -c FILE` shows why"
)
_NOT_A_MIRROR = "this topic on {read} is not a mirror of a topic on {written}, so its offsets are not moved"
_SKIPPED = (
    "the records after the group's commit on {read} were never mirrored: let the group read past them on {read}; or,"
    " where mmtool runs the flow, skip them with `mmtool translate-offsets -c FILE -g GROUP --allow-skip --execute`"
)
_SKIPPED_BACK = (
    "records after the group's commit on {read} are not on {written}, or not as records of this flow: let the group"
    " read past them on {read}"
)
_MIRROR_AGAIN = (
    "to mirror the topic again, stop `mmtool replicate`, run `mmtool flow forget -c FILE --topic TOPIC --execute`, and"
    " start `mmtool replicate` again"
)
_SET_BY_HAND = (
    "leave the group out of the failover, and set its offset on {written} with `kafka-{tool} --reset-offsets"
    " --to-offset OFFSET --execute`"
)
_VERIFY = (
    "`mmtool verify -c FILE` compares both logs and stores the result; to use the same offset all the same, add"
    " `--accept-unverified`, with an unknown number of records read again"
)
_SHOWN = "`mmtool status -c FILE` shows the lag and the state"
_WHY_NEVER = (
    "start `mmtool replicate`; if it or MirrorMaker 2 already runs, `mmtool status -c FILE` shows why the partition is"
    " not mirrored"
)

_SENTENCES = {
    Reason.NEVER_RAN: "the flow from {read} to {written} has never mirrored this partition: " + _WHY_NEVER,
    Reason.UNKNOWN_GROUP: "{read} shows mmtool no such consumer group: check its name (`mmtool status -c FILE --groups`"
    " lists the groups), and that mmtool's principal has DESCRIBE on the group",
    Reason.NO_COMMIT: "no commit on {read}, so mmtool writes none on {written}: without one, {starts_by} decides",
    Reason.BEYOND_MIRROR: "the group's commit on {read} is ahead of the mirror on {written}: let `mmtool replicate`"
    f" catch up, or remove what halts it ({_SHOWN})",
    Reason.BEYOND_SOURCE_END: "the group's commit on {read} is past the end of {read}'s log, which was truncated or"
    " recreated: reset the group's offset on {read} with `kafka-{tool} --reset-offsets --to-earliest"
    " --execute`, which skips nothing",
    Reason.TARGET_LOG_START_PASSED: "{written} has deleted the records after the group's commit on {read}: let the"
    " group read past them on {read}; or, where mmtool mirrored them, skip them with `mmtool translate-offsets -c FILE"
    " -g GROUP --allow-skip --execute`",
    Reason.PARTITION_MISSING: "the mirror of this topic on {written} was deleted or recreated: "
    + _MIRROR_AGAIN
    + "; where MirrorMaker 2 runs the flow, reset its connector's offsets of the topic instead",
    Reason.NOT_MIRRORED: f"{_NOT_IN_FLOW}; or {_SKIPPED}",
    Reason.ACTIVE_ON_TARGET: "consumers of this group run on {written}: stop them, and wait until their sessions end;"
    " or {written} has a group of another kind with the same name: delete that group, or rename one of the two",
    Reason.WOULD_REWIND: "the group's commit on {written} is ahead of the offset translated from {read}: to keep"
    " this commit, leave the group out; `mmtool translate-offsets -c FILE -g GROUP --allow-rewind --execute` moves it"
    " back",
    Reason.SOURCE_UNREACHABLE: "{read} does not answer, and {written} has no checkpoint of the group in this partition:"
    " an offset that the group has committed on {written} stays; if it has committed none, add `--unknown earliest` or"
    " `--unknown latest` to `mmtool failover emergency` to commit one",
    Reason.UNREADABLE_STATE: "mmtool's stored state is damaged, or a newer mmtool wrote it: upgrade mmtool if a newer"
    " one did; for damaged offset runs, stop `mmtool replicate`, run `mmtool flow rebuild -c FILE --execute`, and start"
    " `mmtool replicate` again",
    Reason.AMBIGUOUS: "mmtool does not know which offset on {written} belongs to the group's commit on {read}:"
    " where MirrorMaker 2 runs the flow, try `mmtool translate-offsets -c FILE -g GROUP --refine`; otherwise, or if"
    " that finds none, write the offset on {written} into OFFSETS.csv as topic,partition,offset, and run"
    " `mmtool groups import OFFSETS.csv -c FILE -g GROUP --execute`",
    Reason.STATE_NOT_MIRRORED: "{written} does not hold this Kafka Streams application's state topic under the same"
    " name, or lacks records of it: mirror the topic with IdentityReplicationPolicy (again, if {written} has lost"
    " records), or move the application with empty state by `--without-state`",
    Reason.MIRROR_NOT_VERIFIED: "the mirror is not kept by mmtool, and the records around the group's commit on {read}"
    " are not known to be the same on {written}: " + _VERIFY,
}

_EMERGENCY = {
    Reason.SOURCE_UNREACHABLE: "{written} has no checkpoint of the group in this partition, and an emergency failover"
    " does not ask {read}: a commit that the group has on {written} stays unchanged; if the group has none there,"
    " `--unknown earliest` or `--unknown latest` commits one",
    Reason.BEYOND_SOURCE_END: "the group's last checkpoint is past the end of the log that was mirrored: "
    + _SET_BY_HAND,
    Reason.NEVER_RAN: "{written} has a checkpoint of the group in this partition, but not the mirrored"
    " partition: leave the group out of the failover, and set its offsets in other partitions on {written} with"
    " `kafka-{tool} --reset-offsets --to-offset OFFSET --execute`",
    Reason.UNKNOWN_GROUP: "{written} has no checkpoint of the group, so the group cannot move in an emergency: `mmtool"
    " failover emergency -c FILE --all-groups` lists the groups that can",
    Reason.BEYOND_MIRROR: "the log of the mirror on {written} is shorter than what was mirrored: "
    + _SET_BY_HAND,
    Reason.TARGET_LOG_START_PASSED: "{written} has deleted the records after the group's last checkpoint: "
    + _SET_BY_HAND,
    Reason.PARTITION_MISSING: "the mirror of this topic on {written} was deleted or recreated: "
    + _SET_BY_HAND,
    Reason.NOT_MIRRORED: "the records after the group's last checkpoint were never mirrored to {written}: "
    + _SET_BY_HAND,
    Reason.WOULD_REWIND: "the group's commit on {written} is ahead of the offset of its last checkpoint: to keep this"
    " commit, leave the group out of the failover; to move it back, reset it first with `kafka-{tool}"
    " --reset-offsets --to-offset OFFSET --execute`",
    Reason.AMBIGUOUS: "mmtool does not know which offset on {written} belongs to the group's last checkpoint: "
    + _SET_BY_HAND,
    Reason.MIRROR_NOT_VERIFIED: "the mirror is not kept by mmtool, and no `mmtool verify` that {written} has stored"
    " compared the records around the group's last checkpoint: leave the group out of the failover; or, to move it to"
    " the same offset all the same, add `--accept-unverified`",
}
"""Sentences that differ when only the target is read."""

_BACK = {
    Reason.NEVER_RAN: "the flow from {written} to {read}, or the flow back, has never mirrored this partition: "
    + _WHY_NEVER,
    Reason.UNKNOWN_GROUP: "{read} shows mmtool no such consumer group: check its name (`kafka-consumer-groups --list`"
    " lists the groups of {read}), and that mmtool's principal has DESCRIBE on the group",
    Reason.BEYOND_MIRROR: "the group's commit on {read} is ahead of the mirror on {written}: let the `mmtool replicate`"
    " of the flow from {read} to {written} catch up (" + _SHOWN + ")",
    Reason.WOULD_REWIND: "the group's commit on {written} is ahead of the offset translated from {read}: `mmtool"
    " translate-offsets -c FILE -g GROUP --reverse --allow-rewind --execute` moves it back",
    Reason.BEYOND_SOURCE_END: "the group's commit is past the end of {read}'s log, or its translation past the end of"
    " {written}'s log, because that log was truncated or recreated: set the group's offset on {written} yourself with"
    " `kafka-{tool} --reset-offsets --to-offset OFFSET --execute`, or leave the group on {read}",
    Reason.TARGET_LOG_START_PASSED: "{read} or {written} has deleted the records after the group's commit on {read}:"
    " let the group read past them on {read}",
    Reason.PARTITION_MISSING: "the topic was deleted or recreated on {read} or on {written}, so the commit on {read}"
    " has no known offset on {written}: leave the group on {read}, or set its offset on {written} with"
    " `kafka-{tool} --reset-offsets --to-offset OFFSET --execute` and start its consumers on {written}",
    Reason.NOT_MIRRORED: f"{_NOT_A_MIRROR}; or {_SKIPPED_BACK}",
    Reason.AMBIGUOUS: "mmtool does not know which offset on {written} belongs to the group's commit on {read}: set it"
    " yourself with `kafka-{tool} --reset-offsets --to-offset OFFSET --execute`",
}
"""Sentences that differ for a translation from target to source."""

_PAIRED = {Reason.NOT_MIRRORED: _SKIPPED}
_PAIRED_BACK = {Reason.NOT_MIRRORED: _SKIPPED_BACK}
"""Sentences that differ for a partition with a counterpart on the other cluster: the flow mirrors its topic."""

_ALONE = {
    Reason.NOT_MIRRORED: _NOT_IN_FLOW,
    Reason.BEYOND_SOURCE_END: "the topic on {read} was recreated with fewer partitions and no longer has this one:"
    " delete the group's offset of this partition on {read} with `kafka-{tool} --delete-offsets`",
}
_ALONE_EMERGENCY = {
    Reason.NOT_MIRRORED: "the flow from {read} to {written} does not mirror this topic, so its offsets are not moved",
}
_ALONE_BACK = {
    Reason.NOT_MIRRORED: _NOT_A_MIRROR,
    Reason.PARTITION_MISSING: "{written} has no such partition of the topic: add partitions to the topic on {written},"
    " or leave the group on {read}",
}
"""Sentences that differ for a partition without a counterpart on the other cluster."""


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
        reread_max: A number of records, 1 or more; UNKNOWN where nothing was counted.
    """

    offset: int
    reread_max: int | Unknown


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
