"""``flow rebuild``: derive offset runs from both logs where the stored ones are lost, damaged or unreadable.

What a crash leaves: new blocks over a part of the old ones. Either they agree, or they read as broken and are derived
again. From its first new block on, a partition always has a block, so it never reads as never mirrored. Shards that
were in doubt stay in doubt: the next `replicate` recovers their other partitions.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, RefusedError, UnreachableError
from mmtool.kafka.batches import BatchError, BatchView
from mmtool.kafka.state.own_log import append_records
from mmtool.kafka.state.state_log import (
    RunsLog,
    read_control,
    read_control_of_run,
    read_producers,
    read_runs_log,
)
from mmtool.kafka.wire.cluster import ConnectionLostError, UnreadableLogError, WireCluster, remedy_after
from mmtool.kafka.wire.scan import log_bounds, read_range
from mmtool.plan.flow.moves import MISSING, Action, FlowRow, forget_missing
from mmtool.plan.records.documents import WHOLE_FLOW, PauseRecord, PositionRecord
from mmtool.plan.records.identity import runs_partition_of, shard_of
from mmtool.plan.words import counted
from mmtool.replication.driver.context import FlowContext, connect
from mmtool.replication.flow_state.flow_moves import borrowed, joined, owned, owner_now
from mmtool.replication.ownership.checks import lost_runs, resume_after_loss, was_mirrored
from mmtool.replication.ownership.claim_and_recover import claim_blindly, doubtful
from mmtool.replication.ownership.internal_topics import (
    closed_records,
    flow_record,
    make_internal_topics,
    owner_record,
    write_documents,
)
from mmtool.replication.ownership.ownership import FlowLife, Ownership
from mmtool.replication.pump.state_writer import store_records
from mmtool.replication.recovery.recover_partition import RecordPrints
from mmtool.replication.topics.origins import Origins
from mmtool.runtime.process import operator
from mmtool.runtime.threads import in_thread, run_loop
from mmtool.transforms.source import UnmadeError
from mmtool.translation.answers import Reason
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.blocks import MirroredPartition, MirrorStart, SeenOffset, WriterState
from mmtool.translation.derive import (
    NOTHING_TOLD,
    AmbiguousError,
    KnownOffsets,
    derive,
    gaps_between,
    next_record,
)
from mmtool.translation.recorder import OPEN_RUNS, MapRecorder
from mmtool.translation.types import DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.flow.status import FlowMember
    from mmtool.replication.spark.assignment import ShardAssignment
    from mmtool.translation.runs import RunMap

Place = tuple[TopicId, int]


@dataclass(slots=True)
class Rebuilt:
    """What can be derived from both logs, judged by the current state.

    Attributes:
        named: Topics that are derived whatever is stored of them; without any, missing or broken maps are.
        anew: The control topic is lost and offset runs are not: all maps are derived, and the control topic is created.
        strays: Records of the offset-runs topic that mmtool did not write.
        owner: The process that owns the flow, so that nothing can be stored now; None without an owner.
    """

    flow: FlowNow
    named: Collection[str]
    anew: bool = False
    parts: dict[Place, Derived] = field(default_factory=dict)
    strays: int = 0
    owner: FlowMember | None = None

    @property
    def rows(self) -> list[FlowRow]:
        """One row per partition that was compared, ordered by topic and partition."""
        names = self.flow.identity.source_alias, self.flow.identity.target_alias
        ordered = sorted(
            self.parts.values(), key=lambda part: (part.about.source_topic, part.about.partition)
        )
        return [part.row(*names) for part in ordered]

    @property
    def told(self) -> dict[Place, Derived]:
        """The partitions whose derived map is to be stored."""
        return {place: part for place, part in self.parts.items() if part.recorder is not None}

    @property
    def is_needed(self) -> bool:
        """Whether executing the rebuild would change anything."""
        return bool(self.anew or self.strays or self.told)

    @property
    def sentences(self) -> list[str]:
        """What the rebuild does, in sentences for the operator who confirms it."""
        said = []
        if self.told:
            records = sum(part.mapped for part in self.told.values())
            said.append(
                f"the rebuild stores the exact target offsets of {counted(records, 'record')} in"
                f" {counted(len(self.told), 'partition')}; committed offsets before the first of these records can no"
                " longer be translated (reason not_mirrored)"
            )
        if self.strays:
            said.append(
                f"the rebuild removes {counted(self.strays, 'record')} from topic {self.flow.identity.runs_topic}:"
                " mmtool did not write them"
            )
        if self.anew:
            said.append(
                f"the rebuild recreates the control topic {self.flow.identity.control_topic} on"
                f" {self.flow.identity.target_alias}, and pauses the flow. mmtool no longer knows which topics had"
                f" failed over or were paused. After the rebuild, {resume_after_loss(self.flow.identity)}"
            )
        return said

    @property
    def refusal(self) -> MmtoolError | None:
        """The error that prevents storing the derived maps now; None if nothing does."""
        refused = [part for part in self.parts.values() if part.refusal]
        if refused:
            about = refused[0].about
            return RefusedError(
                f"{counted(len(refused), 'partition')} cannot be rebuilt, for example"
                f" {about.source_topic}-{about.partition}: {refused[0].refusal} ({_MEANING[refused[0].refusal]})",
                remedy=f"rebuild the other topics with --topic; {self._way_on(refused[0].refusal)}",
                code=refused[0].refusal,
            )
        if self.owner is not None and self.is_needed:
            return owned(self.flow.identity.name, self.owner)
        return None

    def _way_on(self, reason: str) -> str:
        """The remedy for topics with a partition that cannot be rebuilt."""
        flow = self.flow.identity.options
        if reason == Reason.PARTITION_MISSING:
            return forget_missing(flow)
        return (
            f"`mmtool flow forget {flow} --topic TOPIC --execute` lets the next start of `mmtool replicate` mirror a"
            " topic again from `mmtool.start`"
        )


_MEANING: dict[str, str] = {
    Reason.AMBIGUOUS: "the records do not show which offsets of the two logs belong together",
    Reason.PARTITION_MISSING: MISSING,
}
"""Why a partition cannot be rebuilt, by the reason; there are no others."""


def rehearse_rebuild(flow: FlowNow, topics: Collection[str]) -> Rebuilt:
    """Derive the maps that are missing or broken, or those of ``topics``, from both logs; store nothing.

    Holds 24 bytes per surviving record of one partition at a time.

    Raises:
        RefusedError: the flow never ran, or its control topic cannot be read.
        UnreachableError, NotAuthorisedError: as the clusters answer.
    """
    control = _control(flow)
    rebuilt = run_loop(_rehearse(flow, topics, control))
    rebuilt.owner = owner_now(flow)
    return rebuilt


def execute_rebuild(rebuilt: Rebuilt, say: Callable[[str], None]) -> list[FlowRow]:
    """Own the flow, fence it, derive the maps again, store them and release the flow; return the rows.

    Raises:
        OwnedElsewhereError: another process runs the flow.
        RefusedError: after fencing, no map can be derived from the logs any more; nothing was stored.
        UnreachableError, NotAuthorisedError: as the clusters answer.
    """
    return run_loop(_execute(rebuilt, say))


def _control(flow: FlowNow) -> ControlView:
    """The flow's state on the control topic, without a flow record if that topic is lost and offset runs are not.

    Raises:
        RefusedError: the flow never ran, or the control topic cannot be read.
    """
    target, identity = flow.clusters.settings.target, flow.identity
    control = read_control(target, identity)
    if control.flow is None and not read_runs_log(target, identity).keys:
        return read_control_of_run(target, identity, "rebuild")
    return control


async def _rehearse(flow: FlowNow, topics: Collection[str], control: ControlView) -> Rebuilt:
    async with await connect(flow.clusters.settings) as context:
        try:
            return (await _derive(context, flow, topics, control))[0]
        except ConnectionLostError as error:
            again = remedy_after(error, "run the same command again")
            raise UnreachableError(f"flow {flow.identity.name}: {error}", remedy=again) from error


async def _derive(
    context: FlowContext, flow: FlowNow, named: Collection[str], control: ControlView
) -> tuple[Rebuilt, RunsLog]:
    log = await in_thread(read_runs_log, flow.clusters.settings.target, flow.identity)
    producers = await in_thread(read_producers, flow.clusters.settings.target)
    ours = {p.producer_id for p in producers.values() if p.flow == flow.identity.flow}
    origins = Origins.of(context.settings, context.identity, context.source)
    anew = control.flow is None
    rebuilt = Rebuilt(flow, named, anew, strays=sum(map(len, log.strays.values())))
    healthy = log.keys.keys() - log.broken
    lost = {} if flow.narrowed else await lost_runs(context, control.positions, healthy)
    for place, about in _partitions(flow, lost).items():
        if anew or about.source_topic in named or not (named or place in healthy):
            of_place = [b for key, b in log.blocks.items() if (key.topic_id, key.partition) == place]
            before = max(b.tail.upstream_frontier for b in of_place) if place in healthy else None
            position = control.positions.get(place)
            told = (
                NOTHING_TOLD
                if position is None
                else KnownOffsets(position.upstream_position, position.downstream_position)
            )
            rebuilt.parts[place] = await derive_partition(context, about, before, ours, origins, told)
    return rebuilt, log


def _partitions(
    flow: FlowNow, past: Mapping[tuple[str, int], PositionRecord]
) -> dict[Place, MirroredPartition]:
    """The flow's existing partitions, and those of ``past``, whose topics its file may no longer match."""
    identity = flow.identity
    names = {(TopicId(topic_id), n): (p.topic, p.target_topic) for (topic_id, n), p in past.items()}
    for topic in flow.topics.values():
        present = topic.name, flow.remote(topic.name)
        names |= {(topic.topic_id, number): present for number in range(topic.partitions)}
    return {
        place: MirroredPartition(
            identity.source_id,
            identity.target_id,
            *place,
            source,
            target,
            flow.target_topics[target].topic_id if target in flow.target_topics else TopicId(""),
        )
        for place, (source, target) in names.items()
    }


# --- derived ----------------------------------------------------------------------------------------------

_UNNAMED = WriterState(0, 0, 0)
"""The producer state until the shard's claim is known, which is before anything is stored."""


@dataclass(slots=True)
class Derived:
    """One partition's map as derived from both logs, or why there is none.

    Attributes:
        before: The frontier of the stored map; None where that cannot be read.
        recorder: The offset runs to store; None where nothing is to be stored.
        mapped: Records whose offsets on both sides are known.
        refusal: Why no map can be derived; empty when it can, or need not.
        kept: Why the stored runs are kept and nothing is written.
    """

    about: MirroredPartition
    before: int | None = None
    recorder: MapRecorder | None = None
    mapped: int = 0
    refusal: str = ""
    kept: str = ""

    def row(self, source: str, target: str) -> FlowRow:
        """The partition's row in the output of `flow rebuild`, with the aliases of the flow's clusters."""
        tail = self.recorder.tail if self.recorder is not None else None
        action = Action.REFUSE if self.refusal else Action.KEEP if tail is None else Action.REBUILD
        return FlowRow(
            source=source,
            target=target,
            topic=self.about.source_topic,
            partition=self.about.partition,
            target_topic=self.about.target_topic,
            upstream_before=self.before,
            upstream_after=self.before if tail is None else tail.upstream_frontier,
            downstream_after=None if tail is None else tail.downstream_end.position,
            records_mapped=self.mapped,
            action=action,
            reason=self.refusal or self.kept,
        )


async def derive_partition(
    flow: FlowContext,
    about: MirroredPartition,
    before: int | None,
    ours: Collection[int],
    origins: Origins | None,
    told: KnownOffsets,
) -> Derived:
    """Derive one partition's offset runs by comparing the records of both logs.

    Args:
        flow: Its connections.
        about: The partition.
        before: The stored frontier; None where it cannot be read.
        ours: Producer ids under which this flow has mirrored.
        origins: Decides which records of the source the flow leaves out by their origin; None where it leaves out none.
        told: The last position of the mirror on the control topic.

    Raises:
        ConnectionLostError: a log could not be read.
    """
    up, down = about.upstream, about.downstream
    committed = flow.settings.reads_committed
    bounds = (await log_bounds(flow.source, [up], read_committed=committed)).get(up)
    target_bounds = (await log_bounds(flow.target, [down])).get(down)
    if bounds is None or target_bounds is None:
        return Derived(
            about, before, refusal="" if before is None else Reason.PARTITION_MISSING, kept="not mirrored"
        )
    there = await _read(flow.target, down, about.target_topic_id, target_bounds, ours=ours)
    if not there.offsets:
        kept = "the target partition holds no record that this flow wrote: there is nothing to rebuild"
        if before:  # a whole log was truncated: no runs are needed, because everything is mirrored again
            seek = f"`mmtool flow seek {flow.identity.options} --topic {about.source_topic} --to earliest --execute`"
            kept = (
                "the target partition holds no record that this flow wrote; to mirror topic"
                f" {about.source_topic} again: {seek}"
            )
        return Derived(about, before, kept=kept)
    try:
        here, version = await _read_source(flow, about, bounds, origins)
    except UnmadeError as error:
        return Derived(about, before, kept=error.reason)
    timed = there.keeps_time  # a topic with LogAppendTime has other times than its source
    source, target = here.logged(timed=timed), there.logged(timed=timed)
    try:
        runs = derive(source, target, told)
    except AmbiguousError:
        return Derived(about, before, refusal=Reason.AMBIGUOUS)
    if not len(runs):
        return Derived(about, before, refusal=Reason.AMBIGUOUS)
    recorder = _recorder(about, runs, gaps_between(source, runs), version)
    if flow.settings.keeps_offsets(about.source_topic):
        recorder.same_offsets = all(int(run.upstream_start) == run.downstream_start for run in runs)
    recorder.passed(next_record(source, runs.upstream_end, UpstreamOffset(bounds[1])))
    now_ms = int(time.time() * 1000)
    seen = [SeenOffset(UpstreamOffset(at), now_ms) for at in reversed(bounds)]
    recorder.saw_source(*seen)
    recorder.checked(DownstreamOffset(target_bounds[1]))
    return Derived(about, before, recorder, mapped=runs.records)


async def _read_source(
    flow: FlowContext, about: MirroredPartition, bounds: tuple[int, int], origins: Origins | None
) -> tuple[RecordPrints, str]:
    """The source's records as the flow mirrors them now, and the version of their transform; empty without one.

    Raises:
        UnmadeError: The transform does not take a record.
        UnreadableLogError, ConnectionLostError: As `_read`.
    """
    place, transforms = about.upstream, flow.transforms
    version = transforms.version(about.source_topic)
    committed = flow.settings.reads_committed
    try:
        here = await _read(
            flow.source,
            place,
            about.topic_id,
            bounds,
            origins=origins,
            read_committed=committed,
            made=(lambda view: transforms.made(place, view, range(*bounds), version)) if version else None,
        )
    finally:
        await transforms.close()
    return here, version


async def _read(
    cluster: WireCluster,
    place: TopicPartition,
    topic_id: TopicId,
    bounds: tuple[int, int],
    *,
    ours: Collection[int] | None = None,
    origins: Origins | None = None,
    read_committed: bool = False,
    made: Callable[[BatchView], Awaitable[BatchView]] | None = None,
) -> RecordPrints:
    """Fingerprints of a log's records within ``bounds``, without the records that are not the flow's.

    Those are records of other producers than ``ours``, or of an origin that ``origins`` leaves out. ``made`` returns
    what is mirrored of a batch.

    Raises:
        UnreadableLogError: a batch cannot be decoded.
        ConnectionLostError: the log could not be read.
    """
    log = RecordPrints()
    views: AsyncIterator[BatchView] = read_range(
        cluster, place.topic, topic_id, place.partition, *bounds, read_committed=read_committed
    )
    try:
        async for view in views:
            producer_id = view.header.producer_id
            if view.header.is_control or (ours is not None and producer_id not in ours):
                continue
            if origins is None or not await origins.leaves_out(place.topic, producer_id):
                log.take(view if made is None else await made(view))
    except BatchError as error:
        raise UnreadableLogError(f"{place} of {cluster.alias}: {error.message}") from error
    return log


def _recorder(
    about: MirroredPartition, runs: RunMap, behind_gaps: Collection[int], version: str
) -> MapRecorder:
    """A recorder that holds ``runs``, ready to be stored.

    Args:
        about: The partition.
        runs: At least one run.
        behind_gaps: Upstream starts of runs that follow source records that are not on the target.
        version: Of the transform by which all were compared; empty without one.
    """
    start = MirrorStart(runs.first.upstream_start, runs.first.downstream_start)
    recorder = MapRecorder.begin(about, start, max_runs=OPEN_RUNS)
    recorder.made_by(version)
    for run in runs:
        if run.upstream_start in behind_gaps:
            recorder.skip_to(run.upstream_start)
        recorder.appended(run.upstream_start, run.downstream_start, run.count, writer=_UNNAMED)
    return recorder


# --- executed ---------------------------------------------------------------------------------------------


async def _execute(rebuilt: Rebuilt, say: Callable[[str], None]) -> list[FlowRow]:
    flow = rebuilt.flow
    context = await connect(flow.clusters.settings)
    ownership = Ownership(context, FlowLife())

    async def close() -> None:
        await ownership.release()
        await context.close()

    async with borrowed(flow.identity.name, close, "run the same command again"):
        await make_internal_topics(context)  # the runs topic itself may be what was lost
        await joined(ownership.acquire(standby=False, say=say))
        return await _rebuild(context, rebuilt)


async def _rebuild(context: FlowContext, rebuilt: Rebuilt) -> list[FlowRow]:
    flow, owner = rebuilt.flow, uuid.uuid4().hex
    control = await in_thread(_control, flow)
    count = control.flow.shards if control.flow is not None else await in_thread(_shards, flow)
    doubt = doubtful(control) if control.flow is not None else set(range(count))
    topic = flow.identity.control_topic
    await write_documents(context, topic, [owner_record(owner)], tombstones=control.controls)
    shards = await claim_blindly(context, _writable(flow, control, doubt, count), count, owner)
    found, log = await _derive(context, flow, rebuilt.named, control)
    if found.refusal is not None:
        raise found.refusal
    await _store_all(context, found, log, shards, count)
    if found.anew:  # last: until then it is lost, and nothing is mirrored
        reason = (
            "the flow's control topic was lost: add topics that have failed over (`mmtool failover list -c FILE`) to"
            " topics.exclude before the pause ends"
        )
        at_ms = int(time.time() * 1000)
        pause = PauseRecord(WHOLE_FLOW, "", paused=True, by=operator(), since_ms=at_ms, reason=reason)
        await write_documents(context, topic, [replace(flow_record(context), shards=count), pause])
    closed = [s for s in shards.values() if s.shard not in doubt]
    await write_documents(context, topic, closed_records(closed, owner))
    return found.rows


def _shards(flow: FlowNow) -> int:
    """The flow's number of shards when its control topic is lost, from the producers that it registered.

    An owner claims all shards.
    """
    producers = read_producers(flow.clusters.settings.target).values()
    ours = [one.shard for one in producers if one.flow == flow.identity.flow]
    return max(ours) + 1 if ours else flow.clusters.settings.shards


def _writable(
    flow: FlowNow, control: ControlView, doubt: Collection[int], count: int
) -> dict[int, set[TopicPartition]]:
    """For each doubtful shard the target partitions to which its last owner may still append.

    The offset runs that would name them cannot be read.
    """
    places: dict[int, set[TopicPartition]] = {shard: set() for shard in doubt}
    past = {} if flow.narrowed else {place: p for place, p in control.positions.items() if was_mirrored(p)}
    for place, about in _partitions(flow, past).items():
        shard = shard_of(*place, count)
        keeps_offsets = flow.clusters.settings.keeps_offsets(about.source_topic)
        if shard in doubt and about.target_topic in flow.target_topics and not keeps_offsets:
            places[shard].add(about.downstream)
    return places


async def _store_all(
    context: FlowContext, found: Rebuilt, log: RunsLog, shards: dict[int, ShardAssignment], count: int
) -> None:
    records: dict[int, list[tuple[bytes, bytes | None]]] = defaultdict(list)
    for place, part in found.told.items():
        shard = shards[shard_of(*place, count)]
        assert part.recorder is not None
        part.recorder.claimed(WriterState(shard.producer_id, shard.epoch, 0))
        fresh = [(encode_key(block.key), encode_block(block)) for block in part.recorder.take()]
        kept = {key for key, _ in fresh}
        records[shard.shard] += fresh
        records[shard.shard] += [(key, None) for key in log.keys.get(place, ()) if key not in kept]
    for partition, strays in log.strays.items():
        struck_out = [(key, None) for key in strays]
        shard_there = next((shard for shard in shards if runs_partition_of(shard) == partition), None)
        if shard_there is None:  # nothing of ours is kept there, under any claim
            await append_records(context.target, context.identity.runs_topic, struck_out, partition=partition)
        else:
            records[shard_there] += struck_out
    for number, of in records.items():
        shards[number] = await store_records(context.target, context.identity, shards[number], of)
