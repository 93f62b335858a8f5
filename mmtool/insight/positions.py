"""Translate positions that no group has committed, from live clusters; without the source from the target alone.

The order of the requests is that of `mmtool.insight.translation`: the positions are known before anything is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mmtool.errors import UnreachableError
from mmtool.insight.external_mirror import with_compared
from mmtool.insight.flow_now import FlowClusters, FlowNow, outages
from mmtool.insight.partitions import partition_facts, standstill
from mmtool.insight.target_only import TargetSide, look_at_target
from mmtool.insight.translation import Translation, look_along, refined
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.offsets import Direction, GroupPlan, Rules, ever_ran
from mmtool.plan.groups.positions import plan_positions
from mmtool.translation.types import TopicPartition


def translate_positions(
    chain: Sequence[FlowClusters],
    side: Callable[[], TargetSide],
    positions: Mapping[TopicPartition, int],
    rules: Rules,
    *,
    refine: bool = False,
    every_partition: bool = False,
) -> Translation:
    """Translate positions: one plan without a group's name, with a verdict for each position in their order.

    Args:
        chain: The flow, or the flows of a chain.
        side: The connections to the target of a flow whose source does not answer.
        positions: The next offset to read in each partition, by the topic's name where they are read.
        rules: The direction, and what is allowed.
        refine: Compare records where MM2's syncs give only bounds.
        every_partition: As for `plan_positions`.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster whose answer is needed does not answer, or denies a part.
        RefusedError: Stored state that cannot be read.
        UsageError: As `look`.
    """
    if len(chain) == 1:
        source, target = outages(chain[0])
        needed = target or (source if refine else None)
        if needed is not None:
            raise needed
        if source is not None:
            return _by_target(chain[0], side(), positions, rules, source, every_partition=every_partition)
    flow, warnings = look_along(chain), list[str]()
    partitions = partition_facts(flow, rules.direction, warnings, topics={place.topic for place in positions})
    if flow.clusters.settings.is_external:
        partitions = dict(with_compared(flow, partitions, positions.items(), rules.direction))
    rules = replace(rules, sides=flow.sides(rules.direction))

    def planned() -> GroupPlan:
        mirrors = flow.clusters.settings.mirrors_topic
        return plan_positions(positions, partitions, rules, mirrors, every_partition=every_partition)

    plan = planned()
    if refine:
        partitions = refined(flow, partitions, [plan], warnings)
        plan = planned()
    warnings += standstill(flow, [plan])
    ran = ever_ran(partitions.values()) or flow.then is not None
    return Translation(flow, rules, (plan,), tuple(warnings), ran)


def _by_target(
    clusters: FlowClusters,
    side: TargetSide,
    positions: Mapping[TopicPartition, int],
    rules: Rules,
    away: UnreachableError,
    *,
    every_partition: bool,
) -> Translation:
    """The translation by what the target has stored; the error of the source where that is nothing."""
    settings = clusters.settings
    now = look_at_target(side, GroupSelection(matching=lambda _: False), int(time.time() * 1000))
    if not ever_ran(now.facts.partitions.values()):
        raise away
    flow = FlowNow(clusters, now.identity, {}, target_topics=now.topics)
    rules = replace(rules, sides=flow.sides(rules.direction), source_asked=False)
    # where producers write on both clusters, the runs of the reverse flow are on the source
    facts = (replace(one, has_others=now.facts.born_there) for one in now.facts.partitions.values())

    def may_mirror(topic: str) -> bool:
        name = topic if rules.direction is Direction.FORWARD else settings.source_topic(topic)
        return name is not None and settings.mirrors_topic(name)

    partitions = {one.place(rules.direction): one for one in facts}
    plan = plan_positions(positions, partitions, rules, may_mirror, every_partition=every_partition)
    told = f"{away}; the offsets are translated by what {settings.target.alias} has stored"
    return Translation(flow, rules, (plan,), (told,))
