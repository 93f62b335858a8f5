"""What a person needs to know of each step, beside its sentence: when it is done, when to stop, the way back, by hand.

``{here}`` is the cluster that groups leave, ``{there}`` the one they go to; ``{groups}`` and ``{topics}`` are a plan's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmtool.plan.failover.divergence import TO_FILE, Diverged, Kind
from mmtool.plan.failover.fence_plan import FenceKind
from mmtool.plan.failover.steps import Mode, StepName


@dataclass(frozen=True, slots=True)
class Guide:
    """The texts of one step.

    Attributes:
        done_when: Success criteria.
        stop_when: Abort criteria.
        way_back: How what it did is taken back.
        by_hand: What is done where mmtool cannot do it; the commands for it are `mmtool.plan.runbook.by_hand`'s.
    """

    done_when: str
    stop_when: str
    way_back: str
    by_hand: str


_NOTHING = "Nothing to undo: the step only reads."

GUIDES: dict[StepName, Guide] = {
    StepName.CHECK: Guide(
        done_when="No group of {groups} has members on {here} or on {there} (state Empty, or no such group), and no"
        " other operation is running.",
        stop_when="A group has members: the message lists them with their hosts. Stop them, wait until"
        " their session ends (`session.timeout.ms`, 45 s by default), then run `mmtool failover resume OPERATION_ID"
        " --execute`. If no operation has begun, run the same command again.",
        way_back=_NOTHING,
        by_hand="Describe the groups on both clusters: the state must be Empty, or the group must not exist.",
    ),
    StepName.FENCE: Guide(
        done_when="Only mmtool and super users may write {topics} on {here}, on every broker.",
        stop_when="mmtool cannot create an ACL (it needs ALTER on the cluster), or the rule would deny mmtool"
        " itself. mmtool removes its DENY rules: correct that, then `mmtool failover resume OPERATION_ID"
        " --execute`.",
        way_back="If a step fails before offsets are written, mmtool removes exactly these rules; after that,"
        " `mmtool failover rollback` removes them.",
        by_hand="Deny WRITE to each principal that an ACL allows to write {topics}, or stop the producers.",
    ),
    StepName.TRANSACTIONS: Guide(
        done_when="No transaction with records in {topics} on {here} is open.",
        stop_when="A transaction does not end: it is listed with its producer id. mmtool lifts the fence.",
        way_back=_NOTHING,
        by_hand="List hanging transactions, and wait until they end (`transaction.timeout.ms`, 60 s by"
        " default).",
    ),
    StepName.ENDS: Guide(
        done_when="The log ends of {topics} on {here} do not move for the watch time.",
        stop_when="A log end moves: a producer still writes, and is listed with its producer id."
        " mmtool lifts the fence.",
        way_back=_NOTHING,
        by_hand="Read the log ends twice, some seconds apart: they must be the same.",
    ),
    StepName.MARK: Guide(
        done_when="{there} has stored the marks: `mmtool status` shows {topics} as failed_over.",
        stop_when="{there} does not accept the marks. Nothing has been changed.",
        way_back="`mmtool failover cancel` before the point of no return, `rollback` or `release` after it: the topics"
        " are mirrored again.",
        by_hand="Stop everything that mirrors {topics} from {here} to {there} (`mmtool replicate`,"
        " MirrorMaker 2), and keep it stopped when {here} returns; a DENY for the mirror's"
        " principal enforces that.",
    ),
    StepName.FIND: Guide(
        done_when="The diverged tail is known: the records of {topics} on {there} that never reached {here}.",
        stop_when="A log cannot be read, or ends in an open transaction. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Compare the log ends of {topics} on {there} with the position of the mirror to {here}"
        " when it stopped.",
    ),
    StepName.EXPORT: Guide(
        done_when="The file of diverged records exists, and its checksum is right.",
        stop_when="The file cannot be written. No offset has been written.",
        way_back="Nothing to undo: the file stays, and a complete export is never overwritten.",
        by_hand="Copy the whole topics on {there} into files: the diverged records are at their ends.",
    ),
    StepName.DRAIN_BACK: Guide(
        done_when="{there} holds every record that was produced on {here} and that these groups can have"
        " read.",
        stop_when="The step takes too long (`--timeout` ends it with exit code 4), or a partition is halted. No"
        " offset has been written.",
        way_back="Nothing to undo: mirrored records stay.",
        by_hand="Read the log ends on {here} until they no longer move, and wait until the lag of the"
        " mirror from {here} to {there} is 0.",
    ),
    StepName.DRAIN: Guide(
        done_when="{there} holds every record of {topics} that {here} held when the groups were stopped.",
        stop_when="The step takes too long (`--timeout` ends it with exit code 4), or a partition is halted. No"
        " offset has been written.",
        way_back="Nothing to undo: mirrored records stay, and mirroring continues.",
        by_hand="Read the log ends on {here} until they no longer move, and wait until the mirror's lag"
        " is 0. Do not compare log ends of the two clusters: transaction markers and compaction"
        " move them.",
    ),
    StepName.TRANSLATE: Guide(
        done_when="Every committed offset has its offset on {there}; the table above shows those that are"
        " known.",
        stop_when="An offset is refused: the reason names the cause and the remedy. No offset has been"
        " written.",
        way_back=_NOTHING,
        by_hand="Use the offsets of the table above. For an offset that is not in it, read the record at"
        " the committed offset on {here}, and find the same record (key, timestamp) on {there}:"
        " use its offset.",
    ),
    StepName.VALIDATE: Guide(
        done_when="Each offset is between log start and log end on {there}, moves no group back, and no"
        " client committed since the groups were checked. The journal has the previous offsets.",
        stop_when="An offset is outside its log, a group would move back, or a commit has changed: a"
        " consumer with assign() is active. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Compare the offsets of the table with the first and last offsets on {there}.",
    ),
    StepName.PROVE: Guide(
        done_when="The record before each offset and the record after it are the same on both clusters.",
        stop_when="Two records differ: the offset would be wrong. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Read the record at each pair of offsets on both clusters, and compare key, value and"
        " timestamp.",
    ),
    StepName.WRITE: Guide(
        done_when="{there} has accepted the offsets of every group.",
        stop_when="Do not stop: this is the point of no return. A group that is refused in part is"
        " restored at once; complete the others with `mmtool failover resume`, or undo all with"
        " `rollback`.",
        way_back="`mmtool failover rollback` restores the previous offsets of all groups. It is refused, and"
        " changes nothing, if one of them has members or has committed since.",
        by_hand="Reset the groups from files. The commented commands restore the current offsets.",
    ),
    StepName.READ_BACK: Guide(
        done_when="Another client reads exactly these offsets from {there}.",
        stop_when="The offsets differ: another client commits for these groups on {there}. Stop it, then"
        " `mmtool failover resume`.",
        way_back="`mmtool failover rollback`, as in the step before.",
        by_hand="Describe the groups on {there}, and compare CURRENT-OFFSET with the table.",
    ),
    StepName.HAND_OVER: Guide(
        done_when="{there} has stored a record for each group; offset sync skips {groups} from now on.",
        stop_when="{there} does not accept the record: `mmtool failover resume` writes it. Start no"
        " consumer before.",
        way_back="`mmtool failover rollback` removes these records.",
        by_hand="Exclude the groups from the mirror's offset sync: `groups.exclude` in its file, or"
        " `sync.group.offsets.enabled = false`, and restart it.",
    ),
    StepName.RELEASE: Guide(
        done_when="{topics} are mirrored from {there} to {here} again: `mmtool status` shows them running.",
        stop_when="The marks cannot be removed: `mmtool failover resume` removes them. The groups are"
        " already on {there}.",
        way_back="`mmtool flow pause` stops topics, and a later failover marks them again.",
        by_hand="Remove the DENY for the mirror's principal, and start the mirror again.",
    ),
    StepName.READ: Guide(
        done_when="The first records after each offset were read on {there}, as an application would read"
        " them.",
        stop_when="Existing records cannot be read: check the log bounds and the ACLs on {there}.",
        way_back=_NOTHING,
        by_hand="Read the first records after each offset on {there}.",
    ),
    StepName.CLEAN_UP: Guide(
        done_when="The shadow groups are deleted on {there}.",
        stop_when="A shadow group still exists: delete it by hand. Groups in production are not touched.",
        way_back="Nothing to undo: the drill created the groups that it deletes.",
        by_hand="Delete the shadow groups, and no other.",
    ),
    StepName.REPORT: Guide(
        done_when="The last line shows moved offsets, lost records and records that are read again.",
        stop_when="Do not stop: the step moves no group. Start the consumers.",
        way_back=_NOTHING,
        by_hand="Start the consumers on {there}, and watch their lag fall.",
    ),
}
"""Every step's texts; a test sees that none is missing."""

_OF_CHOICE: dict[tuple[Kind, StepName], Guide] = {
    (Kind.TOPIC, StepName.EXPORT): Guide(
        done_when="The topic on {there} holds each diverged record once.",
        stop_when="The topic does not accept a record. No offset has been written; `mmtool failover"
        " resume` writes the rest, and no record twice.",
        way_back="Nothing is undone: the records stay in the topic.",
        by_hand="Copy the whole topics on {there} into files, and produce the records at their ends into"
        " the topic with a program, because Kafka's console tools keep neither timestamps nor"
        " partitions.",
    ),
    (Kind.REPLAY, StepName.EXPORT): Guide(
        done_when="Each diverged record of {topics} is on {here} once, as a new record, and the mirror"
        " has skipped the old ones.",
        stop_when="{here} does not accept a record, or another process runs the mirror. No offset has"
        " been written; `mmtool failover resume` writes the rest and no record twice, `cancel`"
        " makes the mirror skip the written records.",
        way_back="Nothing is undone: the records stay on {here}, like other records that were produced"
        " there.",
        by_hand="Copy the whole topics on {there} into files, and produce the records at their ends into"
        " {topics} on {here} with a program, because Kafka's console tools keep neither"
        " timestamps nor partitions. Then move the mirror to {here} past them, before it starts"
        " again: `mmtool flow seek`, or the stored offsets of MirrorMaker 2's connector.",
    ),
    (Kind.REPLAY, StepName.DRAIN_BACK): Guide(
        done_when="{there} holds every record that was produced on {here}, including the replayed ones.",
        stop_when="The step takes too long (`--timeout` ends it with exit code 4), or a partition is halted. No"
        " offset has been written.",
        way_back="Nothing to undo: mirrored records stay.",
        by_hand="Read the log ends on {here} until they no longer move, and wait until the lag of the"
        " mirror from {here} to {there} is 0.",
    ),
    (Kind.REPLAY, StepName.RELEASE): Guide(
        done_when="{topics} are mirrored from {there} to {here} again, after the diverged records.",
        stop_when="The marks cannot be removed: `mmtool failover resume` removes them. The groups are"
        " already on {there}.",
        way_back="`mmtool flow pause` stops topics, and a later failover marks them again.",
        by_hand="Check that the mirror's position is after the diverged records, remove the DENY for its"
        " principal, and start it again.",
    ),
}
"""Where it matters what becomes of diverged records."""

_OF_MODE: dict[tuple[Mode, StepName], Guide] = {
    (Mode.FAILBACK, StepName.DRAIN): Guide(
        done_when="For each topic of {topics} that is not marked as failed over, {here} holds every record of"
        " {there}.",
        stop_when="The step takes too long (`--timeout` ends it with exit code 4), or a partition is halted. No"
        " offset has been written.",
        way_back="Nothing to undo: mirrored records stay, and mirroring continues.",
        by_hand="Wait until the lag of the mirror from {there} to {here} is 0.",
    ),
    (Mode.FAILBACK, StepName.MARK): Guide(
        done_when="{topics} are held: they are no longer mirrored from {there} to {here}.",
        stop_when="{here} does not accept the marks. Nothing has been changed.",
        way_back="`mmtool failover cancel` removes the marks of this operation.",
        by_hand="Stop everything that mirrors {topics} from {there} to {here}; a DENY for its principal"
        " enforces that.",
    ),
    (Mode.FAILBACK, StepName.HAND_OVER): Guide(
        done_when="{here} has stored that {groups} belong to {there} again; offset sync from {there} to {here}"
        " includes them.",
        stop_when="{here} does not accept the record: `mmtool failover resume` writes it. Start no"
        " consumer before.",
        way_back="`mmtool failover rollback` records that the groups belong to {here} again.",
        by_hand="Remove the groups from `groups.exclude` of the mirror from {there} to {here}, and restart it.",
    ),
    (Mode.EMERGENCY, StepName.CHECK): Guide(
        done_when="No group of {groups} has members on {there} (state Empty, or no such group), and no other"
        " operation is running. {here} is not contacted.",
        stop_when="A group has members on {there}: the message lists them with their hosts. Stop them,"
        " then run `mmtool failover resume OPERATION_ID --execute`. If no operation has begun, run the same command"
        " again.",
        way_back=_NOTHING,
        by_hand="Describe the groups on {there}: the state must be Empty, or the group must not exist.",
    ),
    (Mode.EMERGENCY, StepName.TRANSLATE): Guide(
        done_when="mmtool has an offset on {there} for every checkpoint; the table above shows them.",
        stop_when="An offset is refused: the reason names the cause and the remedy. mmtool removes the marks.",
        way_back=_NOTHING,
        by_hand="Use the offsets of the table above; they are as recent as the last checkpoints on {there}.",
    ),
}

_OF_FENCE: dict[tuple[FenceKind, StepName], Guide] = {
    (FenceKind.HOOK, StepName.FENCE): Guide(
        done_when="The hook `mmtool.hook.fence` has ended with 0: it keeps producers off {topics} on {here}.",
        stop_when="The hook fails. mmtool runs it again with MMTOOL_ACTION=undo.",
        way_back="If a step fails before offsets are written, mmtool runs the hook with MMTOOL_ACTION=undo;"
        " after that, `mmtool failover rollback` does.",
        by_hand="Keep producers off {topics} on {here} as the hook does, or stop the producers.",
    ),
    (FenceKind.WATCH, StepName.FENCE): Guide(
        done_when="You have stopped the producers of {topics}; the next steps check it.",
        stop_when="A producer still writes {topics} on {here}: stop it, then `mmtool failover resume OPERATION_ID"
        " --execute`.",
        way_back="Nothing to undo: mmtool denies nothing.",
        by_hand="Stop the producers of {topics} on {here}.",
    ),
    (FenceKind.WATCH, StepName.TRANSACTIONS): replace(
        GUIDES[StepName.TRANSACTIONS],
        stop_when="A transaction does not end: it is listed with its producer id. Nothing has been changed.",
    ),
    (FenceKind.WATCH, StepName.ENDS): replace(
        GUIDES[StepName.ENDS],
        stop_when="A log end moves: a producer still writes, and is listed with its producer id. Nothing has"
        " been changed.",
    ),
}
"""Where it matters who keeps producers off; the texts of `GUIDES` are those for ACLs."""


def guide_of(
    mode: Mode, name: StepName, diverged: Diverged = TO_FILE, fence: FenceKind = FenceKind.ACL
) -> Guide:
    """The texts of a step, as they hold in a mode, for what becomes of diverged records, and for a kind of fence."""
    chosen = _OF_CHOICE.get((diverged.kind, name)) or _OF_FENCE.get((fence, name))
    return chosen or _OF_MODE.get((mode, name)) or GUIDES[name]
