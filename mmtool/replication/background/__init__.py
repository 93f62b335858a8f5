"""Periodic work of a flow's owner beside mirroring: heartbeats, checkpoints, group offsets, configs, ACLs.

The work is that of MirrorMaker 2's scheduled tasks, each with its own interval. It runs in the driver, over the flow's
own connections, and never delays mirroring. A task that fails is reported once and tried again at its next interval.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from mmtool.errors import MmtoolError, PartlyAppliedError
from mmtool.events import Event, flow_notice
from mmtool.insight.flow_now import FlowClusters, FlowNow
from mmtool.insight.group_names import claim_names, cure, listed_groups
from mmtool.insight.translation import mirrors_others
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.errors import remedy_of
from mmtool.kafka.state.flow_state import FollowedFlowState, way_back_state
from mmtool.kafka.state.journal import group_names
from mmtool.kafka.state.own_log import MARK, append_records
from mmtool.plan.groups.names import GroupNames
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.topics.configs import KeptConfig, ResetConfig, SetConfig, plan_acls, plan_topic_configs
from mmtool.plan.topics.facts import TopicFacts, configs_hidden
from mmtool.plan.words import counted, retried, then
from mmtool.replication.background.checkpoints import Checkpoints, GroupOffsets
from mmtool.replication.background.external_positions import SECONDS, ExternalPositions
from mmtool.replication.mm2.guard import (
    RECENT_SECONDS,
    MirrorMakerGuard,
    MirrorMakerWatch,
    writes_same_topics,
)
from mmtool.replication.ownership.internal_topics import heartbeats_topic
from mmtool.replication.topics.mirror_topics import ConfigNotices
from mmtool.replication.topics.topic_needs import config_rules
from mmtool.runtime.threads import came_within, in_thread
from mmtool.translation.mm2_records import Heartbeat
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence

    from mmtool.config import FlowSettings
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.driver.flow_run import FlowRun


@dataclass(frozen=True, slots=True)
class Duty:
    """One kind of periodic work.

    Attributes:
        name: Its name in messages, as ``heartbeats``.
        seconds: The interval.
        perform: Performs the task once; the message of an error that it raises is reported.
        extra: When it is performed once more: first, because it creates a topic that flows mirror, before flows list
            their topics; last, before a run ends because it has caught up.
    """

    name: str
    seconds: float
    perform: Callable[[], Coroutine[None, None, None]]
    extra: Literal["", "first", "last"] = ""


class Scheduler:
    """Performs a flow's periodic work until stopped."""

    def __init__(self, flow: str, duties: Sequence[Duty], say: Callable[[str], None]) -> None:
        self._flow = flow
        self._duties = duties
        self._say = say
        self._tasks: list[tuple[str, asyncio.Task[None]]] = []
        self._retired = asyncio.Event()
        self._is_started = False

    async def open(self) -> None:
        """Perform the tasks with a first turn; `start` repeats and reports one that failed."""
        for duty in self._duties:
            if duty.extra == "first":
                with suppress(Exception):
                    await duty.perform()

    def start(self) -> None:
        """Start every task at once; a second call does nothing."""
        if not self._is_started:
            self._is_started = True
            self._begin()

    def adopt(self, duties: Sequence[Duty]) -> None:
        """Replace the tasks by ``duties``.

        A task in the middle of a turn finishes it first, and its successor of the same name waits for that: two turns
        at a time could undo each other's work.
        """
        self._duties = duties
        self._retired.set()
        self._retired = asyncio.Event()
        if self._is_started:
            self._begin()

    def _begin(self) -> None:
        left = [(name, task) for name, task in self._tasks if not task.done()]
        begun = [
            (duty.name, asyncio.create_task(self._repeat(duty, {t for name, t in left if name == duty.name})))
            for duty in self._duties
        ]
        self._tasks = [*left, *begun]

    async def stop(self) -> None:
        """Cancel every task, in the middle of its turn if need be, without the last turn that `finish` makes."""
        tasks = [task for _, task in self._tasks]
        self._tasks, self._is_started = [], False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Stop every task, then perform those with a last turn, at the end of a run with a goal.

        Raises:
            PartlyAppliedError: such a turn failed; all records are mirrored.
        """
        await self.stop()
        for duty in self._duties:
            if duty.extra == "last":
                try:
                    await duty.perform()
                except MmtoolError as error:
                    raise PartlyAppliedError(
                        f"{self._flow}: all records are mirrored, but the last update of {duty.name} failed:"
                        f" {error.message}",
                        remedy=then(error.remedy or "run the same command again"),
                    ) from error

    async def _repeat(self, duty: Duty, before: set[asyncio.Task[None]]) -> None:
        failure, retired = "", self._retired
        if before:
            await asyncio.wait(before)
        while not retired.is_set():
            started = time.monotonic()
            failure = await self._turn(duty, failure)
            await came_within(max(duty.seconds - (time.monotonic() - started), 0.0), retired.wait())

    async def _turn(self, duty: Duty, failure: str) -> str:
        """Perform the task once, and report a new failure; returns the failure, empty if there was none."""
        try:
            await duty.perform()
        except Exception as error:  # noqa: BLE001  whatever it is, the mirror goes on
            why = str(error) or type(error).__name__
            if why != failure:
                said = f"{duty.name}: {retried(error)}; retrying every {duty.seconds:g} s"
                self._say(flow_notice(self._flow, said, Event.DUTY_FAILED, duty=duty.name))
            return why
        if failure:
            self._say(
                flow_notice(self._flow, f"{duty.name}: working again", Event.DUTY_RESUMED, duty=duty.name)
            )
        return ""


@dataclass(slots=True)
class Heartbeats:
    """Writes one record per interval into ``heartbeats`` on the target of a pair of clusters.

    Attributes:
        pair: The flow, or a reverse flow.
        target: The pair's target.
    """

    pair: FlowSettings
    target: WireCluster
    _is_there: bool = False

    async def perform(self) -> None:
        wanted = heartbeats_topic(self.pair)
        topic = wanted.name
        try:
            if not self._is_there:
                await in_thread(TopicAdmin(self.pair.target).create_internal, [wanted])
                await self.target.refresh([topic])
            aliases = self.pair.topic_aliases
            beat = Heartbeat(aliases.source, aliases.target, int(time.time() * 1000))
            await append_records(self.target, topic, [(beat.key(), beat.value())], MARK)
        except BaseException:
            self._is_there = False  # deleted, perhaps: the next turn makes it again
            raise
        self._is_there = True


_ACL_SECONDS = 30.0
_BY_HAND = "add the ACL on {alias} with kafka-acls.sh"
"""The remedy where the error is no broker's, or has none of its own."""


def add_topic_acls(flow: FlowSettings) -> None:
    """Add the source's topic ACLs that the target lacks; do nothing where the source has no authorizer (as MM2).

    Raises:
        MmtoolError: ACLs could not be read, or some could not be added.
    """
    here = KafkaFences(flow.source, _ACL_SECONDS).topic_rules()
    if here is UNKNOWN:
        return
    target = KafkaFences(flow.target, _ACL_SECONDS)
    there = target.topic_rules()
    if there is UNKNOWN:
        raise MmtoolError(
            f"cluster {flow.target.alias} has no authorizer, so topic ACLs are not copied",
            remedy=f"configure an authorizer on the brokers of {flow.target.alias}, or set"
            f" {flow.name}.sync.topic.acls.enabled = false",
        )
    missing = plan_acls(sorted(here), there, mirrors=flow.mirrors_topic, remote_topic=flow.remote_topic)
    failed = target.add(missing)
    if failed:
        first = next(iter(failed))
        example = "for example for" if len(failed) > 1 else "for"
        raise MmtoolError(
            f"{counted(len(failed), 'ACL')} could not be added on {flow.target.alias}, {example} topic"
            f" {first.name}: {failed[first]}",
            remedy=remedy_of(failed[first].name, flow.target.alias, otherwise=_BY_HAND),
        )


_EXCLUDE = "set the config on {alias} with kafka-configs.sh, or add its name to config.properties.exclude"
"""The remedy where the broker's error has none of its own."""


@dataclass(slots=True)
class TopicConfigs:
    """Alters configs that differ; a config or topic that cannot be altered does not block the others.

    Attributes:
        flow: The flow.
        topics: The source's topics that are mirrored now, and their names on the target.
        say: Called once with each sentence for the operator.
        adjusted: The configs that the target refuses and that were already reported.
    """

    flow: FlowSettings
    topics: Callable[[], dict[str, str]]
    say: Callable[[str], None]
    adjusted: ConfigNotices
    _said: set[str] = field(default_factory=set)

    async def perform(self) -> None:
        """Compare the configs of every topic of the flow, and alter those that differ on the target.

        Raises:
            MmtoolError: the configs of some topics could not be read or altered; the message names an example.
        """
        await in_thread(self._perform, self.topics())

    def _perform(self, topics: dict[str, str]) -> None:
        target = TopicAdmin(self.flow.target)
        here, there = TopicAdmin(self.flow.source).configs(topics), target.configs(topics.values())
        steps: dict[str, list[SetConfig | ResetConfig]] = {}
        unseen = (
            ([topic for topic in topics if topic not in here], self.flow.source.alias),
            ([remote for remote in topics.values() if remote not in there], self.flow.target.alias),
        )
        for topic, remote in topics.items():
            if topic not in here or remote not in there:
                continue
            for step in plan_topic_configs(here[topic], there[remote], config_rules(self.flow)):
                if isinstance(step, KeptConfig):
                    kept = f"topic {remote}: {step.name} is not copied from the source: {step.reason}"
                    if kept not in self._said:
                        self._said.add(kept)
                        self.say(flow_notice(self.flow.name, f"{kept}; nothing has to be done"))
                else:
                    steps.setdefault(remote, []).append(step)
        result = target.alter_adjusted(steps)
        for sentence in self.adjusted.of(self.flow, result.adjustments, there):
            self.say(flow_notice(self.flow.name, sentence))
        if failed := result.failed:
            first = next(iter(failed))
            more = f" and {counted(len(failed) - 1, 'more topic')}" if len(failed) > 1 else ""
            raise MmtoolError(
                f"the configuration of topic {first}{more} on {self.flow.target.alias} could not be changed:"
                f" {failed[first].by_name}",
                remedy=remedy_of(failed[first].name, self.flow.target.alias, otherwise=_EXCLUDE),
            )
        if hidden := [configs_hidden(names, alias) for names, alias in unseen if names]:
            raise MmtoolError("; ".join(hidden))


_SECONDS = 30.0  # for one request


def duties_of(
    run: FlowRun, heartbeats_only: Iterable[FlowSettings], say: Callable[[str], None]
) -> list[Duty]:
    """The periodic tasks of a flow's owner, as its settings ask for them.

    Args:
        run: The flow.
        heartbeats_only: Pairs of clusters that are not enabled as flows but keep their heartbeats, as in MM2: a one-way
            flow carries the heartbeats of the reverse flow to its target, where ``MirrorClient`` counts hops by them.
        say: Called with sentences for the operator.
    """
    flow, here = run.flow, run.flow.settings
    duties: list[Duty] = []
    pairs = [(here, flow.target)] if here.emit_heartbeats else []
    pairs += [
        (pair, flow.source)
        for pair in heartbeats_only
        if (pair.source.alias, pair.target.alias) == (here.target.alias, here.source.alias)
    ]
    for pair, cluster in pairs:
        beat = Heartbeats(pair, cluster)
        duties.append(Duty("heartbeats", pair.emit_heartbeats_interval_seconds, beat.perform, "first"))
    if here.is_external:
        positions = ExternalPositions(run)
        duties.append(Duty("positions of mirrors", SECONDS, positions.perform, "last"))
    if here.emit_checkpoints:
        names = group_names(here, _SECONDS)
        target = KafkaCluster(here.target, _SECONDS, names=names)
        now = _flow_now(run, target, names)
        claim = partial(_claim_names, run, now)
        checkpoints = Checkpoints(now, flow.target, claim, say)
        seconds = here.emit_checkpoints_interval_seconds
        duties.append(Duty("checkpoints", seconds, checkpoints.perform, "last"))
        if here.sync_group_offsets:  # without checkpoints MM2 syncs no offsets either
            offsets = GroupOffsets(checkpoints, target, lambda: run.watch.moved, claim, partial(cure, names))
            seconds = here.sync_group_offsets_interval_seconds
            duties.append(Duty("group offsets", seconds, offsets.perform, "last"))
    if here.sync_topic_configs:
        configs = TopicConfigs(here, run.topic_names, say, run.config_notices)
        duties.append(Duty("topic configs", here.sync_topic_configs_interval_seconds, configs.perform))
    if here.sync_topic_acls:
        add = partial(in_thread, add_topic_acls, here)
        duties.append(Duty("ACLs", here.sync_topic_acls_interval_seconds, add))
    if writes_same_topics(here):
        watch = MirrorMakerWatch(MirrorMakerGuard(flow, []), say)
        duties.append(Duty("looking for MirrorMaker 2", RECENT_SECONDS / 2, watch.perform))
    return duties


def _claim_names(run: FlowRun, flow: Callable[[], FlowNow], groups: Collection[str]) -> dict[str, str]:
    """Store new names of groups on the target; return why some of the groups must not be written."""
    now, watch = flow(), run.watch
    now.clusters.names.adopt(watch.group_names, watch.moved, partial(listed_groups, now.clusters.target))
    return claim_names(now, groups)


def _flow_now(run: FlowRun, target: KafkaCluster, names: GroupNames) -> Callable[[], FlowNow]:
    """A function that returns the flow as it is when called, with the topics that are mirrored then."""
    here = run.flow.settings
    source = KafkaCluster(here.source, _SECONDS)
    back = way_back_state(here, FollowedFlowState)
    state = FollowedFlowState(here.target, external=here.is_external)
    clusters = FlowClusters(here, source, target, state, back, names=names)

    def now() -> FlowNow:
        topics = run.view.topics.values()
        return FlowNow(
            clusters,
            run.flow.identity,
            {topic.name: TopicFacts(topic.name, topic.topic_id, topic.partitions) for topic in topics},
            target_topics={
                topic.target_name: TopicFacts(topic.target_name, topic.target_id, topic.partitions)
                for topic in topics
            },
            mirrored_to=frozenset({Direction.FORWARD})
            if mirrors_others(run.flow.source.topics, run.flow.identity.way_back)
            else frozenset(),
        )

    return now
