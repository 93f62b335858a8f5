"""What is refused before anything starts: flows that would repeat records, or write into one topic."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.plan.topology import Edge, repetition
from mmtool.translation.naming import RenamePolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mmtool.config import FlowSettings

_LITERAL = re.compile(r"[\w.-]+", re.ASCII)


def refuse_conflicts(enabled: Sequence[FlowSettings]) -> None:
    """Refuses flows that do not go together, as far as the file tells.

    Args:
        enabled: All that the file enables, whichever of them this process runs.

    Raises:
        UsageError: as `refuse_repetition` and `refuse_meeting`.
    """
    refuse_repetition(enabled)
    refuse_meeting(enabled)


def refuse_repetition(flows: Iterable[FlowSettings]) -> None:
    """Refuses flows with identical names on which a record would come to one cluster twice.

    Args:
        flows: All that the file enables, whichever of them this process runs.

    Raises:
        UsageError: they would; the two routes are named.
    """
    keeping = [flow for flow in flows if flow.keeps_names]
    for topic in _sorts_of_topics(keeping):
        routes = repetition(_edge(flow) for flow in keeping if _may_carry(flow, topic))
        if routes is not None:
            raise _repeats(*routes)


def refuse_meeting(flows: Iterable[FlowSettings]) -> None:
    """Refuses flows whose rename formats would lead topics of two sources into one topic.

    Identical names are another matter: there, one topic for all is what was asked for.

    Raises:
        UsageError: they would; the formats do not name the source.
    """
    renaming = [flow for flow in flows if isinstance(flow.policy, RenamePolicy)]
    for one, other in combinations(renaming, 2):
        if one.target.alias == other.target.alias and (name := _common_name(one, other)):
            raise UsageError(
                f"mmtool.topic.rename.format: {one.name} and {other.name} would both write to topic {name}",
                remedy="put ${source} into the format",
                code="names_meet",
            )


def _common_name(one: FlowSettings, other: FlowSettings) -> str | None:
    """What both flows would call a topic that both may carry."""
    for topic in _sorts_of_topics((one, other)):
        example = topic or "TOPIC"
        remote = one.remote_topic(example)
        if remote == other.remote_topic(example) and _may_carry(one, topic) and _may_carry(other, topic):
            return remote
    return None


def _sorts_of_topics(flows: Iterable[FlowSettings]) -> list[str | None]:
    """Every topic that is named outright, and None for whatever a pattern may mean."""
    named = {name for flow in flows for name in flow.topics.include if _LITERAL.fullmatch(name)}
    return [None, *sorted(named)]


def _may_carry(flow: FlowSettings, topic: str | None) -> bool:
    if topic is not None:
        return flow.topics.accepts(topic)
    return not all(map(_LITERAL.fullmatch, flow.topics.include))


def _edge(flow: FlowSettings) -> Edge:
    return Edge(flow.source.alias, flow.target.alias, flow.origins)


def _repeats(first: tuple[str, ...], second: tuple[str, ...]) -> UsageError:
    where = second[-1]
    ways = "->".join(second) if len(first) == 1 else f"{'->'.join(first)} and {'->'.join(second)}"
    return UsageError(
        f"identical topic names: a record of {second[0]} would come to {where} again by {ways}",
        remedy="set mmtool.origins = local for a full mesh, disable a flow, or use DefaultReplicationPolicy",
        code="loop",
    )
