"""What keeps a topic from being mirrored: an operator's pause, or a failover's mark. They end differently."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.events import Event, Notice
from mmtool.plan.records.documents import PauseRecord, State
from mmtool.plan.records.marks import FAILED_OVER_REMEDY, FailedOverRecord
from mmtool.plan.records.pauses import Pauses, name_of, news_of, remedy_of, sentence_of
from mmtool.plan.words import are, counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.plan.records.documents import PositionRecord


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a topic is not mirrored now.

    Attributes:
        state: ``paused`` or ``failed_over``.
        what: What is held, in words for the operator.
        reason: By which operator and since when.
        remedy: What ends it.
    """

    state: State
    what: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Holds:
    """Everything that holds topics of a flow.

    A. A topic is held when it is paused, or its flow is, or it has failed over; nothing else holds it.
    B. The last record of each of these counts, and none of them ends another: resuming a topic that has failed over
       does not start it.
    C. A failed-over topic is shown as such, also when it is paused: `flow resume` does not end it.

    Attributes:
        pauses: What operators have paused, by topic id.
        failed_over: The marks in force, by the topic's name on the source.
    """

    pauses: Pauses = field(default_factory=Pauses)
    failed_over: Mapping[str, FailedOverRecord] = field(default_factory=dict)

    def with_word(self, word: PauseRecord | FailedOverRecord) -> Holds:
        """The holds after one more stored pause, resume, mark or release."""
        if isinstance(word, PauseRecord):
            return replace(self, pauses=self.pauses.with_word(word))
        others = {topic: mark for topic, mark in self.failed_over.items() if topic != word.topic}
        return replace(self, failed_over={**others, word.topic: word} if word.failed_over else others)

    def of(self, topic_id: str, topic: str) -> Hold | None:
        """The hold on a topic; None without one. A failed-over mark takes precedence over a pause."""
        mark = self.failed_over.get(topic)
        if mark is not None:
            return Hold(State.FAILED_OVER, topic, mark.sentence, FAILED_OVER_REMEDY)
        pause = self.pauses.of(topic_id)
        if pause is not None:
            return Hold(State.PAUSED, name_of(pause), sentence_of(pause), remedy_of(pause))
        return None

    def shown(self, position: PositionRecord) -> PositionRecord:
        """A position with the state and reason of the hold on its topic; unchanged without a hold.

        A halted partition stays halted under a pause, because the halt must be cleared before the pause can end. Under
        a failed-over mark it does not: nothing has to be repaired for this flow.
        """
        hold = self.of(position.topic_id, position.topic)
        if hold is None or (hold.state is State.PAUSED and position.state == State.HALTED):
            return position
        return replace(position, state=hold.state, reason=hold.reason)


def news(words: Iterable[PauseRecord | FailedOverRecord]) -> list[str]:
    """The owner's notices of stored pauses and marks: one for each pause, one for all marks of an operation."""
    said: list[str] = []
    marks: dict[FailedOverRecord, list[str]] = {}
    for word in words:
        if isinstance(word, PauseRecord):
            event = Event.PAUSED if word.paused else Event.RESUMED
            said.append(Notice(news_of(word), event, topic=word.topic, by=word.by, reason=word.reason))
        else:
            marks.setdefault(replace(word, topic=""), []).append(word.topic)
    return said + [_failover_news(mark, sorted(topics)) for mark, topics in marks.items()]


def _failover_news(mark: FailedOverRecord, topics: list[str]) -> str:
    which = f"{counted(len(topics), 'topic')} ({few(topics)}) {are(len(topics))}"
    fields = {"topics": topics, "operation": mark.operation_id, "by": mark.by}
    if mark.failed_over:
        said = f"{which} not mirrored: {mark.sentence}; {FAILED_OVER_REMEDY}"
        return Notice(said, Event.FAILED_OVER, **fields)
    said = f"{which} mirrored again: released by {mark.by} (operation {mark.operation_id})"
    return Notice(said, Event.RELEASED, **fields)
