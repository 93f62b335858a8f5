"""What keeps a topic from being mirrored: an operator's pause, or a failover's mark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mmtool.events import Event, Notice
from mmtool.plan.records.documents import WHOLE_FLOW, PauseRecord, PositionRecord, State
from mmtool.plan.records.marks import FAILED_OVER_REMEDY, FailedOverRecord
from mmtool.plan.words import are, counted, few, moment


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses in force, by topic id or `WHOLE_FLOW`.

    A. A topic is paused when it, or the whole flow, is; nothing else pauses it.
    B. The last word about a topic, or about the flow, counts.
    """

    marks: Mapping[str, PauseRecord] = field(default_factory=dict)

    def with_word(self, word: PauseRecord) -> Pauses:
        """The pauses after one more pause or resume of an operator."""
        others = {key: mark for key, mark in self.marks.items() if key != word.topic_id}
        return Pauses({**others, word.topic_id: word} if word.paused else others)

    def of(self, topic_id: str) -> PauseRecord | None:
        """The pause of a topic: of the whole flow, or else of the topic itself; None without one."""
        return self.marks.get(WHOLE_FLOW) or self.marks.get(topic_id)


def sentence_of(mark: PauseRecord) -> str:
    """A pause's operator, time and reason, as a sentence."""
    said = f"paused by {mark.by} since {moment(mark.since_ms)}"
    return f"{said}: {mark.reason}" if mark.reason else said


def news_of(word: PauseRecord) -> str:
    """A pause or resume as a sentence of the owner's notices."""
    if word.paused:
        return f"{name_of(word)} is {sentence_of(word)}; {remedy_of(word)}"
    return f"{name_of(word)} is resumed by {word.by}"


def remedy_of(mark: PauseRecord) -> str:
    """The command that ends a pause, as a sentence."""
    if mark.topic_id == WHOLE_FLOW:
        return "`mmtool flow resume -c FILE` resumes every paused topic of the flow"
    return f"`mmtool flow resume -c FILE --topic {mark.topic}` resumes it"


def name_of(mark: PauseRecord) -> str:
    """The paused topic's name, or ``the whole flow``."""
    return "the whole flow" if mark.topic_id == WHOLE_FLOW else mark.topic


def pause_words(
    topics: Mapping[str, str], pauses: Pauses, *, whole: bool, by: str, at_ms: int, reason: str
) -> list[PauseRecord]:
    """The records to store to pause these topics; none for topics that are paused already.

    Args:
        topics: Topic ids by name.
        pauses: The pauses in force; they stay as they are.
        whole: Pause the whole flow instead, topics of the future included.
        by: The operator, as ``user@host``.
        at_ms: The time, in ms since 1970.
        reason: The operator's reason; perhaps empty.
    """
    wanted = {WHOLE_FLOW: ""} if whole else {topic_id: name for name, topic_id in topics.items()}
    return [
        PauseRecord(topic_id, name, paused=True, by=by, since_ms=at_ms, reason=reason)
        for topic_id, name in wanted.items()
        if topic_id not in pauses.marks
    ]


def resume_words(
    topic_ids: Collection[str], pauses: Pauses, *, whole: bool, by: str, at_ms: int
) -> list[PauseRecord]:
    """The records to store to resume these topics; with ``whole``, they end every pause of the flow.

    Raises:
        ValueError: The whole flow is paused, and only some topics should resume; the message is for the operator.
    """
    if not whole and WHOLE_FLOW in pauses.marks:
        raise ValueError(f"the whole flow is {sentence_of(pauses.marks[WHOLE_FLOW])}")
    return [
        replace(mark, paused=False, by=by, since_ms=at_ms, reason="")
        for key, mark in pauses.marks.items()
        if whole or key in topic_ids
    ]


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
