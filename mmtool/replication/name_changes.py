"""Topics on record whose names on the target the file has changed: nothing is mirrored a second time unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.plan.words import few
from mmtool.translation.naming import topic_part

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from mmtool.config import FlowSettings
    from mmtool.plan.documents import PositionRecord

_NAMED = 3


def refuse_changed_names(
    flow: FlowSettings, positions: Iterable[PositionRecord], spared: Container[str]
) -> None:
    """Refuses a flow of which a mirrored topic would get another name.

    Args:
        flow: Its settings now.
        positions: What the flow has mirrored.
        spared: Topics that have failed over: they are not mirrored.

    Raises:
        RefusedError: both names of the first ones are in the message.
    """
    on_record = {position.topic: position.target_topic for position in positions}
    changed = {
        topic: remote
        for topic, remote in sorted(on_record.items())
        if topic not in spared and flow.mirrors_topic(topic) and flow.remote_topic(topic) != remote
    }
    if not changed:
        return
    renamed = [
        f"{topic} is mirrored to {remote} and would now be called {flow.remote_topic(topic)}"
        for topic, remote in changed.items()
    ]
    raise RefusedError(
        f"{flow.name}: topics on {flow.target.alias} would change their names: {few(renamed, _NAMED)};"
        " nothing was copied",
        remedy=f"keep the names: {_how_to_keep(flow, changed)}; or mirror a topic again under its new name:"
        f" mmtool flow forget -s {flow.source.alias} -t {flow.target.alias} --topic {next(iter(changed))}",
        code="names_changed",
    )


def _how_to_keep(flow: FlowSettings, changed: dict[str, str]) -> str:
    """The line that gives the names on record, where the file's own alias does; else what the file must say."""
    alias = topic_part(flow.source.alias)
    if all(flow.policy.format_remote_topic(alias, topic) == remote for topic, remote in changed.items()):
        return f"{flow.name}.source.cluster.alias = {alias}"
    return "give replication.policy.* and the aliases their former values"
