"""Explain why waiting for a mirror does not help: its partitions are halted, held or refused."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.insight.partitions import refused_topics
from mmtool.plan.flow.partition_rows import STILL
from mmtool.plan.records.documents import State
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.groups.offsets import GroupPlan, Verdict

_NOT_THERE_YET = frozenset({Reason.NEVER_RAN, Reason.BEYOND_MIRROR})


def standstill(flow: FlowNow, plans: Iterable[GroupPlan]) -> list[str]:
    """A sentence for each partition that is halted, and each refused one that is held or refused by the owner.

    Waiting for their mirror does not help, and a drain of records that they lack is refused.

    Args:
        flow: The flow; of a chain its first one.
        plans: The translations, with their refusals.

    Raises:
        UnreachableError, NotAuthorisedError: The target stopped answering, or denies a part.
    """
    verdicts = [verdict for plan in plans for verdict in plan.verdicts]
    of_all = _places(verdicts)
    refused = _places(verdict for verdict in verdicts if verdict.refusal in _NOT_THERE_YET)
    return list(_said(flow, of_all, refused)) if of_all else []


def _places(verdicts: Iterable[Verdict]) -> set[TopicPartition]:
    return {place for verdict in verdicts for place in (verdict.source, verdict.target) if place}


def _said(
    flow: FlowNow, of_all: Collection[TopicPartition], refused: Collection[TopicPartition]
) -> Iterator[str]:
    """Sentences about partitions in every flow of a chain; they are named as on the first and the last cluster."""
    with suppress(RefusedError):  # an answer that needs no control topic is given without one
        control, name = flow.clusters.state.control(flow.identity), flow.clusters.settings.name
        topics = {place.topic for place in refused}
        yield from (said for topic, said in refused_topics(flow, control).items() if topic in topics)
        for _, at in sorted(control.positions.items(), key=lambda item: (item[1].topic, item[1].partition)):
            ends = {TopicPartition(at.topic, at.partition), TopicPartition(at.target_topic, at.partition)}
            if at.state in STILL and not ends.isdisjoint(of_all if at.state == State.HALTED else refused):
                yield f"{at.topic}-{at.partition} of {name} is {at.state}: {at.reason}"
    if flow.then is not None:
        yield from _said(flow.then, of_all, refused)
