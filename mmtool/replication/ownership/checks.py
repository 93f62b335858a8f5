"""Checks before a flow starts: its clusters and names are the recorded ones, and a topic is left to mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.errors import DOCTOR_PRINTS
from mmtool.kafka.state.flow_state import KafkaFlowState
from mmtool.kafka.wire.codes import DENIED
from mmtool.plan.records.documents import State
from mmtool.plan.records.identity import PRODUCERS_TOPIC
from mmtool.plan.records.marks import FAILED_OVER_REMEDY
from mmtool.plan.words import counted, named_topics
from mmtool.replication.ownership.name_changes import refuse_changed_names
from mmtool.replication.topics.origins import Origins
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.plan.records.marks import FailedOverRecord
    from mmtool.replication.driver.context import FlowContext
    from mmtool.replication.topics.mirror_topics import MirrorTopics


async def check_identity(flow: FlowContext, warnings: list[str]) -> None:
    """Check that the aliases name the recorded clusters, and that the producer register can be read if needed.

    Raises:
        UsageError: an alias now names another cluster, or the clusters have another alias.
        RefusedError: the stored state cannot be read.
        NotAuthorisedError: the source's register of producers must be read, and is denied.
    """
    there = await flow.target.refresh(None)
    state = KafkaFlowState(flow.settings.target)
    await in_thread(state.check_aliases, flow.identity, list(there))
    await _check_shown(flow, warnings)
    origins = Origins.of(flow.settings, flow.identity, flow.source)
    if origins is None:
        return
    await origins.check()
    if origins.is_blind:
        warnings.append(
            f"{flow.identity.name}: cluster {flow.source.alias} does not let mmtool read {PRODUCERS_TOPIC}: records"
            f" that other flows mirrored to {flow.source.alias} are mirrored to {flow.target.alias} as well; if other"
            f" flows write to {flow.source.alias}, grant mmtool's principal DESCRIBE and READ on topic"
            f" {PRODUCERS_TOPIC} of {flow.source.alias}; otherwise nothing has to be done"
        )


async def _check_shown(flow: FlowContext, warnings: list[str]) -> None:
    """Name the topics that `topics` lists and the source hides: a broker does not list them for mmtool.

    Raises:
        NotAuthorisedError: `topics` lists no others.
    """
    names = flow.settings.literal_topics
    found = await flow.source.refresh(names) if names else {}
    hidden = sorted(name for name, topic in found.items() if name in names and topic.error_code in DENIED)
    if not hidden:
        return
    it, words, do = ("it", "the name", "does") if len(hidden) == 1 else ("them", "the names", "do")
    denied = (
        f"{flow.identity.name}: {named_topics(hidden)} {do} not exist on cluster {flow.source.alias}, or READ on {it}"
        " is denied"
    )
    helps = f"correct {words} in `topics`, or grant mmtool's principal READ on {it}"
    if len(hidden) == len(flow.settings.topics.include):
        raise NotAuthorisedError(denied, remedy=f"{helps}: {DOCTOR_PRINTS}")
    then = (
        ": mirroring then starts by itself"
        if flow.settings.refresh_topics
        else ". Then stop and start `mmtool replicate`: with refresh.topics.enabled = false it looks for topics only"
        " at its start"
    )
    warnings.append(f"{denied}, so mmtool does not mirror {it}; {helps}{then}")


async def check_stored(flow: FlowContext, topics: MirrorTopics) -> None:
    """Refuse a flow whose topics have all failed over, or whose mirrored topics would change their names.

    Raises:
        RefusedError: either is the case, or the flow's stored state cannot be read.
    """
    state = KafkaFlowState(flow.settings.target)
    control = await in_thread(state.control, flow.identity)
    marks = control.failed_over
    refuse_changed_names(flow.settings, control.positions.values(), marks)
    if marks and (refusal := all_failed_over(flow.identity.name, await topics.matched(), marks)):
        raise refusal


def all_failed_over(
    name: str, topics: Collection[str], marks: Mapping[str, FailedOverRecord]
) -> RefusedError | None:
    """The refusal of a flow whose topics have all failed over; None if one has not, or if there are no topics.

    Args:
        name: The flow's name.
        topics: The source's topics that its filter accepts.
        marks: The marks in force, by topic.
    """
    if not topics or not marks.keys() >= set(topics):
        return None
    last = max((marks[topic] for topic in topics), key=lambda mark: mark.since_ms)
    which = (
        f"all of its {counted(len(topics), 'topic')} have failed over; the last one, {last.topic},"
        if len(topics) > 1
        else f"its only topic, {last.topic},"
    )
    return RefusedError(
        f"flow {name} is not mirrored: {which} is {last.sentence}",
        remedy=FAILED_OVER_REMEDY,
        code=State.FAILED_OVER,
    )
