"""Explain why waiting for a mirror does not help: its partitions are halted, held or refused."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.insight.partitions import refused_topics
from mmtool.plan.flow.partition_rows import STILL
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.groups.offsets import GroupPlan

_NOT_THERE_YET = frozenset({Reason.NEVER_RAN, Reason.BEYOND_MIRROR})


def standstill(flow: FlowNow, plans: Iterable[GroupPlan]) -> list[str]:
    """A sentence for each refused partition that is halted, held or refused by the owner: waiting does not help.

    Args:
        flow: The flow; of a chain its first one.
        plans: The translations, with their refusals.

    Raises:
        UnreachableError, NotAuthorisedError: The target stopped answering, or denies a part.
    """
    refused = [v for plan in plans for v in plan.verdicts if v.refusal in _NOT_THERE_YET]
    places = {place for verdict in refused for place in (verdict.source, verdict.target) if place}
    return list(_said(flow, places)) if places else []


def _said(flow: FlowNow, places: Collection[TopicPartition]) -> Iterator[str]:
    """Sentences about ``places`` in every flow of a chain; ``places`` are the first and last cluster's partitions."""
    with suppress(RefusedError):  # an answer that needs no control topic is given without one
        control, name = flow.clusters.state.control(flow.identity), flow.clusters.settings.name
        topics = {place.topic for place in places}
        yield from (said for topic, said in refused_topics(flow, control).items() if topic in topics)
        for _, at in sorted(control.positions.items(), key=lambda item: (item[1].topic, item[1].partition)):
            ends = {TopicPartition(at.topic, at.partition), TopicPartition(at.target_topic, at.partition)}
            if at.state in STILL and not ends.isdisjoint(places):
                yield f"{at.topic}-{at.partition} of {name} is {at.state}: {at.reason}"
    if flow.then is not None:
        yield from _said(flow.then, places)
