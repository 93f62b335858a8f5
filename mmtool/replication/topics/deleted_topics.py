"""Deleted and recreated topics, of the source and of the target.

With ``mmtool.on.topic.recreated = restart``, mirrors whose target topic was deleted start at ``mmtool.start``. Their
offset runs get tombstones first, under the shards' claims and before the first round, when no other process writes
there. What a crash leaves: some of a topic's partitions without offset runs; the next start does the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from mmtool.kafka.state.state_log import read_blocks
from mmtool.plan.records.documents import position_key
from mmtool.plan.records.identity import shard_of
from mmtool.plan.topics.disappearance import StoredPartition, last_of_each
from mmtool.plan.topics.facts import not_the_same, source_deleted
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.topics.presence import gone_for_good
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping

    from mmtool.config import FlowSettings
    from mmtool.plan.records.documents import PositionRecord
    from mmtool.replication.driver.context import FlowContext, OwnedState, Place
    from mmtool.replication.topics.mirror_topics import TopicsView
    from mmtool.translation.blocks import Block, BlockKey, MirroredPartition


def refuse_recreated(
    view: TopicsView, on_record: Mapping[TopicId, MirroredPartition], settings: FlowSettings
) -> None:
    """Refuse topics that were recreated under their old name: their records must not follow the old ones.

    Args:
        view: The mirrored topics; recreated ones move to its refused topics, with the reason.
        on_record: Every topic that was ever mirrored, or is from now on, by topic id.
        settings: The flow's.
    """
    mirrored = defaultdict[str, set[TopicId]](set)
    for topic_id, about in on_record.items():
        mirrored[about.source_topic].add(topic_id)
    for name, topic in list(view.topics.items()):
        ids = mirrored.get(name, ())
        again, kept_in = settings.begins_again, settings.kept_in(name)
        if why := not_the_same(name, topic.topic_id, ids, begins_again=again, kept_in=kept_in):
            del view.topics[name]
            view.refused[name] = why


def refuse_unfinished(
    view: TopicsView,
    blocks: Mapping[Place, Block],
    position: Callable[[Place], PositionRecord | None],
    goal: Mapping[Place, int],
) -> None:
    """Refuse deleted source topics that were not mirrored completely; the other deleted ones need no action.

    Args:
        view: The topics of a refresh; incomplete ones move from its deleted to its refused topics.
        blocks: The last block of every partition that was ever mirrored.
        position: The last position that a worker wrote for a partition.
        goal: The source's end offsets that the run was to reach, if any.
    """
    missing: Counter[str] = Counter()
    of_deleted = {place: block for place, block in blocks.items() if block.about.source_topic in view.deleted}
    last = last_of_each(StoredPartition(block, position(place)) for place, block in of_deleted.items())
    places = {block.about.upstream: place for place, block in of_deleted.items() if place in goal}
    for place, one in last.items():
        end = goal[places[place]] if place in places else 0
        missing[place.topic] += max(one.missing, end - one.frontier)
    for topic in filter(missing.get, list(view.deleted)):
        del view.deleted[topic]
        view.refused[topic] = source_deleted(topic, missing[topic])


async def forget_deleted(
    flow: FlowContext, standing: OwnedState, count: int, kept: Container[str]
) -> list[str]:
    """Delete the stored offset runs and positions of mirrors whose target topic was deleted or recreated.

    Args:
        flow: The flow of the mirrors.
        standing: The owner's state; the deleted partitions leave it.
        count: How many shards the flow has.
        kept: Source topics whose offset runs stay: they have failed over, and a failback needs their offset runs.

    Returns:
        The names of those target topics, sorted.

    Raises:
        FencedError: another owner claimed a shard.
        UnreachableError: the target does not answer.
    """
    abouts = {place: block.about for place, block in standing.blocks.items()}
    about = {place: a for place, a in abouts.items() if a.source_topic not in kept}
    topics = await gone_for_good(flow.target, {(a.target_topic, a.target_topic_id) for a in about.values()})
    gone = {place for place, a in about.items() if (a.target_topic, a.target_topic_id) in topics}
    if gone:
        await _strike_out(flow, standing, gone, count)
    return sorted({about[place].target_topic for place in gone})


async def _strike_out(flow: FlowContext, standing: OwnedState, places: Collection[Place], count: int) -> None:
    keys: dict[int, list[BlockKey]] = defaultdict(list)
    for key in await in_thread(read_blocks, flow.settings.target, flow.identity):
        if (key.topic_id, key.partition) in places:
            keys[shard_of(key.topic_id, key.partition, count)].append(key)
    # without their positions first: those without books would look as if the books had been lost
    strikes = [position_key(*place) for place in places]
    await write_documents(flow, flow.identity.control_topic, (), tombstones=strikes)
    for shard, of_shard in keys.items():
        await store_owned(flow, standing, shard, struck_out=of_shard)
    for place in places:
        standing.forget(place)
