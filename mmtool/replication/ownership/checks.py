"""Checks before a flow starts: its clusters, names and stored state are the recorded ones, and a topic is left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.errors import DOCTOR_PRINTS, NO_LEADER
from mmtool.kafka.state.flow_state import KafkaFlowState
from mmtool.kafka.state.state_log import read_block_keys, read_newest_blocks
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.kafka.wire.scan import without_leader
from mmtool.plan.flow.moves import START_AGAIN
from mmtool.plan.records.documents import PositionRecord, State
from mmtool.plan.records.identity import PRODUCERS_TOPIC, FlowIdentity
from mmtool.plan.records.marks import FAILED_OVER_REMEDY, FailedOverRecord
from mmtool.plan.words import counted, flow_options, named_topics
from mmtool.replication.pump.batch_prep import FencedError
from mmtool.replication.topics.origins import Origins
from mmtool.replication.topics.presence import gone_for_good
from mmtool.runtime.threads import in_thread
from mmtool.translation.names import topic_part
from mmtool.translation.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.replication.driver.context import FlowContext


_NAMED = 3


async def check_identity(flow: FlowContext, warnings: list[str]) -> None:
    """Check that the aliases name the recorded clusters, and that the producer register can be read if needed.

    Raises:
        UsageError: an alias now names another cluster, or the clusters have another alias.
        RefusedError: the stored state cannot be read.
        NotAuthorisedError: the source's register of producers must be read, and is denied.
    """
    there = await flow.target.refresh(None)
    state = KafkaFlowState(flow.settings.target)
    await in_thread(state.check_aliases, flow.identity, list(there))
    await _check_shown(flow, warnings)
    origins = Origins.of(flow.settings, flow.identity, flow.source)
    if origins is None:
        return
    await origins.read_on()
    if origins.is_blind:
        warnings.append(
            f"{flow.identity.name}: cluster {flow.source.alias} does not let mmtool read {PRODUCERS_TOPIC}: records"
            f" that other flows mirrored to {flow.source.alias} are mirrored to {flow.target.alias} as well; if other"
            f" flows write to {flow.source.alias}, grant mmtool's principal DESCRIBE and READ on topic"
            f" {PRODUCERS_TOPIC} of {flow.source.alias}; otherwise nothing has to be done"
        )


async def _check_shown(flow: FlowContext, warnings: list[str]) -> None:
    """Name the topics that `topics` lists and the source hides: a broker does not list them for mmtool.

    Raises:
        NotAuthorisedError: `topics` lists no others.
    """
    names = flow.settings.literal_topics
    found = await flow.source.refresh(names) if names else {}
    hidden = sorted(name for name, topic in found.items() if name in names and topic.error_code in DENIED)
    if not hidden:
        return
    it, words, do = ("it", "the name", "does") if len(hidden) == 1 else ("them", "the names", "do")
    denied = (
        f"{flow.identity.name}: {named_topics(hidden)} {do} not exist on cluster {flow.source.alias}, or READ on {it}"
        " is denied"
    )
    helps = f"correct {words} in `topics`, or grant mmtool's principal READ on {it}"
    if len(hidden) == len(flow.settings.topics.include):
        raise NotAuthorisedError(denied, remedy=f"{helps}: {DOCTOR_PRINTS}")
    then = (
        ": mirroring then starts by itself"
        if flow.settings.refresh_topics
        else ". Then stop and start `mmtool replicate`: with refresh.topics.enabled = false it looks for topics only"
        " at its start"
    )
    warnings.append(f"{denied}, so mmtool does not mirror {it}; {helps}{then}")


async def check_stored(flow: FlowContext, matched: Callable[[], Awaitable[Collection[str]]]) -> None:
    """Refuse a flow whose topics have all failed over, or whose mirrored topics would change their names.

    Args:
        flow: The flow.
        matched: Returns the source's topics that its filter accepts.

    Raises:
        RefusedError: either is the case, or the flow's stored state cannot be read.
    """
    state = KafkaFlowState(flow.settings.target)
    control = await in_thread(state.control, flow.identity)
    marks = control.failed_over
    refuse_changed_names(flow.settings, control.positions.values(), marks)
    if marks and (refusal := all_failed_over(flow.identity.name, await matched(), marks)):
        raise refusal


def all_failed_over(
    name: str, topics: Collection[str], marks: Mapping[str, FailedOverRecord]
) -> RefusedError | None:
    """The refusal of a flow whose topics have all failed over; None if one has not, or if there are no topics.

    Args:
        name: The flow's name.
        topics: The source's topics that its filter accepts.
        marks: The marks in force, by topic.
    """
    if not topics or not marks.keys() >= set(topics):
        return None
    last = max((marks[topic] for topic in topics), key=lambda mark: mark.since_ms)
    which = (
        f"all of its {counted(len(topics), 'topic')} have failed over; the last one, {last.topic},"
        if len(topics) > 1
        else f"its only topic, {last.topic},"
    )
    return RefusedError(
        f"flow {name} is not mirrored: {which} is {last.sentence}",
        remedy=FAILED_OVER_REMEDY,
        code=State.FAILED_OVER,
    )


def refuse_changed_names(
    flow: FlowSettings, positions: Iterable[PositionRecord], spared: Container[str]
) -> None:
    """Refuse a flow if a topic that it has mirrored would get another name on the target.

    Args:
        flow: The flow's present settings.
        positions: The flow's recorded positions.
        spared: Source topics that have failed over: they are not mirrored.

    Raises:
        RefusedError: a name would change; the message has both names of the first topics.
    """
    changed = {topic: name for topic, name in changed_names(flow, positions).items() if topic not in spared}
    if changed:
        raise names_refusal(flow, changed, f"; or, {under_new_names(flow, list(changed))}")


def changed_names(flow: FlowSettings, positions: Iterable[PositionRecord]) -> dict[str, str]:
    """Recorded target names, by source topic, of the topics to which the settings now give other names.

    Args:
        flow: The flow's present settings.
        positions: The flow's recorded positions.
    """
    on_record = {position.topic: position.target_topic for position in positions}
    return {
        topic: remote
        for topic, remote in sorted(on_record.items())
        if flow.mirrors_topic(topic) and flow.remote_topic(topic) != remote
    }


def names_refusal(flow: FlowSettings, changed: Mapping[str, str], otherwise: str = "") -> RefusedError:
    """The error with both names of the first topics, and with how to keep the recorded ones.

    Args:
        flow: The flow's present settings.
        changed: As `changed_names` returns it; not empty.
        otherwise: An alternative, as the end of the remedy.
    """
    named = [renamed_to(flow, topic, remote) for topic, remote in list(changed.items())[:_NAMED]]
    more = len(changed) - _NAMED
    renamed = "; ".join([*named, f"and {counted(more, 'more topic')}"] if more > 0 else named)
    return RefusedError(
        f"{flow.name}: topics on {flow.target.alias} would change their names: {renamed}; nothing was copied",
        remedy=f"keep the names: {_how_to_keep(flow, changed)}{otherwise}",
        code="names_changed",
    )


def renamed_to(flow: FlowSettings, topic: str, remote: str) -> str:
    """A phrase that names a source topic, its recorded target name and its new one."""
    return f"{topic} is mirrored to {remote} and would now be called {flow.remote_topic(topic)}"


def under_new_names(flow: FlowSettings, topics: Sequence[str]) -> str:
    """How topics are mirrored again under their new names, as part of a remedy.

    `flow forget` is refused as well while a recorded name differs.
    """
    one = len(topics) == 1
    which, each = (topics[0], "") if one else ("TOPIC", " for each topic")
    return (
        f"to mirror {topics[0] if one else 'the topics'} again under {'its new name' if one else 'their new names'}:"
        f" restore the former {'name' if one else 'names'}, stop `mmtool replicate`, run `mmtool flow forget"
        f" {flow_options(flow.source.alias, flow.target.alias)} --topic {which} --execute`{each}, then set the new"
        f" {'name' if one else 'names'} and start `mmtool replicate`"
    )


def _how_to_keep(flow: FlowSettings, changed: Mapping[str, str]) -> str:
    """The setting that keeps the recorded names: the source's alias if that is enough, else general advice."""
    alias = topic_part(flow.source.alias)
    if all(flow.policy.format_remote_topic(alias, topic) == remote for topic, remote in changed.items()):
        return f"set {flow.name}.source.cluster.alias = {alias}"
    return "give replication.policy.*, mmtool.topic.rename.format and the aliases their former values"


_LOOK_SECONDS = 5.0
OFFSET_RUNS = "offset runs (the map of source offsets to target offsets)"


class OwnTopics:
    """The topic ids of a flow's control and offset-runs topics, as this process knows them."""

    def __init__(self) -> None:
        self._ids: dict[str, TopicId] = {}

    async def check(self, flow: FlowContext, control: ControlView) -> None:
        """Refuse to claim a flow whose control topic or offset-runs topic was deleted or emptied.

        Args:
            flow: The flow.
            control: The present content of its control topic.

        Raises:
            RefusedError: one of the topics was deleted or emptied, or cannot be read.
            UnreachableError, NotAuthorisedError, ConnectionLostError: the target does not answer.
        """
        identity = flow.identity
        lost = await _lost_of(flow.target, self._ids)
        if not lost and control.flow is None:
            there = await in_thread(read_block_keys, flow.settings.target, flow.identity)
            lost = identity.control_topic if there else ""
        if lost:
            raise _refusal(identity, lost, flow.target.alias, is_external=flow.settings.is_external)
        names = (identity.control_topic, identity.runs_topic)
        await flow.target.refresh(names)
        self._ids = {name: own_topic_id(flow, name) for name in names}


async def check_led(flow: FlowContext) -> None:
    """Check that every partition of the flow's control and offset-runs topics has a leader now.

    Some may have none, for instance while a disk of the target is full.

    Raises:
        ConnectionLostError: a partition has no leader; the message names it.
    """
    found = await flow.target.refresh((flow.identity.control_topic, flow.identity.runs_topic))
    places = [TopicPartition(topic.name, p.partition) for topic in found.values() for p in topic.partitions]
    if lone := sorted(place for place in places if flow.target.leader(*place) is None):
        raise ConnectionLostError(without_leader(flow.target.alias, lone), NO_LEADER)


async def until_gone(target: WireCluster, ids: Mapping[str, TopicId]) -> NoReturn:
    """Check every few seconds, and raise when one of the topics was deleted or recreated.

    Raises:
        FencedError: a topic was; the flow's owner finds out which stored state is left.
    """
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        with suppress(MmtoolError, ConnectionLostError):  # who is away has deleted nothing
            if lost := await _lost_of(target, ids):
                raise FencedError(f"topic {lost} was deleted on {target.alias}")


def own_topic_id(flow: FlowContext, topic: str) -> TopicId:
    """The id of one of the flow's internal topics, which exist before a flow is claimed.

    Raises:
        UnreachableError: the target no longer lists the topic; the next claim of the flow finds out why.
    """
    found = flow.target.topic_id(topic)
    if found is None:
        raise UnreachableError(
            f"topic {topic} is missing on cluster {flow.target.alias}", remedy="run the same command again"
        )
    return found


def rebuild_lost_runs(identity: FlowIdentity) -> str:
    """The remedy for lost offset runs, as a phrase for the operator."""
    flow = identity.options
    return (
        f"run `mmtool flow rebuild {flow} --execute`, which derives the offset runs from both logs, {START_AGAIN}; if"
        f" the rebuild refuses a topic, `mmtool flow forget {flow} --topic TOPIC --execute` lets the next start mirror"
        " this topic again from `mmtool.start`"
    )


def resume_after_loss(identity: FlowIdentity) -> str:
    """The steps after a rebuild without marks: exclude failed-over topics first, then resume the flow.

    Resuming lifts every pause, so that only the file keeps a failed-over topic from being mirrored.
    """
    return (
        "find the topics that have failed over (`mmtool failover list -c FILE`, then `mmtool failover show ID -c FILE`)"
        f" and add them to topics.exclude, then run `mmtool flow resume {identity.options}`"
    )


async def _lost_of(target: WireCluster, ids: Mapping[str, TopicId]) -> str:
    """The name of a topic that was deleted or recreated; empty if there is none."""
    gone = await gone_for_good(target, ids.items())
    return next((name for name, one in ids.items() if (name, one) in gone), "")


def _refusal(identity: FlowIdentity, topic: str, alias: str, *, is_external: bool) -> RefusedError:
    where = f"{identity.name}: topic {topic} on {alias} was deleted or emptied: "
    if is_external:
        return RefusedError(
            where + "what mmtool has noted there, as the marks of topics that have failed over, is lost",
            remedy="start `mmtool replicate` again, which creates the topic; then run `mmtool verify` again",
            code="control_lost",
        )
    if topic == identity.runs_topic:
        return RefusedError(
            where + f"the flow's {OFFSET_RUNS} are lost", remedy=rebuild_lost_runs(identity), code="runs_lost"
        )
    return RefusedError(
        where
        + "mmtool no longer knows which topics have failed over, which are paused, and which records the"
        " previous replicate wrote last; nothing is mirrored",
        remedy=f"run `mmtool flow rebuild {identity.options} --execute`, which recreates the topic and pauses the flow;"
        f" {resume_after_loss(identity)}; {START_AGAIN}",
        code="control_lost",
    )


async def refuse_own_runs(flow: FlowContext) -> None:
    """Refuse a flow whose mirrors another system is to keep, if mmtool has mirrored its topics.

    Raises:
        RefusedError: There are offset runs; the message names a topic.
    """
    blocks = await in_thread(read_newest_blocks, flow.settings.target, flow.identity)
    if blocks:
        topic = min(block.about.source_topic for block in blocks.values())
        raise RefusedError(
            f"{flow.identity.name}: mmtool.mirror = external, but mmtool itself has mirrored topics of this flow, for"
            f" example {topic}",
            remedy="set mmtool.mirror = own; or, if another system is to mirror these topics, set it so, run"
            f" `mmtool flow forget {flow.identity.options} --topic TOPIC --execute` for each of them, delete their"
            " mirrors, and set mmtool.mirror = external again",
            code="own_mirrors",
        )


async def refuse_lost_runs(
    flow: FlowContext,
    positions: Mapping[tuple[str, int], PositionRecord],
    blocks: Collection[tuple[str, int]],
) -> None:
    """Refuse to mirror partitions again whose offset runs are lost, as `lost_runs` finds them.

    Raises:
        RefusedError: there are such partitions; the message names one.
    """
    lost = {} if flow.settings.is_external else await lost_runs(flow, positions, blocks)
    if lost:
        first = min(lost.values(), key=lambda position: (position.topic, position.partition))
        raise RefusedError(
            f"{flow.identity.name}: the {OFFSET_RUNS} of {counted(len(lost), 'partition')} are lost, for example of"
            f" {first.topic}-{first.partition}, mirrored up to offset {first.upstream_position}:"
            f" topic {flow.identity.runs_topic} on {flow.target.alias} was deleted or emptied",
            remedy=rebuild_lost_runs(flow.identity),
            code="runs_lost",
        )


async def lost_runs(
    flow: FlowContext,
    positions: Mapping[tuple[str, int], PositionRecord],
    blocks: Collection[tuple[str, int]],
) -> dict[tuple[str, int], PositionRecord]:
    """Positions of mirrored partitions without offset runs whose topic exists on both clusters.

    Topics count whether the file matches them or not: it may match them again. A worker stores a partition's first
    block before its first position, and ``flow forget`` deletes both.

    Args:
        flow: The flow of the positions.
        positions: The flow's recorded positions, by topic id and partition.
        blocks: The partitions whose offset runs are there.
    """
    without = {place: p for place, p in positions.items() if place not in blocks and was_mirrored(p)}
    if not without:
        return {}
    there = await flow.target.refresh({p.target_topic for p in without.values()})
    gone = await gone_for_good(flow.source, {(p.topic, TopicId(p.topic_id)) for p in without.values()})
    return {
        place: p
        for place, p in without.items()
        if p.target_topic in there
        and there[p.target_topic].error_code == Code.NONE
        and (p.topic, p.topic_id) not in gone
    }


def was_mirrored(position: PositionRecord) -> bool:
    """Whether the target holds records of the partition, as far as its worker has reported."""
    return position.downstream_position > 0 and position.state != State.STARTING
