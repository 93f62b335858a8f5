"""Refuse a flow if the file gives its mirrored topics other names on the target than recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.plan.words import counted, flow_options
from mmtool.translation.names import topic_part

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.plan.records.documents import PositionRecord

_NAMED = 3


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
