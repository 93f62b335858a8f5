"""Texts of the runbook for each step: success criteria, abort criteria, how to undo it, how to do it by hand.

``{here}`` is the cluster that groups leave, ``{there}`` the destination; ``{groups}`` and ``{topics}`` are a plan's.
``{operation}`` is its id; ``{resume}``, ``{cancel}``, ``{rollback}``, ``{release}``, ``{pause}``, ``{status}``,
``{status_back}``, ``{show}`` and ``{verify}`` are whole commands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmtool.plan.failover.divergence import TO_FILE, Diverged, ToTopic
from mmtool.plan.failover.fence_plan import FenceKind
from mmtool.plan.failover.steps import Mode, StepName


@dataclass(frozen=True, slots=True)
class Guide:
    """The texts of one step.

    Attributes:
        done_when: Success criteria.
        stop_when: Abort criteria.
        way_back: How to undo the step.
        by_hand: What the operator does where mmtool cannot; its commands come from `mmtool.plan.runbook.by_hand`.
    """

    done_when: str
    stop_when: str
    way_back: str
    by_hand: str


FIELDS = frozenset(
    {
        "here", "there", "groups", "topics", "operation",
        "resume", "cancel", "rollback", "release", "pause", "show", "status", "status_back", "verify",
    }
)  # fmt: skip
"""The placeholders that a text may have; `mmtool.plan.runbook.runbook` gives the values."""

_NOTHING = "Nothing to undo: the step only reads."
_SLOW = (
    "The step takes longer than you can wait: stop it with Ctrl-C (`--timeout` ends it with exit code 4). Or a"
    " partition is halted: `{status}` shows the reason and the remedy; apply it. No offset has been written. Then run"
    " `{resume}`."
)
_RECORD = (
    "{there} does not accept the record: apply the remedy of the message, then run `{resume}`, which writes it. Start"
    " no consumer before that."
)
_MARKS = (
    "{there} does not accept the marks: mmtool removes those that it wrote, and no offset has been written. Apply the"
    " remedy of the message, then run `{resume}`."
)
_UNMARKED = "mmtool removes the marks of step mark_failed_over, and no offset has been written."
_PRINCIPAL = "(replace `User:THE-MIRROR` with the principal of `mmtool replicate` or MirrorMaker 2)"

GUIDES: dict[StepName, Guide] = {
    StepName.CHECK: Guide(
        done_when="No selected group ({groups}) has members on {here} or on {there}: each is Empty, or does not exist."
        " No other operation on these groups is open.",
        stop_when="A group has members: the message lists them with their hosts. Stop them, and wait until their"
        " session ends (`session.timeout.ms`, 45 s by default). Then run the command of the section Execute again; or,"
        " if it has printed an operation id, `{resume}`.",
        way_back=_NOTHING,
        by_hand="Describe the groups on both clusters: the state must be Empty, or the group must not exist.",
    ),
    StepName.FENCE: Guide(
        done_when="Only mmtool and super users may write {topics} on {here}, on every broker.",
        stop_when="mmtool cannot create an ACL on {here} (it needs ALTER on the cluster), or the DENY rules would apply"
        " to mmtool itself. mmtool removes its DENY rules, and no offset has been written. Grant ALTER, or let mmtool"
        " connect as another principal, then run `{resume}`.",
        way_back="If a step fails before offsets are written, mmtool removes exactly these rules. Once offsets"
        " are written, they stay until `{rollback}` removes them and restores the offsets, or an administrator removes"
        " them with the commands after `# to undo:`.",
        by_hand="Deny WRITE on {here} to each principal that an ACL allows to write {topics}, or stop the producers.",
    ),
    StepName.TRANSACTIONS: Guide(
        done_when="No transaction with records in {topics} on {here} is open.",
        stop_when="A transaction stays open for longer than `--timeout` (in this step 90 s by default): the message"
        " names its partition, and its producer id if {here} reports it. mmtool lifts the fence, and no offset has"
        " been written. Let the producer commit or abort, then run `{resume}`.",
        way_back=_NOTHING,
        by_hand="List the transactions on {here}, and wait until none with records in {topics} is Ongoing"
        " (`transaction.timeout.ms`, 60 s by default). `kafka-transactions.sh describe --transactional-id ID` shows the"
        " partitions of a transaction.",
    ),
    StepName.ENDS: Guide(
        done_when="The log ends of {topics} on {here} do not move for the watch time.",
        stop_when="A log end moves: a producer still writes, and the message names the partition and, if {here}"
        " reports it, the producer id. mmtool lifts the fence, and no offset has been written. Stop that producer, then"
        " run `{resume}`.",
        way_back=_NOTHING,
        by_hand="Read the log ends on {here} twice, some seconds apart: they must be the same.",
    ),
    StepName.MARK: Guide(
        done_when="{there} has stored the marks of {topics}: `{show}` lists the step as done.",
        stop_when=_MARKS,
        way_back="If a step fails before offsets are written, mmtool removes the marks; after a crash `{cancel}` does."
        " After offsets are written, `{rollback}` removes the marks and restores the offsets; `{release}` removes the"
        " marks and leaves the groups on {there}. The topics are then mirrored again.",
        by_hand="Stop everything that mirrors {topics} from {here} to {there} (`mmtool replicate`, MirrorMaker 2), and"
        " keep it stopped when {here} returns. The command below denies the mirror's writes on {there} "
        + _PRINCIPAL
        + ".",
    ),
    StepName.FIND: Guide(
        done_when="mmtool knows the diverged tail: the records of {topics} on {there} that never reached {here}.",
        stop_when="A log on {there} or {here}, or the stored state of the flow, cannot be read. "
        + _UNMARKED
        + " Apply the remedy of the message, then run `{resume}`. An open transaction does not stop the step: its"
        " records and later ones are left out of the diverged tail, as the rehearsal warns.",
        way_back=_NOTHING,
        by_hand="Compare the log ends of {topics} on {there} with the source offsets at which the mirror to {here}"
        " stopped (`{status} -o json` has them as upstream_position): the records between them are the diverged tail.",
    ),
    StepName.EXPORT: Guide(
        done_when="The file `mmtool-diverged-{operation}.jsonl` holds every diverged record. It is in the folder of"
        " `--diverged-dir`, by default the current one. Where no record diverged, mmtool writes no file.",
        stop_when="The file cannot be written. " + _UNMARKED + " Free space or choose another folder, then"
        " run `{resume} --diverged-dir DIR`.",
        way_back="Nothing to undo: the file stays, and mmtool never overwrites a complete one.",
        by_hand="Copy the whole topics on {there} into files: the diverged records are the last of each partition.",
    ),
    StepName.DRAIN_BACK: Guide(
        done_when="{there} holds every record that was produced on {here} and that these groups can have read.",
        stop_when=_SLOW.replace("{status}", "{status_back}"),
        way_back="Nothing to undo: mirrored records stay.",
        by_hand="Read the log ends on {here} until they no longer move, and wait until the last record of each"
        " partition that was produced on {here} is on {there}.",
    ),
    StepName.DRAIN: Guide(
        done_when="{there} holds every record of {topics} that {here} held when step check_groups ended.",
        stop_when=_SLOW,
        way_back="Nothing to undo: mirrored records stay, and mirroring continues.",
        by_hand="Read the log ends on {here} until they no longer move, and wait until the last record of each"
        " partition is on {there}. Do not compare log ends of the two clusters: transaction markers and compaction"
        " make them differ.",
    ),
    StepName.TRANSLATE: Guide(
        done_when="Every committed offset of a mirrored partition has an offset on {there}; the table above shows the"
        " offsets that were known at the rehearsal.",
        stop_when="An offset is refused: the message names the reason and the remedy. No offset has been written. Apply"
        " the remedy, then run `{resume}`.",
        way_back=_NOTHING,
        by_hand="Use the offsets of the table above. For an offset that is not in it, read the record at the committed"
        " offset on {here}, and find the same record (key, timestamp) on {there}: use its offset.",
    ),
    StepName.VALIDATE: Guide(
        done_when="Each offset is between log start and log end on {there}, moves no group back, and no client"
        " committed since the groups were checked. The journal has the previous offsets.",
        stop_when="An offset is outside its log, or a group would move back: apply the remedy of the message. Or the"
        " group's committed offsets on {here} or {there} have changed since the check: the message names the cluster. A"
        " consumer with `assign()`, another tool or offset sync commits for the group: stop it. No offset has been"
        " written: run `{resume}` afterwards.",
        way_back="Nothing to undo: the step writes only to the journal.",
        by_hand="Each offset of the table must be between the earliest and the latest offset on {there}, and not below"
        " the offset that the group has committed on {there}.",
    ),
    StepName.PROVE: Guide(
        done_when="The record before each offset and the record after it are the same on both clusters.",
        stop_when="Two records differ: the offset would be wrong. No offset has been written. Apply the remedy of the"
        " message, then run `{resume}`. `{verify}` compares the topics record by record.",
        way_back=_NOTHING,
        by_hand="Read the record at each pair of offsets on both clusters, and compare key, value and timestamp.",
    ),
    StepName.PROMOTE: Guide(
        done_when="Every broker of {there} applies the ACLs: the producers of {topics} may write on {there}.",
        stop_when="mmtool cannot create an ACL on {there} (it needs ALTER on the cluster). mmtool removes those that it"
        " created, and no offset has been written. Grant ALTER, then run `{resume}`.",
        way_back="If a step fails before offsets are written, mmtool removes the ACLs that it created. Once offsets"
        " are written, `{rollback}` removes these ACLs and restores the offsets; a failback removes these ACLs"
        " too. ACLs that {there} had before stay.",
        by_hand="Allow WRITE on {there} to each principal that may write {topics} on {here}, under the topics' own"
        " names.",
    ),
    StepName.WITHDRAW: Guide(
        done_when="No broker of {here} applies the ACLs that the failover created on {here}: the producers of {topics}"
        " no longer write on {here}.",
        stop_when="mmtool cannot remove an ACL on {here} (it needs ALTER on the cluster). mmtool creates the removed"
        " ones again, and no offset has been written. Grant ALTER, then run `{resume}`.",
        way_back="If a step fails before offsets are written, mmtool creates these ACLs again. Once offsets are"
        " written, `{rollback}` creates them again and restores the offsets.",
        by_hand="Stop the producers of {topics} on {here}, then remove the ACLs that the failover created on {here}.",
    ),
    StepName.WRITE: Guide(
        done_when="{there} has accepted the offsets of every group.",
        stop_when="Do not stop: this is the point of no return. If {there} refuses a part of a group, mmtool restores"
        " that group at once. `{resume}` completes the others; `{rollback}` undoes all groups.",
        way_back="`{rollback}` restores the previous offsets of all groups. It is refused, and changes nothing, if one"
        " of the groups has members or has committed since.",
        by_hand="The first commands set the offsets of each group from a file. The commented commands restore the"
        " offsets that the group had on {there} at the rehearsal.",
    ),
    StepName.READ_BACK: Guide(
        done_when="mmtool has read the groups' offsets from {there} over a new connection, and they are exactly those"
        " of step write.",
        stop_when="The offsets differ: an application or tool commits for these groups on {there}. Stop it; if a group"
        " is now behind the offsets that mmtool wrote, reset it by hand as in step write. Then run `{resume}`.",
        way_back="`{rollback}`, as in step write.",
        by_hand="Describe the groups on {there}, and compare CURRENT-OFFSET with `continues at` in the table.",
    ),
    StepName.HAND_OVER: Guide(
        done_when="{there} has stored that each group now belongs to {there}; offset sync skips {groups} from now on.",
        stop_when=_RECORD,
        way_back="`{rollback}` lets offset sync include the groups again, and restores their previous offsets on"
        " {there}.",
        by_hand="Exclude the groups from the offset sync of the mirror from {here} to {there}: set"
        " `groups.exclude` or `sync.group.offsets.enabled = false` in the mirror's properties file, and restart it.",
    ),
    StepName.RELEASE: Guide(
        done_when="The flow {there}->{here} mirrors {topics} again: `{status}` no longer shows failed_over.",
        stop_when="The marks cannot be removed: apply the remedy of the message, then run `{resume}`, which removes"
        " them. The groups are already on {there}.",
        way_back="`{pause}` stops the mirror and leaves the groups on {there}; `{rollback}` marks the topics as failed"
        " over again and restores the groups' previous offsets.",
        by_hand="The command below removes the DENY rule on {here} that you added by hand in step mark_failed_over "
        + _PRINCIPAL
        + "."
        " Then start the mirror from {there} to {here} again.",
    ),
    StepName.READ: Guide(
        done_when="The first records after each offset were read on {there}, as an application would read"
        " them.",
        stop_when="Existing records cannot be read: check the log bounds and the ACLs on {there}, then"
        " run the drill again.",
        way_back=_NOTHING,
        by_hand="Read the first records after each offset on {there}.",
    ),
    StepName.CLEAN_UP: Guide(
        done_when="The copies of the groups are deleted on {there}.",
        stop_when="A copy of a group still exists on {there}: delete it by hand. Groups in production are not touched.",
        way_back="Nothing to undo: the drill created the groups that it deletes.",
        by_hand="Delete the copies of the groups, and no other groups.",
    ),
    StepName.REPORT: Guide(
        done_when="The summary shows the moved offsets, the lost records and the records that are read again.",
        stop_when="Do not stop: the groups are already on {there}, and this step moves none. Start the consumers.",
        way_back=_NOTHING,
        by_hand="Start the consumers on {there}, and watch their lag fall.",
    ),
}
"""The texts of every step; a test checks that none is missing."""

_INTO_TOPIC = Guide(
    done_when="The topic that `--diverged` names holds each diverged record once, on {there}.",
    stop_when="The topic does not accept a record. "
    + _UNMARKED
    + " Apply the remedy of the message, then run `{resume}`, which writes the rest, and no record twice.",
    way_back="Nothing is undone: the records stay in the topic.",
    by_hand="Copy the whole topics on {there} into files. Of each partition, produce the diverged records (those"
    " between the two offsets of step find_diverged) into the topic that `--diverged` names. Use a program: Kafka's"
    " console tools keep neither timestamps nor partitions.",
)
"""The texts of the step export_diverged where the records go into a topic."""

_OF_MODE: dict[tuple[Mode, StepName], Guide] = {
    (Mode.FAILBACK, StepName.DRAIN): Guide(
        done_when="{here} holds every record that {there} has in {topics}. Topics that are marked as failed over are"
        " left out.",
        stop_when=_SLOW,
        way_back="Nothing to undo: mirrored records stay, and mirroring continues.",
        by_hand="Wait until the last record of each partition on {there} is on {here}. Leave out topics whose mirror"
        " was stopped for an emergency failover.",
    ),
    (Mode.FAILBACK, StepName.MARK): Guide(
        done_when="The flow {there}->{here} no longer mirrors {topics}: `{status}` shows failed_over.",
        stop_when=_MARKS.replace("{there}", "{here}"),
        way_back="If a step fails before offsets are written, mmtool removes the marks of this operation; after a crash"
        " `{cancel}` does. Marks of an earlier emergency failover stay.",
        by_hand="Stop everything that mirrors {topics} from {there} to {here}. The command below denies the mirror's"
        " writes on {here} " + _PRINCIPAL + ".",
    ),
    (Mode.FAILBACK, StepName.TRANSLATE): replace(
        GUIDES[StepName.TRANSLATE],
        stop_when="An offset is refused: the message names the reason and the remedy. "
        + _UNMARKED
        + " Apply the"
        " remedy, then run `{resume}`.",
    ),
    (Mode.FAILBACK, StepName.HAND_OVER): Guide(
        done_when="{here} has stored that each group ({groups}) belongs to {there} again: offset sync from {there} to"
        " {here} includes the groups again.",
        stop_when=_RECORD.replace("{there}", "{here}"),
        way_back="`{rollback}` records that the groups are on {here} again, and restores the offsets.",
        by_hand="Remove the groups from `groups.exclude` of the mirror from {there} to {here}, and restart it.",
    ),
    (Mode.EMERGENCY, StepName.CHECK): Guide(
        done_when="On {there}, no selected group ({groups}) has members: each is Empty, or does not exist. No other"
        " operation is running. {here} is not contacted.",
        stop_when="A group has members on {there}: the message lists them with their hosts. Stop them, then run"
        " the command of the section Execute again; or, if it has printed an operation id, `{resume}`.",
        way_back=_NOTHING,
        by_hand="Describe the groups on {there}: the state must be Empty, or the group must not exist.",
    ),
    (Mode.EMERGENCY, StepName.TRANSLATE): Guide(
        done_when="mmtool has an offset on {there} for every checkpoint; the table above shows them.",
        stop_when="An offset is refused: the message names the reason and the remedy. "
        + _UNMARKED
        + " Apply the"
        " remedy, then run `{resume}`.",
        way_back=_NOTHING,
        by_hand="Use the offsets of the table above; they are as recent as the last checkpoints on {there}.",
    ),
}

NOT_RELEASED = Guide(
    done_when="No topic is released: other groups read {topics} on {here}, and the topics stay failed over until those"
    " groups fail back as well.",
    stop_when="Do not stop: the step changes nothing.",
    way_back="Nothing to undo: the step changes nothing.",
    by_hand="Nothing to do: keep the mirror of {topics} from {there} to {here} stopped.",
)
"""The texts of the step release_topics, for a failback that releases no topic."""

NOTHING_TO_RELEASE = replace(
    NOT_RELEASED,
    done_when="No topic is released: the groups read no topic that the flow {there}->{here} mirrors.",
    by_hand="Nothing to do.",
)
"""The texts of the step release_topics, for a failback of groups that read no mirrored topic."""

_LATE = replace(
    GUIDES[StepName.REPORT],
    stop_when="A producer wrote on {here} after the log ends of {here} had stopped moving (exit code 7): stop that"
    " producer, let `mmtool replicate` mirror its records, then run `{resume}`. The groups are already on {there}:"
    " start their consumers.",
)
_ENDED = replace(
    GUIDES[StepName.DRAIN],
    done_when="{there} holds every record of {topics} that {here} held when step watch_ends ended.",
)

_OF_FENCE: dict[tuple[FenceKind, StepName], Guide] = {
    **{(kind, StepName.REPORT): _LATE for kind in FenceKind if kind is not FenceKind.NONE},
    **{(kind, StepName.DRAIN): _ENDED for kind in FenceKind if kind is not FenceKind.NONE},
    (FenceKind.HOOK, StepName.FENCE): Guide(
        done_when="The hook `mmtool.hook.fence` has exited with 0: it keeps producers off {topics} on {here}.",
        stop_when="The hook fails: mmtool runs it again with MMTOOL_ACTION=undo, and no offset has been written."
        " Correct the hook, then run `{resume}`.",
        way_back="If a step fails before offsets are written, mmtool runs the hook with MMTOOL_ACTION=undo. After"
        " offsets are written, `{rollback}` runs it so, and restores the previous offsets.",
        by_hand="Keep producers off {topics} on {here} as the hook does, or stop the producers.",
    ),
    (FenceKind.WATCH, StepName.FENCE): Guide(
        done_when="You have stopped the producers of {topics} on {here}; step watch_ends checks it.",
        stop_when="A producer still writes {topics} on {here}: stop it, then run `{resume}`.",
        way_back="Nothing to undo: mmtool denies nothing.",
        by_hand="Stop the producers of {topics} on {here}.",
    ),
    (FenceKind.WATCH, StepName.TRANSACTIONS): replace(
        GUIDES[StepName.TRANSACTIONS],
        stop_when="A transaction stays open for longer than `--timeout` (in this step 90 s by default): the message"
        " names its partition, and its producer id if {here} reports it. Nothing has been changed. Let the producer"
        " commit or abort, then run `{resume}`.",
    ),
    (FenceKind.WATCH, StepName.ENDS): replace(
        GUIDES[StepName.ENDS],
        stop_when="A log end moves: a producer still writes, and the message names the partition and, if {here}"
        " reports it, the producer id. Nothing has been changed. Stop that producer, then run `{resume}`.",
    ),
}
"""The texts that depend on the kind of fence; the texts of `GUIDES` are those for ACLs."""


def guide_of(
    mode: Mode, name: StepName, diverged: Diverged = TO_FILE, fence: FenceKind = FenceKind.NONE
) -> Guide:
    """The texts of a step in a mode, for a choice of ``--diverged`` and a kind of fence."""
    if name is StepName.EXPORT and isinstance(diverged, ToTopic):
        return _INTO_TOPIC
    return _OF_FENCE.get((fence, name)) or _OF_MODE.get((mode, name)) or GUIDES[name]
