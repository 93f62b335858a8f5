"""The internal topics of mmtool and MirrorMaker 2 on a flow's clusters, and what its config sync resets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.records.identity import JOURNAL_TOPIC, PRODUCERS_TOPIC
from mmtool.plan.topics.configs import Origin
from mmtool.rights.needs import Kind
from mmtool.rights.scope import resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.rights.needs import Side


def reset_by_sync(settings: FlowSettings, entries: Mapping[str, ConfigEntry]) -> frozenset[str]:
    """Properties whose overrides the config sync removes from a mirror, since the source topic has none of its own.

    Args:
        settings: The flow's settings.
        entries: The source topic's properties.
    """
    from mmtool.replication.topics.mirror_topics import config_rules

    rules = config_rules(settings)
    if not settings.sync_topic_configs or rules.defaults_from == "source":
        return frozenset()
    return frozenset(
        name
        for name, entry in entries.items()
        if entry.origin is Origin.DEFAULT and entry.carried and rules.accepts(name)
    )


def by_config_sync(mirror: str) -> str:
    """The clause that says why a property has to be set on the source topic, and not on its mirror."""
    return (
        f"config sync copies only values that are set on the source topic, and removes others from {mirror}"
    )


def own_topics(identity: FlowIdentity) -> tuple[str, ...]:
    """The names of mmtool's internal topics on the target."""
    return (identity.control_topic, identity.runs_topic, PRODUCERS_TOPIC, JOURNAL_TOPIC)


def mm2_topics(flow: ExaminedFlow, side: Side) -> tuple[str, ...]:
    """MM2's internal topics that the flow writes on one side, as the file switches them on."""
    kinds = (Kind.OFFSET_SYNCS,) if side == "source" else (Kind.OFFSET_SYNCS, Kind.CHECKPOINTS)
    return tuple(name for kind in kinds for name, _ in resources(flow.settings, side, kind))
