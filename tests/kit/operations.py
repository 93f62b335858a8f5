"""What an operation is kept by, in memory; and faults at the places where a process may die.

``tests/contract/test_journal_contract.py`` runs the same promises on these and on a real broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kit.clusters import Mortal
from mmtool.errors import OwnedElsewhereError
from mmtool.failover.operation.journal import Both
from mmtool.kafka.state.log_reader import unreadable
from mmtool.plan.records.documents import UnreadableDocumentError
from mmtool.plan.records.identity import JOURNAL_TOPIC
from mmtool.plan.records.journal import JournalEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kit.clusters import FakeFlowState
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.operation.operation import StepLog
    from mmtool.failover.report.report import NextStep
    from mmtool.plan.records.documents import Document
    from mmtool.translation.types import TopicPartition


def lines_of(steps: Sequence[NextStep]) -> str:
    """What an operator does next, as text."""
    return "\n".join(line for step in steps for line in (step.sentence, *step.commands))


@dataclass
class FakeJournal(Mortal):
    """A `JournalPort`: bytes by key, as a compacted topic keeps them."""

    stored: dict[bytes, bytes] = field(default_factory=dict)

    def append(self, entries: Sequence[JournalEntry]) -> None:
        self.answer()
        self.stored |= {entry.key: entry.encode() for entry in entries}

    def entries(self) -> list[JournalEntry]:
        self.answer()
        return [self._read(number, value) for number, value in enumerate(self.stored.values())]

    def _read(self, number: int, value: bytes) -> JournalEntry:
        try:
            return JournalEntry.decode(value)
        except UnreadableDocumentError as error:
            raise unreadable(JOURNAL_TOPIC, 0, number, str(error)) from error


@dataclass
class FakeMarks(Mortal):
    """A `MarksPort` on what a flow has stored.

    Attributes:
        failed_over: Topics of the source that are marked.
        moved: Groups that are at home on the target.
    """

    state: FakeFlowState
    promoted: set[TopicPartition] = field(default_factory=set)

    def write(self, marks: Sequence[Document]) -> None:
        self.answer()
        self.state.marked(*marks)

    def promote(self, places: Collection[TopicPartition]) -> None:
        self.promoted |= set(places)

    @property
    def failed_over(self) -> set[str]:
        return set(self.state.view.failed_over)

    @property
    def moved(self) -> set[str]:
        return set(self.state.view.moved)


@dataclass(eq=False)
class FakeLock(Mortal):
    """An `LockPort` that is free, or is not.

    Attributes:
        name: Whom others find in it.
        queue: Everybody who wants the same lock; the first one has it.
    """

    name: str = "operator-1"
    queue: list[FakeLock] = field(default_factory=list)

    def begin(self) -> None:
        self.join()

    def join(self) -> None:
        if self not in self.queue:
            self.queue.append(self)

    def hold(self) -> None:
        self.answer()
        self.join()
        if self.queue[0] is not self:
            raise OwnedElsewhereError(
                f"another operation on flow east->west is running: {self.queue[0].name}"
            )

    def is_taken(self) -> bool:
        return self.failure is not None or bool(self.queue and self.queue[0] is not self)

    def leave(self) -> None:
        if self in self.queue:
            self.queue.remove(self)


def heard(context: OperationContext, log: StepLog) -> OperationContext:
    """The context of an operation whose words another one hears as well, behind the journal."""
    return replace(context, log=Both(context.journal, log))


class KilledError(BaseException):
    """The process is gone: nothing after this is done, no error is handled."""


@dataclass
class Killing:
    """A `StepLog` under which the process dies at the ``number``-th word, counted from 1."""

    number: int

    def _word(self, *_: object) -> None:
        self.number -= 1
        if self.number == 0:
            raise KilledError

    began = changed = ended = _word
