"""What a person needs to know of each step, beside its sentence: when it is done, when to stop, the way back, by hand.

``{here}`` is the cluster that groups leave, ``{there}`` the one they go to; ``{groups}`` and ``{topics}`` are a plan's.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmtool.plan.diverged import TO_FILE, Diverged, Kind
from mmtool.plan.steps import Mode, StepName


@dataclass(frozen=True, slots=True)
class Guide:
    """The texts of one step.

    Attributes:
        done_when: Success criteria.
        stop_when: Abort criteria.
        way_back: How what it did is taken back.
        by_hand: What is done where mmtool cannot do it; the commands for it are `mmtool.plan.by_hand`'s.
    """

    done_when: str
    stop_when: str
    way_back: str
    by_hand: str


_NOTHING = "Nothing to take back: the step only looks."

GUIDES: dict[StepName, Guide] = {
    StepName.CHECK: Guide(
        done_when="Each of {groups} is Empty on {here} and on {there}, and no other operation is under way.",
        stop_when="A group has members: the message names them with their hosts. Stop them, wait for their session to"
        " end (`session.timeout.ms`, 45 s by default), and begin again.",
        way_back=_NOTHING,
        by_hand="Describe the groups on both sides; the state must be Empty, and no member be listed.",
    ),
    StepName.FENCE: Guide(
        done_when="Nobody but mmtool and super users may write {topics} on {here}, on any broker.",
        stop_when="A rule cannot be made, or would deny mmtool itself. What was denied is allowed again.",
        way_back="Until offsets are written, any failure takes exactly these rules away; after that, `mmtool failover"
        " rollback` does.",
        by_hand="Deny WRITE to each principal that a rule lets write {topics}, or stop the producers.",
    ),
    StepName.TRANSACTIONS: Guide(
        done_when="No transaction has records in {topics} on {here} and has not ended.",
        stop_when="One does not end: it is listed with its producer id. The fence is taken back.",
        way_back=_NOTHING,
        by_hand="List what hangs, and wait for it to end (`transaction.timeout.ms`, 60 s by default).",
    ),
    StepName.ENDS: Guide(
        done_when="Every partition of {topics} on {here} has the same end for a while.",
        stop_when="An end moves: somebody still writes, and is named by producer id. The fence is taken back.",
        way_back=_NOTHING,
        by_hand="Ask for the log ends twice, some seconds apart: they must be the same.",
    ),
    StepName.MARK: Guide(
        done_when="The marks are on {there}: `mmtool status` shows {topics} as failed_over.",
        stop_when="{there} does not take the marks. Nothing has been changed.",
        way_back="`mmtool failover cancel` before the point of no return, `rollback` or `release` after it: the topics"
        " are mirrored again.",
        by_hand="Stop everything that mirrors {topics} from {here} to {there} (`mmtool replicate`, MirrorMaker 2),"
        " and see that it stays stopped when {here} returns; a DENY for the mirror's principal makes sure.",
    ),
    StepName.FIND: Guide(
        done_when="It is known which records of {topics} on {there} never reached {here}: the diverged tail.",
        stop_when="A log cannot be read, or an open transaction hides its end. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Compare the ends of {topics} on {there} with where the mirror to {here} stood when it stopped.",
    ),
    StepName.EXPORT: Guide(
        done_when="The file with the diverged records is there, and its checksum holds.",
        stop_when="The file cannot be written. No offset has been written.",
        way_back="Nothing to take back: the file stays, and an export that is whole is never replaced.",
        by_hand="Copy the topics on {there} into files, whole: what diverged is at their ends.",
    ),
    StepName.DRAIN_BACK: Guide(
        done_when="{there} holds every record that was born on {here} and that these groups can have read.",
        stop_when="It takes longer than you can wait (`--timeout` ends it with 4), or a partition is halted. No offset"
        " has been written.",
        way_back="Nothing to take back: mirrored records stay.",
        by_hand="Compare the log ends on {here} until they stand still, and wait until the lag of the mirror that leads"
        " from {here} to {there} is 0.",
    ),
    StepName.DRAIN: Guide(
        done_when="{there} holds every record of {topics} that {here} held when the groups stood still.",
        stop_when="It takes longer than you can wait (`--timeout` ends it with 4), or a partition is halted. No offset"
        " has been written.",
        way_back="Nothing to take back: mirrored records stay, and the mirror goes on from there.",
        by_hand="Compare the log ends on {here} until they stand still, and wait until the mirror's lag is 0."
        " Log ends of the two clusters are no measure of each other: transaction markers and compaction move them.",
    ),
    StepName.TRANSLATE: Guide(
        done_when="Every committed offset has its offset on {there}, as the table above shows what is known of them.",
        stop_when="An offset is refused: the reason says why, and what helps. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Take the offsets of the table above. For one that is not in it, read the record at the committed"
        " offset on {here}, and find the same record (key, timestamp) on {there}: its offset there is the answer.",
    ),
    StepName.VALIDATE: Guide(
        done_when="Each offset lies between log start and log end on {there}, moves no group back, and nobody"
        " committed since the groups were checked. What is replaced is in the journal.",
        stop_when="An offset lies outside its log, a group would be moved back, or a commit has moved: an application"
        " with assign() is at work. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Compare the offsets of the table with the first and last offsets on {there}.",
    ),
    StepName.PROVE: Guide(
        done_when="The record before each offset and the one after it are the same on both sides.",
        stop_when="Two of them differ: the offset would lead elsewhere. No offset has been written.",
        way_back=_NOTHING,
        by_hand="Read the record at each pair of offsets on both sides, and compare key, value and timestamp.",
    ),
    StepName.WRITE: Guide(
        done_when="{there} has taken the offsets of every group.",
        stop_when="Not any more: this is the point of no return. A group that is refused in part is put back at once;"
        " finish the others with `mmtool failover resume`, or take all back with `rollback`.",
        way_back="`mmtool failover rollback` puts back what stood there, for groups that nobody has started since.",
        by_hand="Reset the groups from files. What is commented out puts back what stands there now.",
    ),
    StepName.READ_BACK: Guide(
        done_when="Another client reads exactly these offsets from {there}.",
        stop_when="Something else stands there: somebody commits for these groups on {there}. Stop it, then"
        " `mmtool failover resume`.",
        way_back="`mmtool failover rollback`, as of the step before.",
        by_hand="Describe the groups on {there}, and compare CURRENT-OFFSET with the table.",
    ),
    StepName.HAND_OVER: Guide(
        done_when="It is on record that no sync of group offsets moves {groups} on {there} any more.",
        stop_when="{there} does not take the record: `mmtool failover resume` writes it. Start no consumer before.",
        way_back="`mmtool failover rollback` takes the record away.",
        by_hand="Take the groups out of the mirror's care: `groups.exclude` in its file, or"
        " `sync.group.offsets.enabled = false`, and restart it.",
    ),
    StepName.RELEASE: Guide(
        done_when="{topics} are mirrored from {there} to {here} again: `mmtool status` shows them running.",
        stop_when="The marks cannot be lifted: `mmtool failover resume` does it. The groups are at home already.",
        way_back="`mmtool flow pause` holds topics, and a later failover marks them anew.",
        by_hand="Take away the DENY for the mirror's principal, and start the mirror again.",
    ),
    StepName.READ: Guide(
        done_when="The first records after each offset were read on {there}, as an application would.",
        stop_when="Nothing can be read where records are: see the log bounds and the rights on {there}.",
        way_back=_NOTHING,
        by_hand="Read the first records after each offset on {there}.",
    ),
    StepName.CLEAN_UP: Guide(
        done_when="The shadow groups are gone from {there}.",
        stop_when="A shadow group is still there: delete it by hand. Groups in production are not touched.",
        way_back="Nothing to take back: what is deleted was made by the drill.",
        by_hand="Delete the shadow groups, and no other.",
    ),
    StepName.REPORT: Guide(
        done_when="The last line says what was moved, what was lost and what is read again.",
        stop_when="Nothing can go wrong here that would move a group: start the consumers.",
        way_back=_NOTHING,
        by_hand="Start the consumers on {there}, and watch their lag fall.",
    ),
}
"""Every step's texts; a test sees that none is missing."""

_OF_CHOICE: dict[tuple[Kind, StepName], Guide] = {
    (Kind.TOPIC, StepName.EXPORT): Guide(
        done_when="The topic on {there} holds each diverged record once.",
        stop_when="The topic does not take a record. No offset has been written; `mmtool failover resume` writes the"
        " rest, and no record twice.",
        way_back="Nothing is taken back: the records stay in the topic.",
        by_hand="Copy the topics on {there} into files, whole, and produce what is at their ends into the topic: by a"
        " program, since Kafka's console tools keep neither timestamps nor partitions.",
    ),
    (Kind.REPLAY, StepName.EXPORT): Guide(
        done_when="Each diverged record of {topics} is on {here} once, as a new one, and the mirror has passed"
        " over the old ones.",
        stop_when="{here} does not take a record, or somebody runs the mirror. No offset has been written;"
        " `mmtool failover resume` writes the rest and no record twice, `cancel` lets the mirror pass over what is"
        " written.",
        way_back="Nothing is taken back: the records stay on {here}, like others that were born there.",
        by_hand="Copy the topics on {there} into files, whole, and produce what is at their ends into {topics} on"
        " {here}: by a program, since Kafka's console tools keep neither timestamps nor partitions. Then move the"
        " mirror to {here} past them, before it starts again: `mmtool flow seek`, or the stored offsets of"
        " MirrorMaker 2's connector.",
    ),
    (Kind.REPLAY, StepName.DRAIN_BACK): Guide(
        done_when="{there} holds every record that was born on {here}, the replayed ones among them.",
        stop_when="It takes longer than you can wait (`--timeout` ends it with 4), or a partition is halted. No offset"
        " has been written.",
        way_back="Nothing to take back: mirrored records stay.",
        by_hand="Compare the log ends on {here} until they stand still, and wait until the lag of the mirror that leads"
        " from {here} to {there} is 0.",
    ),
    (Kind.REPLAY, StepName.RELEASE): Guide(
        done_when="{topics} are mirrored from {there} to {here} again, from behind the diverged records on.",
        stop_when="The marks cannot be lifted: `mmtool failover resume` does it. The groups are at home already.",
        way_back="`mmtool flow pause` holds topics, and a later failover marks them anew.",
        by_hand="See that the mirror stands behind the diverged records, take away the DENY for its principal, and"
        " start it again.",
    ),
}
"""Where it matters what becomes of diverged records."""

_OF_MODE: dict[tuple[Mode, StepName], Guide] = {
    (Mode.FAILBACK, StepName.DRAIN): Guide(
        done_when="{here} holds what {there} holds of those of {topics} that have not failed over.",
        stop_when="It takes longer than you can wait (`--timeout` ends it with 4), or a partition is halted. No offset"
        " has been written.",
        way_back="Nothing to take back: mirrored records stay, and the mirror goes on from there.",
        by_hand="Wait until the lag of the mirror that leads from {there} to {here} is 0.",
    ),
    (Mode.FAILBACK, StepName.MARK): Guide(
        done_when="{topics} are held: nothing more of them is mirrored from {there} to {here}.",
        stop_when="{here} does not take the marks. Nothing has been changed.",
        way_back="`mmtool failover cancel` lifts the marks that this operation has made.",
        by_hand="Stop everything that mirrors {topics} from {there} to {here}; a DENY for its principal makes sure.",
    ),
    (Mode.EMERGENCY, StepName.CHECK): Guide(
        done_when="Each of {groups} is Empty on {there}, and no other operation is under way. {here} is not asked.",
        stop_when="A group has members on {there}: the message names them with their hosts. Stop them, and begin"
        " again.",
        way_back=_NOTHING,
        by_hand="Describe the groups on {there}; the state must be Empty, and no member be listed.",
    ),
    (Mode.EMERGENCY, StepName.TRANSLATE): Guide(
        done_when="Every position that {there} knows of has its offset, as the table above shows.",
        stop_when="An offset is refused: the reason says why, and what helps. The marks are taken back.",
        way_back=_NOTHING,
        by_hand="Take the offsets of the table above; they are as good as what {there} was told last.",
    ),
}


def guide_of(mode: Mode, name: StepName, diverged: Diverged = TO_FILE) -> Guide:
    """The texts of a step, as they hold in a mode, and for what becomes of diverged records."""
    return _OF_CHOICE.get((diverged.kind, name), _OF_MODE.get((mode, name), GUIDES[name]))
