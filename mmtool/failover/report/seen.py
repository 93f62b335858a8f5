"""Build a plan's fingerprint, which shows later that it is stale, from the answers that it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.groups.offsets import Direction
from mmtool.plan.runbook.by_hand import read_from
from mmtool.plan.runbook.fingerprint import SideSeen, TopicSeen, fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.target_only import TargetNow
    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.plan.runbook.fingerprint import Fingerprint
    from mmtool.plan.topics.facts import TopicFacts


def seen_of_flow(flow: FlowNow, groups: Iterable[GroupFacts], plans: Collection[GroupPlan]) -> Fingerprint:
    """The fingerprint of a plan whose clusters both answered: a planned failover or a failback."""
    copies = {
        name: TopicSeen(topic_id, flow.target_partitions[name])
        for name, topic_id in flow.target_ids.items()
        if name in flow.target_partitions
    }
    source = SideSeen(flow.identity.source_id, _topics(flow.topics))
    target = SideSeen(flow.identity.target_id, copies)
    home = any(plan.direction is Direction.REVERSE for plan in plans)
    here, there = (target, source) if home else (source, target)
    return fingerprint_of(here, there, groups, renamed_by(plans))


def seen_of_target(now: TargetNow, plans: Iterable[GroupPlan]) -> Fingerprint:
    """The fingerprint of an emergency's plan, from the target alone: of the source it has the mirrored topics."""
    here: dict[str, TopicSeen] = {}
    for place, known in now.facts.partitions.items():
        if known.map is not None:
            count = 1 + (here[place.topic].partitions if place.topic in here else 0)
            here[place.topic] = TopicSeen(known.map.about.topic_id, count)
    return fingerprint_of(
        SideSeen(now.source_id, here),
        SideSeen(now.target_id, _topics(now.topics)),
        now.facts.groups,
        renamed_by(plans),
    )


def _topics(topics: Mapping[str, TopicFacts]) -> dict[str, TopicSeen]:
    return {name: TopicSeen(topic.topic_id, topic.partitions) for name, topic in topics.items()}


def renamed_by(plans: Iterable[GroupPlan]) -> dict[str, str]:
    """Topic names on the cluster that groups move to, by the names on the cluster that they move from."""
    found = [
        (read_from(plan, verdict), plan.written_to(verdict)) for plan in plans for verdict in plan.verdicts
    ]
    return {here.topic: there.topic for here, there in found if here is not None and there is not None}
