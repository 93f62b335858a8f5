"""Write an operation's journal entries: to the target's journal topic first, then to a local file."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from mmtool import __version__
from mmtool.errors import MmtoolError, OwnedElsewhereError
from mmtool.failover.operation.operation import StepState, TakenUpError
from mmtool.failover.operation.records import in_journal_order, recorded
from mmtool.failover.operation.states import OperationState, Trigger
from mmtool.output import warn
from mmtool.plan.failover.acl_promotion import promotion_body
from mmtool.plan.failover.choices import TO_FILE, Unknowns
from mmtool.plan.failover.fence_plan import fence_body
from mmtool.plan.failover.tail_progress import begun_body, written_body
from mmtool.plan.records.journal import EntryKind, JournalEntry, group_body
from mmtool.plan.words import counted
from mmtool.runtime.files import state_root
from mmtool.translation.types import or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.failover.commits.write import Written
    from mmtool.failover.operation.operation import Operation, StepLog
    from mmtool.failover.operation.records import Figures, Recorded
    from mmtool.plan.failover.acl_promotion import Promotion
    from mmtool.plan.failover.fence_plan import Fence
    from mmtool.plan.failover.risks import Risk
    from mmtool.plan.failover.steps import Step
    from mmtool.plan.failover.tail_progress import Begun, Parts
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.plan.words import Names
    from mmtool.translation.types import ClusterId, TopicPartition, Unknown


@dataclass(slots=True)
class LocalCopy:
    """One operation's journal entries in a local file; a failed write is reported once and is no error."""

    _deaf: bool = False

    def write(self, operation_id: str, entries: Sequence[JournalEntry]) -> None:
        """Append entries to the file, one per line, and sync it to disk; warn once if that fails."""
        path = state_root() / "journal" / f"{operation_id}.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.writelines(entry.encode() + b"\n" for entry in entries)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if not self._deaf:
                warn(
                    f"the copy of the journal on this host, {path}, cannot be written: {error.strerror}; the operation"
                    " continues, and is recorded on the target"
                )
            self._deaf = True


_ALONE_SECONDS = 5.0
"""For how long after this process's last entry no other process can have got the operation lock, in seconds.

It is half of a session timeout.
"""


class JournalPort(Protocol):
    """The journal of a target."""

    def append(self, entries: Sequence[JournalEntry]) -> None:
        """Append entries in order; when this returns, all in-sync replicas have them.

        Raises:
            UnreachableError, NotAuthorisedError: The cluster does not accept them.
        """

    def entries(self) -> Sequence[JournalEntry]:
        """All entries of the journal, in the order in which they were written.

        Raises:
            RefusedError: An entry that cannot be read (``unreadable_state``).
            UnreachableError, NotAuthorisedError: The cluster does not show them.
        """


@dataclass(frozen=True, slots=True)
class About:
    """An operation's description in its first journal entry.

    Attributes:
        source_id: UNKNOWN where the source does not answer and its id was never stored.
        groups: The groups that move.
        reason: Why, in the operator's words.
        by: The operator, as ``user@host``.
        unknowns: The operator's choice for partitions where a group's offset is unknown.
    """

    names: Names
    source_id: ClusterId | Unknown
    target_id: ClusterId
    groups: tuple[str, ...]
    reason: str
    by: str
    unknowns: Unknowns = Unknowns.LEAVE


@dataclass(slots=True)
class Journalist:
    """A `StepLog` that writes each step to the journal, and the journal's other entries.

    A. Entries are in order: they are numbered, and each is stored before the next is written.
    B. No entry overwrites another process's entry of the same operation: a process that was frozen reads first.

    Attributes:
        number: Of the last entry.
        figures: Returns the operation's results; called when it ends.
        operation: As it was last reported, or as the journal has it when it is resumed.
    """

    port: JournalPort
    about: About
    number: int = 0
    figures: Callable[[], Figures] | None = None
    clock: Callable[[], float] = time.time
    operation: Operation | None = field(default=None)
    _copy: LocalCopy = field(default_factory=LocalCopy)
    _unheard: dict[int, JournalEntry] = field(default_factory=dict)
    _alone_at: float = field(init=False)
    _checking: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._alone_at = self.clock()

    @property
    def operation_id(self) -> str:
        """The id of the operation that was last reported."""
        assert self.operation is not None
        return self.operation.plan.operation_id

    def still_ours(self) -> None:
        """Raise if another process has resumed or ended the operation; the journal is read at most every 5 s.

        One thread reads, and the others wait for it.

        Raises:
            TakenUpError: Another process has resumed or ended the operation.
            MmtoolError: As `JournalPort.entries`.
        """
        with self._checking:
            if self.operation is not None and abs(self.clock() - self._alone_at) >= _ALONE_SECONDS:
                self._all_entries()

    def _all_entries(self) -> list[JournalEntry]:
        """All entries of the journal, once no entry of this operation by another process is among them.

        The time is taken before reading: a process that is suspended during the read reads again before its next entry.

        Raises:
            TakenUpError: Another process has written an entry of this operation.
        """
        name, alone_at = self.operation_id, self.clock()
        entries = list(self.port.entries())
        if any(entry.operation_id == name and self._is_theirs(entry) for entry in entries):
            raise TakenUpError(
                f"another process resumed or ended operation {name}; this process wrote nothing more",
                remedy=f"leave the operation to that process; `mmtool failover show {name} -c FILE` shows its state",
            )
        self._alone_at = alone_at
        return entries

    def _is_theirs(self, entry: JournalEntry) -> bool:
        """Whether an entry of this operation was written by another process.

        It was if its number is above our last one, or if it is the number of an unacknowledged entry of ours with other
        content.
        """
        if entry.number > self.number:
            return True
        ours = self._unheard.get(entry.number)
        return ours is not None and ours.encode() != entry.encode()

    def began(self, operation: Operation) -> None:
        about, plan = self.about, operation.plan
        body: dict[str, Any] = {
            "mode": plan.mode,
            "source": about.names.source,
            "target": about.names.target,
            "source_id": or_none(about.source_id),
            "target_id": about.target_id,
            "groups": list(about.groups),
            "steps": [[step.name, step.sentence] for step in plan.steps],
            "released": list(plan.released),
            "marked": dict(plan.marked),
            "step_states": dict(operation.steps),
            "reason": about.reason,
            "unknown": about.unknowns,
            "version": __version__,
            "pid": os.getpid(),
        }
        if plan.fence.asked_for:
            body["fence"] = {"kind": plan.fence.kind, "watch_seconds": plan.fence.watch_seconds}
        if plan.promotion.is_asked_for:
            body["promotes"] = dict(plan.promotion.renamed.names)
        if plan.diverged != TO_FILE:
            body["diverged"] = plan.diverged.words
        if renamed := {group.group: group.renamed for group in plan.groups if group.renamed is not None}:
            body["target_groups"] = renamed
        if plan.state:
            body["state"] = list(plan.state)
        if plan.without_state:
            body["without_state"] = True
        if plan.accepts_unverified:
            body["accept_unverified"] = True
        self._write((EntryKind.BEGAN, body), operation=operation)

    def changed(self, operation: Operation, step: Step, state: StepState) -> None:
        body: dict[str, Any] = {"step": step.name, "step_state": operation.state_of(step)}
        if state is StepState.FAILED and operation.error is not None:
            body["problem"] = operation.error.message
        write = self._write if state in {StepState.RUNNING, StepState.DONE} else self._try
        write((EntryKind.STEP, body), operation=operation)

    def ended(self, operation: Operation) -> None:
        figures = {} if self.figures is None else asdict(self.figures())
        error = operation.error
        body = {
            "sentence": operation.sentence,
            "figures": figures,
            "problem": "" if error is None else error.message,
            "code": "" if error is None else error.code,
        }
        self._try((EntryKind.ENDED, body), operation=operation)

    def intends(self, plans: Iterable[GroupPlan], risks: Mapping[tuple[str, TopicPartition], Risk]) -> None:
        """Record the planned offset of each group and its current one; all in-sync replicas have it on return."""
        of_group: dict[str, dict[tuple[str, TopicPartition], Risk]] = {}
        for (group, place), risk in risks.items():
            of_group.setdefault(group, {})[group, place] = risk
        self._write(*((EntryKind.GROUP, dict(group_body(p, of_group.get(p.group, {})))) for p in plans))

    def fenced(self, fence: Fence, *, stands: bool) -> None:
        """Record a fence as up (``stands``) before it is raised, or as lowered after that.

        A lowered fence stays lowered even if that cannot be recorded; then this warns instead of raising.
        """
        write = self._write if stands else self._try
        write((EntryKind.FENCE, fence_body(fence, stands=stands)))

    def promoted(self, promotion: Promotion, *, stands: bool) -> None:
        """Record a change of producers' ACLs (``stands``) before it is made, or as undone after that, as `fenced`."""
        write = self._write if stands else self._try
        write((EntryKind.ACLS, promotion_body(promotion, stands=stands)))

    def salvages(self, begun: Begun) -> None:
        """Record which diverged records will be written; on return, all in-sync replicas have that record."""
        self._write((EntryKind.TAIL, begun_body(begun)))

    def salvaged(self, written: Mapping[TopicPartition, Parts]) -> None:
        """Record which diverged records are written, once none of them is in flight."""
        self._write((EntryKind.TAIL, written_body(written)))

    def settled(self, results: Iterable[Written]) -> None:
        """Record the outcome of each group's commits."""
        bodies = [
            {
                "group": result.group,
                "outcome": result.outcome.value,
                "written": sorted(list(place) for place in result.written),
                "known": not result.unknown,
                "problems": list(result.problems),
            }
            for result in results
        ]
        self._write(*((EntryKind.OUTCOME, body) for body in bodies))

    def open_others(self, groups: Collection[str]) -> list[Recorded]:
        """Other open operations on these groups, without those that started later and have written no offset.

        Those left out do not get the operation lock. The journal's order decides which operation started first, as
        hosts' clocks differ.

        Raises:
            OwnedElsewhereError: An operation on these groups was completed since this one started, so its plan is
                stale.
            TakenUpError: Another process has resumed this operation.
        """
        entries, name = self._all_entries(), self.operation_id
        found = {one.operation_id: one for one in recorded(entries)}
        del found[name]
        wanted = set(groups)
        same = [one for one in found.values() if wanted & set(one.group_names)]
        before, since = _parted(entries, name)
        later = since - before
        for one in same:
            if one.state is OperationState.COMPLETED and one.operation_id in since:
                raise OwnedElsewhereError(
                    f"operation {one.operation_id} ({one.mode}) by {one.by} moved some of the same groups"
                    " meanwhile; this operation committed no offset",
                    remedy=f"`mmtool failover show {one.operation_id} -c FILE` shows which groups; start a new"
                    " operation with -g for each of the other groups",
                )
        waits = {one.operation_id for one in same if not one.head.point_of_no_return_passed} & later
        return [one for one in same if one.is_open and one.operation_id not in waits]

    def of_flow(self) -> list[Recorded]:
        """Every operation on the same flow, including this one, in the journal's order."""
        return [one for one in in_journal_order(self.port.entries()) if one.names == self.about.names]

    def told_since(self) -> list[Recorded]:
        """Operations on the same flow that have entries since this one started, by the journal's order."""
        entries = self._all_entries()
        _, since = _parted(entries, self.operation_id)
        found = recorded(entry for entry in entries if entry.operation_id in since)
        return [one for one in found if one.names == self.about.names]

    def supersede(self, other: Recorded) -> None:
        """End an operation that has written no offset: this one replaces it, and already has its marks."""
        ours = self.operation_id
        ended = replace(other.head.after(Trigger.CANCEL), sentence=f"superseded by operation {ours}")
        if other.fence_stands:  # by an emergency: what keeps producers off a source that is lost does no harm
            warn(
                f"the fence of operation {other.operation_id} on {other.names.source} stays:"
                f" `mmtool failover show {other.operation_id} -c FILE` says how to lift it"
            )
        if other.promotion_stands:
            warn(
                f"the producers' ACLs that operation {other.operation_id} changed on {other.names.target} stay"
                f" changed: `mmtool failover show {other.operation_id} -c FILE` says how to undo that"
            )
        if other.may_have_marked and other.names != self.about.names:
            warn(
                f"topics that operation {other.operation_id} marked as failed over on {other.names.flow}"
                f" stay marked: `mmtool failover release -c FILE -s {other.names.source} -t {other.names.target}"
                " --execute` lets `mmtool replicate` mirror them again"
            )
        if other.tail is not None:
            warn(
                f"operation {other.operation_id} may have written some of its"
                f" {counted(other.tail.records, 'diverged record')} (--diverged {other.head.plan.diverged.words}): a"
                " later failback finds these records again, so give that failback an empty topic or --diverged file"
            )
        Journalist(self.port, self.about, other.entries, clock=self.clock).ended(ended)

    def _try(self, told: tuple[EntryKind, dict[str, Any]], operation: Operation | None = None) -> None:
        """Write an entry about something that already happened; warn if it cannot be written."""
        try:
            self._write(told, operation=operation)
        except TakenUpError:
            raise
        except MmtoolError as error:
            name = self.operation_id
            warn(
                f"the last change of operation {name} was made, but is not recorded in the journal: {error.message};"
                f" `mmtool failover show {name} -c FILE` shows the state before that change, and the commands that can"
                " follow"
            )

    def _write(self, *told: tuple[EntryKind, dict[str, Any]], operation: Operation | None = None) -> None:
        """Write entries about the operation that was last reported, or that is reported now."""
        operation = operation or self.operation
        assert operation is not None
        self.operation = operation
        self.still_ours()
        alone_at, standing = self.clock(), operation.standing
        entries = [
            JournalEntry(
                operation.plan.operation_id,
                self.number + count,
                kind,
                int(alone_at * 1000),
                self.about.by,
                standing.state,
                operation.point_of_no_return_passed,
                body,
            )
            for count, (kind, body) in enumerate(told, 1)
        ]
        self._unheard |= {entry.number: entry for entry in entries}
        try:
            self.port.append(entries)
            self._alone_at, self._unheard = alone_at, {}
        finally:
            self.number += len(entries)
            self._copy.write(operation.plan.operation_id, entries)


@dataclass(frozen=True, slots=True)
class Both:
    """A `StepLog` that calls two others: the first one has recorded a step before the second is called."""

    first: StepLog
    second: StepLog

    def began(self, operation: Operation) -> None:
        self.first.began(operation)
        self.second.began(operation)

    def changed(self, operation: Operation, step: Step, state: StepState) -> None:
        self.first.changed(operation, step, state)
        self.second.changed(operation, step, state)

    def ended(self, operation: Operation) -> None:
        self.first.ended(operation)
        self.second.ended(operation)


def _parted(entries: Sequence[JournalEntry], name: str) -> tuple[set[str], set[str]]:
    """The ids of operations with entries before an operation started, and of those with entries since."""
    names = [entry.operation_id for entry in entries]
    began = names.index(name)
    return set(names[:began]), set(names[began:])
