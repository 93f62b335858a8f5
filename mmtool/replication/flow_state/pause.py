"""Pause and resume topics: one record in the control topic, which the flow's owner obeys.

Nothing but that record is written, so after a crash it is either there or not. A running `replicate` sees it within
a second; one that starts later reads it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.kafka.state.state_log import read_control_of_run
from mmtool.plan.flow.moves import Action, FlowRow
from mmtool.plan.records.holds import pause_words, resume_words
from mmtool.replication.driver.context import connect
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.runtime.process import now_ms, operator
from mmtool.runtime.threads import run_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.records.documents import PauseRecord


@dataclass(frozen=True, slots=True)
class PausedTopics:
    """The flow's topics after the pause or resume.

    Attributes:
        rows: One per partition of the selected topics.
        words: The records that were stored; empty when nothing had to change.
    """

    rows: list[FlowRow]
    words: tuple[PauseRecord, ...]


def pause(flow: FlowNow, reason: str) -> PausedTopics:
    """Pause the flow's selected topics; without a selection the whole flow, including topics created later.

    Raises:
        RefusedError: the flow never ran.
        UnreachableError, NotAuthorisedError: as the target answers.
    """
    control = read_control_of_run(flow.clusters.settings.target, flow.identity, "pause or resume")
    topics = {name: topic.topic_id for name, topic in flow.topics.items()}
    words = pause_words(
        topics,
        control.pauses,
        whole=not flow.narrowed,
        by=operator(),
        at_ms=now_ms(),
        reason=" ".join(reason.split()),
    )
    return _say(flow, control, words, Action.PAUSE)


def resume(flow: FlowNow) -> PausedTopics:
    """Resume the flow's selected topics; without a selection everything that is paused.

    Raises:
        RefusedError: the flow never ran, or the whole flow is paused and only some topics are selected.
        UnreachableError, NotAuthorisedError: as the target answers.
    """
    control = read_control_of_run(flow.clusters.settings.target, flow.identity, "pause or resume")
    ids = {topic.topic_id for topic in flow.topics.values()}
    try:
        words = resume_words(ids, control.pauses, whole=not flow.narrowed, by=operator(), at_ms=now_ms())
    except ValueError as error:
        raise RefusedError(
            str(error),
            remedy=f"run `mmtool flow resume {flow.identity.options}`, then `mmtool flow pause {flow.identity.options}"
            " --topic TOPIC` for each topic that must stay paused",
            code="paused",
        ) from error
    return _say(flow, control, words, Action.RESUME)


def _say(flow: FlowNow, control: ControlView, words: Sequence[PauseRecord], action: Action) -> PausedTopics:
    if words:
        run_loop(_write(flow, words))
    before = control.pauses
    for word in words:
        control.holds = control.holds.with_word(word)
    rows = []
    for _, topic in sorted(flow.topics.items()):
        hold = control.holds.of(topic.topic_id, topic.name)
        is_same = (before.of(topic.topic_id) is None) == (control.pauses.of(topic.topic_id) is None)
        for number in range(topic.partitions):
            position = control.positions.get((topic.topic_id, number))
            upstream = position.upstream_position if position else None
            shown = position.state if position else None
            rows.append(
                FlowRow(
                    source=flow.identity.source_alias,
                    target=flow.identity.target_alias,
                    topic=topic.name,
                    partition=number,
                    target_topic=position.target_topic if position else flow.remote(topic.name),
                    upstream_before=upstream,
                    upstream_after=upstream,
                    downstream_after=position.downstream_position if position else None,
                    action=Action.KEEP if is_same else action,
                    reason=hold.reason if hold else "",
                    state=hold.state if hold and shown is None else shown,
                )
            )
    return PausedTopics(rows, tuple(words))


async def _write(flow: FlowNow, words: Sequence[PauseRecord]) -> None:
    async with await connect(flow.clusters.settings) as context:
        await write_documents(context, flow.identity.control_topic, words)
