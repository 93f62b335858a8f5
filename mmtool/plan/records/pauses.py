"""The pauses of operators; `mmtool.plan.records.holds` knows what else keeps a topic from being mirrored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.plan.records.documents import WHOLE_FLOW, PauseRecord
from mmtool.plan.words import moment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


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
