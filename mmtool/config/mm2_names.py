"""Names that MirrorMaker 2's Connect workers have for a flow: their groups, and the topics of their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.translation.names import topic_part

if TYPE_CHECKING:
    from mmtool.config.settings import FlowSettings

STRIMZI_GROUP = "mirrormaker2-cluster"
"""The default group of the Connect workers that Strimzi's operator runs for a KafkaMirrorMaker2 resource."""

STRIMZI_POSITIONS = "mirrormaker2-cluster-offsets"
"""The default topic in which Strimzi's Connect workers store source positions."""


def positions_topics(flow: FlowSettings) -> list[str]:
    """Topics on the target in which Connect may store MM2's positions of a flow; the likeliest first.

    The name from the properties file, dedicated MM2's (whose dots follow no separator: MirrorMakerConfig), and
    Strimzi's.
    """
    own = [] if flow.mm2_offsets_topic is None else [flow.mm2_offsets_topic]
    return list(dict.fromkeys([*own, positions_topic(flow.source.alias), STRIMZI_POSITIONS]))


def positions_topic(source_alias: str) -> str:
    """The topic in which dedicated MM2 stores a source's positions by default."""
    return f"mm2-offsets.{topic_part(source_alias)}.internal"


def workers_groups(flow: FlowSettings) -> list[str]:
    """Groups on the target that MM2's workers of a flow may be members of; the likeliest first.

    The name from the properties file, dedicated MM2's (`MirrorMakerConfig.workerConfig`), the same by the target's
    alias, since the file at the other site may give this source that alias, and Strimzi's.
    """
    own = [] if flow.mm2_group is None else [flow.mm2_group]
    names = [f"{flow.source.alias}-mm2", f"{flow.target.alias}-mm2", STRIMZI_GROUP]
    return list(dict.fromkeys([*own, *names]))
