"""The topics that a flow mirrors now, and their mirrors on the target: new, grown, deleted and recreated ones."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.events import Event, Notice
from mmtool.kafka.admin.topics import TopicAdmin, TrialResult
from mmtool.kafka.state.state_log import read_block_keys
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.kafka.wire.metadata import LATEST, TopicMetadata
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plan.records.documents import PositionRecord, position_key
from mmtool.plan.records.identity import PRODUCERS_TOPIC, shard_of
from mmtool.plan.topics.configs import ConfigAdjustment, ConfigEntry, TargetLimits, adjustment_sentences
from mmtool.plan.topics.disappearance import StoredPartition, last_of_each
from mmtool.plan.topics.facts import (
    AT_NEXT_REFRESH,
    BEGIN_AGAIN,
    CreateTopic,
    GrowTopic,
    HaltReason,
    TopicFacts,
    configs_hidden,
    meeting,
    not_the_same,
    plan_topics,
    restarting,
    source_deleted,
    source_denied,
    taken_names,
    target_denied,
    what_helps,
)
from mmtool.plan.topics.requirements import NOT_CREATED
from mmtool.plan.words import counted
from mmtool.replication.ownership.checks import under_new_names
from mmtool.replication.ownership.internal_topics import short_of_replicas, write_documents
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.topics.presence import AbsenceCheck, gone_for_good, presence_of
from mmtool.replication.topics.topic_needs import differing_mirrors, filled
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.kafka.ports import Problem
    from mmtool.replication.driver.context import FlowContext, OwnedState, Place
    from mmtool.translation.blocks import Block, BlockKey, MirroredPartition


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source topic and its mirror, both of which exist.

    Attributes:
        partitions: How many are mirrored: as many as the source has; the target may have more.
        limits: The record sizes and timestamps that the target topic accepts.
    """

    name: str
    topic_id: TopicId
    partitions: int
    target_name: str
    target_id: TopicId
    limits: TargetLimits


_LEARNED_AGAIN = 100
_UNKNOWN = Code.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(slots=True)
class TopicsView:
    """The result of one refresh.

    Attributes:
        refused: Topics that cannot be mirrored at all, and why.
        matched: How many source topics the flow's filters accept.
        left_out: Topics that are skipped for their names, although they may not be mirrors.
        set_apart: Topics that have failed over and that could not be mirrored otherwise either.
        deleted: Mirrored topics that the source no longer has, each with its message.
        gone: Those, and refused topics of which something is missing.
        notices: Sentences for the operator about topics that were created.
        made: The same for the log: each topic that was created, or got more partitions.
    """

    topics: dict[str, MirroredTopic] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    matched: int = 0
    left_out: list[str] = field(default_factory=list)
    set_apart: list[str] = field(default_factory=list)
    deleted: dict[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    notices: list[str] = field(default_factory=list)
    made: list[Notice] = field(default_factory=list)

    def set_aside(self, failed_over: Container[str]) -> None:
        """Move failed-over topics from `refused` and `deleted` to `set_apart`: they are not to be mirrored."""
        self.set_apart = sorted(name for name in {**self.refused, **self.deleted} if name in failed_over)
        self.refused = {name: why for name, why in self.refused.items() if name not in failed_over}
        self.deleted = {name: why for name, why in self.deleted.items() if name not in failed_over}

    @property
    def places(self) -> list[tuple[MirroredTopic, int]]:
        """Every mirrored partition, as its topic and partition number."""
        return [(topic, number) for topic in self.topics.values() for number in range(topic.partitions)]

    @property
    def shape(self) -> frozenset[MirroredTopic]:
        """The mirrored topics with partition counts and limits: when they change, a new round is planned."""
        return frozenset(self.topics.values())


class MirrorTopics:
    """Finds, creates and grows the topics of one flow.

    Args:
        flow: Whose topics; its connections find them.
        source: Describes them.
        target: Describes, creates and grows their counterparts.
        settle_seconds: For how long a counterpart that was there is looked for before it is called deleted.
        adjusted: What was said already of configs that the target does not take.
    """

    def __init__(
        self,
        flow: FlowContext,
        source: TopicAdmin,
        target: TopicAdmin,
        settle_seconds: float = 3.0,
        adjusted: ConfigNotices | None = None,
    ) -> None:
        self._flow = flow
        self.connect(source, target)
        self._settle_seconds = settle_seconds
        self._adjusted = ConfigNotices() if adjusted is None else adjusted
        self._limits: dict[str, TargetLimits] = {}
        self._hidden: set[str] = set()
        self._gone_check = AbsenceCheck[str]()
        self._deleted_check = AbsenceCheck[str]()

    def connect(self, source: TopicAdmin, target: TopicAdmin) -> None:
        """Use these clients from now on, as after credentials have changed."""
        self._source = source
        self._target = target

    async def matched(self) -> list[str]:
        """The names of the source's topics that the flow's filter accepts; changes nothing.

        Unlike `wanted` without MM2's heartbeats and the canary, which are mirrored whatever the filter says: they would
        hide a misspelt filter.
        """
        return [name for name in await self.wanted() if self._flow.settings.names_topic(name)]

    async def wanted(self) -> list[str]:
        """The names of all topics that the flow mirrors, with heartbeats and canary; changes nothing."""
        return list(self._wanted(await self._listed()))

    async def refresh(
        self,
        on_record: Mapping[TopicId, MirroredPartition],
        spared: Container[str] = (),
        taken: Mapping[str, str] = MappingProxyType({}),
    ) -> TopicsView:
        """Read the topics of both clusters, and create or grow the target topic of each mirrored topic.

        Args:
            on_record: The partitions that were mirrored before, by the source topic's id. A target topic that is gone
                is never created again: the offset runs would lead to records that are not there.
            spared: Source topics that have failed over: their target topics are not created or grown.
            taken: Target topics into which another flow mirrors, each with that flow's name.
        """
        found = await self._listed()
        found |= (unlisted := await self._unlisted(found, on_record))
        source = self._wanted(found)
        remote, alias = self._flow.settings.remote_topic, self._flow.settings.target.alias
        met = meeting(source, remote, alias) | taken_names(source, remote, taken, alias)
        target, gone = await self._settled(source, on_record)
        gone |= met
        if not self._flow.settings.create_topics:
            left_out = {*gone, *filter(spared.__contains__, source)}
            gone |= await self._differing(source, target, on_record, left_out)
        steps = plan_topics(
            [
                TopicFacts(t.name, t.topic_id, len(t.partitions))
                for t in source.values()
                if t.name not in gone and t.name not in spared
            ],
            {name: len(t.partitions) for name, t in target.items()},
            self._flow.settings.remote_topic,
            self._flow.settings.replication_factor,
        )
        if self._flow.settings.is_external:
            steps = []
        result, made = TrialResult(), list[str]()
        failed: dict[str, Problem | HaltReason] = {}
        if steps:
            result, blind = await in_thread(self._carry_out, steps)
            failed = {**blind, **result.failed}
            done = {s.name: s.partitions for s in steps if s.name not in failed}
            target = await self._appeared(source, done)
            made = [s.name for s in steps if s.name in done and isinstance(s, CreateTopic)]
        configs = await in_thread(self._learn_limits, self._to_learn(target))
        view = self._view({n: t for n, t in source.items() if n not in gone}, target, failed)
        view.made = [*_made_notices(steps, failed)]
        view.notices = self._adjusted.of(self._flow.settings, result.adjustments, configs)
        alias = self._flow.settings.target.alias
        view.notices += await in_thread(short_of_replicas, self._target, made, configs, alias)
        view.matched = sum(map(self._flow.settings.names_topic, source))
        refreshes = self._flow.settings.refresh_topics
        hidden = [name for name, topic in unlisted.items() if topic.error_code in DENIED]
        view.refused |= gone | {name: source_denied(name, refreshes=refreshes) for name in hidden}
        view.gone = self._deleted_check.missing
        view.deleted = {name: source_deleted(name, 0) for name in sorted(view.gone)}
        view.left_out = sorted(filter(self._flow.settings.may_be_born_here, found))
        return view

    async def _listed(self) -> dict[str, TopicMetadata]:
        found = await self._flow.source.refresh(None)
        self._flow.shows_register |= PRODUCERS_TOPIC in found
        return found

    async def _unlisted(
        self, found: Mapping[str, TopicMetadata], on_record: Mapping[TopicId, MirroredPartition]
    ) -> dict[str, TopicMetadata]:
        """The source's metadata of mirrored topics that it does not list, because it may only hide them.

        Newly missing topics are asked for again for a while, as in `_settled`; not in the first refresh, because no
        round runs yet that would have to end.
        """
        mirrored = {about.source_topic for about in on_record.values()} - found.keys()
        names = set(filter(self._flow.settings.mirrors_topic, mirrored))

        async def look() -> tuple[dict[str, TopicMetadata], set[str]]:
            again = await self._flow.source.refresh(names) if names else {}
            there = {n: t for n, t in again.items() if n in names and t.error_code != _UNKNOWN}
            return there, names - there.keys()

        seconds = 0.0 if self._deleted_check.is_first else self._settle_seconds
        return await self._deleted_check.of(look, seconds)

    async def _settled(
        self, source: Mapping[str, TopicMetadata], on_record: Mapping[TopicId, MirroredPartition]
    ) -> tuple[dict[str, TopicMetadata], dict[str, str]]:
        """The target topics, and the reason for each mirrored one that is missing or that may not be described.

        Newly missing topics are asked for again for a while.
        """

        async def look() -> tuple[tuple[dict[str, TopicMetadata], dict[str, str]], Collection[str]]:
            target = await self._counterparts(source)
            gone = {
                name: reason
                for name, topic in source.items()
                if (reason := self._denied(name) or self._gone(on_record.get(topic.topic_id), target))
            }
            return (target, gone), gone

        return await self._gone_check.of(look, self._settle_seconds)

    def _denied(self, name: str) -> str:
        """The reason if describing the target topic is denied, so that its existence is unknown; else empty."""
        remote = self._flow.settings.remote_topic(name)
        refreshes = self._flow.settings.refresh_topics
        return target_denied(remote, refreshes=refreshes) if remote in self._hidden else ""

    def _gone(self, about: MirroredPartition | None, target: Mapping[str, TopicMetadata]) -> str:
        """Why the recorded target topic was deleted, recreated or has another name now; empty if it is there."""
        if about is None:
            return ""
        flow = self._flow.settings
        remote = flow.remote_topic(about.source_topic)
        if remote != about.target_topic:
            return (
                f"its mirror {about.target_topic} would now be called {remote}: to keep the former name, restore it in"
                " the configuration, and stop and start `mmtool replicate`; or,"
                f" {under_new_names(flow, [about.source_topic])}"
            )
        presence = presence_of(about.target_topic_id, target.get(remote))
        if not presence.is_gone:
            return ""
        return f"target topic {remote} {presence.value}, so the mirrored records are gone: {BEGIN_AGAIN}"

    def _wanted(self, found: Mapping[str, TopicMetadata]) -> dict[str, TopicMetadata]:
        return {
            name: topic
            for name, topic in sorted(found.items())
            if topic.error_code == Code.NONE and self._flow.settings.mirrors_topic(name)
        }

    async def _counterparts(self, source: Mapping[str, TopicMetadata]) -> dict[str, TopicMetadata]:
        names = [self._flow.settings.remote_topic(name) for name in source]
        found = await self._flow.target.refresh(names)
        self._hidden = {name for name, topic in found.items() if topic.error_code in DENIED}
        return {name: topic for name, topic in found.items() if topic.error_code == Code.NONE}

    async def _appeared(
        self, source: Mapping[str, TopicMetadata], made: Mapping[str, int]
    ) -> dict[str, TopicMetadata]:
        """The target's metadata once it shows the topics and partitions that were just created."""
        for _ in range(50):
            target = await self._counterparts(source)
            if all(name in target and len(target[name].partitions) >= n for name, n in made.items()):
                break
            await asyncio.sleep(0.1)
        return target

    def _carry_out(self, steps: list[CreateTopic | GrowTopic]) -> tuple[TrialResult, dict[str, HaltReason]]:
        """Create and grow topics; none whose source hides its configs, because it might lose records.

        Returns the result, and those that were not asked for, each with the reason.
        """
        if not self._flow.settings.create_topics:
            return TrialResult(), dict.fromkeys((step.name for step in steps), NOT_CREATED)
        creates = [step for step in steps if isinstance(step, CreateTopic)]
        configs = self._source.configs([step.source_topic for step in creates])
        blind = {
            s.name: configs_hidden([s.source_topic], self._flow.settings.source.alias)
            for s in creates
            if s.source_topic not in configs
        }
        wanted = [
            filled(self._flow.settings, step, configs[step.source_topic])
            for step in creates
            if step.name not in blind
        ]
        created = self._target.create_adjusted(wanted)
        grown = self._target.grow([step for step in steps if isinstance(step, GrowTopic)])
        return TrialResult({**created.failed, **grown}, created.adjustments), blind

    async def _differing(
        self,
        source: Mapping[str, TopicMetadata],
        target: Mapping[str, TopicMetadata],
        on_record: Mapping[TopicId, MirroredPartition],
        left_out: Container[str],
    ) -> dict[str, str]:
        """Topics that no record was mirrored of yet, and whose mirrors are not as needed; each with the reason."""
        flow = self._flow.settings
        begun = {about.source_topic for about in on_record.values()}
        new = [
            TopicFacts(name, topic.topic_id, len(topic.partitions))
            for name, topic in source.items()
            if name not in begun and name not in left_out and flow.remote_topic(name) in target
        ]
        found = await in_thread(differing_mirrors, flow, self._source, self._target, new) if new else {}
        return {
            name: f"{topic.reason}: {self._with_remedy(NOT_CREATED, name, topic.partitions, exists=True)}"
            for name, topic in found.items()
        }

    @property
    def _takes_any_time(self) -> bool:
        return self._flow.settings.on_timestamp_refused == "raise-limit"

    def _to_learn(self, target: Collection[str]) -> list[str]:
        """Topics whose limits are read now: all unknown ones, and a hundred of the known ones in turn.

        Limits change when an operator raises one for a halted partition, or when the source's configs are carried over.
        """
        self._limits = {name: limits for name, limits in self._limits.items() if name in target}
        unknown = [
            name
            for name in target
            if (known := self._limits.get(name)) is None or (self._takes_any_time and known.any_time)
        ]
        return list(dict.fromkeys([*unknown, *list(self._limits)[:_LEARNED_AGAIN]]))

    def _learn_limits(self, names: list[str]) -> Mapping[str, Mapping[str, ConfigEntry]]:
        """Read and remember the limits of these topics; returns their configs, as far as they can be read."""
        try:
            configs = self._target.configs(names)
        except UnreachableError:
            configs = {}  # DESCRIBE_CONFIGS is a comfort: a refused batch is split when the broker says so
        for name in names:
            known = self._limits.pop(name, TargetLimits())  # back in at the end: it has had its turn
            self._limits[name] = TargetLimits.of(configs[name]) if name in configs else known
        if self._takes_any_time:  # where a limit cannot be lifted, a refused record halts its partition
            steps = {name: raised for name in names if (raised := self._limits[name].any_time)}
            failed = self._target.alter(steps)
            for name in steps.keys() - failed.keys():
                self._limits[name] = TargetLimits(self._limits[name].max_batch_bytes)
        return configs

    def _view(
        self,
        source: Mapping[str, TopicMetadata],
        target: Mapping[str, TopicMetadata],
        failed: Mapping[str, Problem | HaltReason],
    ) -> TopicsView:
        view = TopicsView()
        for name, topic in source.items():
            remote = self._flow.settings.remote_topic(name)
            there = target.get(remote)
            want, have = len(topic.partitions), len(there.partitions) if there is not None else 0
            if there is None or have < want:
                settings = self._flow.settings
                lacks = "cannot be created" if settings.create_topics else "is missing"
                if there is not None:
                    lacks = f"has {counted(have, 'partition')}, {want} are needed"
                elif settings.is_external:
                    lacks = "does not exist"
                view.refused[name] = (
                    f"target topic {remote} {lacks}: "
                    f"{self._with_remedy(failed.get(remote), name, want, exists=have > 0)}"
                )
                continue
            view.topics[name] = MirroredTopic(
                name,
                topic.topic_id,
                want,
                remote,
                there.topic_id,
                self._limits.get(remote, TargetLimits()),
            )
        return view

    def _with_remedy(
        self, why: Problem | HaltReason | None, name: str, partitions: int, *, exists: bool
    ) -> str:
        """Why a target topic could not be created or grown, with the remedy for it; None where no broker answered."""
        settings = self._flow.settings
        if settings.is_external:
            return "the system that keeps the mirror (mmtool.mirror = external) has to create it"
        if isinstance(why, HaltReason):
            again = f"{why.cure}; {AT_NEXT_REFRESH}" if settings.refresh_topics else restarting(why.cure)
            return HaltReason(why.cause, again)
        helps = what_helps(
            why.name if why else None,
            name,
            settings.remote_topic(name),
            partitions,
            exists=exists,
            refreshes=settings.refresh_topics,
        )
        return f"{why.by_name.rstrip('.') if why else 'no answer'}; {helps}"


def _made_notices(steps: Iterable[CreateTopic | GrowTopic], failed: Container[str]) -> Iterator[Notice]:
    """Log events of the topics and partitions that were created on the target."""
    for step in steps:
        about = {"topic": step.source_topic, "target_topic": step.name, "partitions": step.partitions}
        if step.name in failed:
            continue
        if isinstance(step, CreateTopic):
            said = f"created {step.name} with {counted(step.partitions, 'partition')}"
            yield Notice(said, Event.TOPIC_CREATED, **about)
        else:
            said = f"{step.name} has {counted(step.partitions, 'partition')} now, {step.have} before"
            yield Notice(said, Event.PARTITIONS_ADDED, **about)


async def source_ends(flow: FlowContext, view: TopicsView) -> dict[tuple[TopicId, int], int]:
    """The source's end offset of every mirrored partition now, by the flow's isolation level."""
    places = {TopicPartition(topic.name, n): (topic.topic_id, n) for topic, n in view.places}
    committed = flow.settings.reads_committed
    ends = await list_offsets(flow.source, dict.fromkeys(places, LATEST), read_committed=committed)
    return {places[tp]: end for tp, end in ends.items()}


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


# With ``mmtool.on.topic.recreated = restart``, mirrors whose target topic was deleted start at ``mmtool.start``. Their
# offset runs get tombstones first, under the shards' claims and before the first round, when no other process writes
# there. What a crash leaves: some of a topic's partitions without offset runs; the next start does the rest.


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
    for key in await in_thread(read_block_keys, flow.settings.target, flow.identity):
        if (key.topic_id, key.partition) in places:
            keys[shard_of(key.topic_id, key.partition, count)].append(key)
    # without their positions first: those without books would look as if the books had been lost
    strikes = [position_key(*place) for place in places]
    await write_documents(flow, flow.identity.control_topic, (), tombstones=strikes)
    for shard, of_shard in keys.items():
        await store_owned(flow, standing, shard, struck_out=of_shard)
    for place in places:
        standing.forget(place)


@dataclass(slots=True)
class ConfigNotices:
    """The refused configs of one flow that were reported; topic creation and config sync share them."""

    _said: set[tuple[str, str, str | None, str | None]] = field(default_factory=set)

    def of(
        self,
        flow: FlowSettings,
        adjustments: Iterable[ConfigAdjustment],
        target: Mapping[str, Mapping[str, ConfigEntry]],
    ) -> list[str]:
        """Sentences about the adjustments that were not reported yet; from now on they count as reported.

        Args:
            flow: The flow whose topics were adjusted.
            adjustments: The adjustments that were just made.
            target: The configs of the target's topics, as far as they are known.
        """
        fresh = []
        for one in adjustments:
            about = (one.topic, one.name, one.wanted, one.given)
            if about not in self._said:
                self._said.add(about)
                entry = target.get(one.topic, {}).get(one.name)
                fresh.append(replace(one, kept=entry.value if entry is not None else None))
        return adjustment_sentences(fresh, flow.source.alias, flow.target.alias)
