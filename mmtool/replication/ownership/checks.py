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
from mmtool.plan.words import counted, flow_options, named_topics
from mmtool.replication.topics.origins import Origins
from mmtool.runtime.threads import in_thread
from mmtool.translation.names import topic_part

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.plan.records.documents import PositionRecord
    from mmtool.plan.records.marks import FailedOverRecord
    from mmtool.replication.driver.context import FlowContext

_NAMED = 3


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
    await origins.read_on()
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


async def check_stored(flow: FlowContext, matched: Callable[[], Awaitable[Collection[str]]]) -> None:
    """Refuse a flow whose topics have all failed over, or whose mirrored topics would change their names.

    Args:
        flow: The flow.
        matched: Returns the source's topics that its filter accepts.

    Raises:
        RefusedError: either is the case, or the flow's stored state cannot be read.
    """
    state = KafkaFlowState(flow.settings.target)
    control = await in_thread(state.control, flow.identity)
    marks = control.failed_over
    refuse_changed_names(flow.settings, control.positions.values(), marks)
    if marks and (refusal := all_failed_over(flow.identity.name, await matched(), marks)):
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


def refuse_changed_names(
    flow: FlowSettings, positions: Iterable[PositionRecord], spared: Container[str]
) -> None:
    """Refuse a flow if a topic that it has mirrored would get another name on the target.

    Args:
        flow: The flow's present settings.
        positions: The flow's recorded positions.
        spared: Source topics that have failed over: they are not mirrored.

    Raises:
        RefusedError: a name would change; the message has both names of the first topics.
    """
    changed = {topic: name for topic, name in changed_names(flow, positions).items() if topic not in spared}
    if changed:
        raise names_refusal(flow, changed, f"; or, {under_new_names(flow, list(changed))}")


def changed_names(flow: FlowSettings, positions: Iterable[PositionRecord]) -> dict[str, str]:
    """Recorded target names, by source topic, of the topics to which the settings now give other names.

    Args:
        flow: The flow's present settings.
        positions: The flow's recorded positions.
    """
    on_record = {position.topic: position.target_topic for position in positions}
    return {
        topic: remote
        for topic, remote in sorted(on_record.items())
        if flow.mirrors_topic(topic) and flow.remote_topic(topic) != remote
    }


def names_refusal(flow: FlowSettings, changed: Mapping[str, str], otherwise: str = "") -> RefusedError:
    """The error with both names of the first topics, and with how to keep the recorded ones.

    Args:
        flow: The flow's present settings.
        changed: As `changed_names` returns it; not empty.
        otherwise: An alternative, as the end of the remedy.
    """
    named = [renamed_to(flow, topic, remote) for topic, remote in list(changed.items())[:_NAMED]]
    more = len(changed) - _NAMED
    renamed = "; ".join([*named, f"and {counted(more, 'more topic')}"] if more > 0 else named)
    return RefusedError(
        f"{flow.name}: topics on {flow.target.alias} would change their names: {renamed}; nothing was copied",
        remedy=f"keep the names: {_how_to_keep(flow, changed)}{otherwise}",
        code="names_changed",
    )


def renamed_to(flow: FlowSettings, topic: str, remote: str) -> str:
    """A phrase that names a source topic, its recorded target name and its new one."""
    return f"{topic} is mirrored to {remote} and would now be called {flow.remote_topic(topic)}"


def under_new_names(flow: FlowSettings, topics: Sequence[str]) -> str:
    """How topics are mirrored again under their new names, as part of a remedy.

    `flow forget` is refused as well while a recorded name differs.
    """
    one = len(topics) == 1
    which, each = (topics[0], "") if one else ("TOPIC", " for each topic")
    return (
        f"to mirror {topics[0] if one else 'the topics'} again under {'its new name' if one else 'their new names'}:"
        f" restore the former {'name' if one else 'names'}, stop `mmtool replicate`, run `mmtool flow forget"
        f" {flow_options(flow.source.alias, flow.target.alias)} --topic {which} --execute`{each}, then set the new"
        f" {'name' if one else 'names'} and start `mmtool replicate`"
    )


def _how_to_keep(flow: FlowSettings, changed: Mapping[str, str]) -> str:
    """The setting that keeps the recorded names: the source's alias if that is enough, else general advice."""
    alias = topic_part(flow.source.alias)
    if all(flow.policy.format_remote_topic(alias, topic) == remote for topic, remote in changed.items()):
        return f"set {flow.name}.source.cluster.alias = {alias}"
    return "give replication.policy.*, mmtool.topic.rename.format and the aliases their former values"
