"""``flow seek`` and ``flow forget``: move or delete stored offset runs, as the flow's temporary owner."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, OwnedElsewhereError, RefusedError, UnreachableError, UsageError
from mmtool.insight.partitions import partition_facts
from mmtool.kafka.groups.lease import holder_now
from mmtool.kafka.state.state_log import read_block_keys, read_control
from mmtool.kafka.wire.cluster import ConnectionLostError, remedy_after
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plain_text import did_you_mean, nearest
from mmtool.plan.flow.moves import (
    MISSING,
    Action,
    FlowRow,
    PositionMove,
    changes,
    forget_missing,
    plan_forget,
    plan_seek,
    refused,
    sentences,
)
from mmtool.plan.groups.offsets import Direction, PartitionFacts
from mmtool.plan.records.documents import position_key
from mmtool.plan.records.identity import shard_of
from mmtool.plan.words import counted, few, have
from mmtool.replication.control.control_follower import booked_position
from mmtool.replication.driver.context import connect
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.topics.start_offsets import partition_of, starts_at
from mmtool.runtime.threads import in_thread, run_loop
from mmtool.translation.answers import Reason
from mmtool.translation.blocks import BlockKey, MirrorStart, SeenOffset, WriterState
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import (
    UNKNOWN,
    DownstreamOffset,
    TopicId,
    TopicPartition,
    Unknown,
    UpstreamOffset,
)

if TYPE_CHECKING:
    from mmtool.config.values import RelativeStart, Start
    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.flow.status import FlowMember
    from mmtool.translation.partition_map import PartitionMap


Place = tuple[TopicId, int]
Moves = dict[Place, PositionMove]


@dataclass(frozen=True, slots=True)
class MoveRehearsal:
    """What would be moved, judged by the current state.

    Attributes:
        moves: By topic id and partition.
        again: Judges the same moves, to the same positions, once more: what is confirmed and what is done are the same.
        owner: The process that owns the flow, so that nothing can be moved now; None without an owner.
        is_to_a_time: Whether the positions were found by records' timestamps.
    """

    flow: FlowNow
    moves: Moves
    again: Callable[[], Moves]
    owner: FlowMember | None
    is_to_a_time: bool = False

    @property
    def rows(self) -> list[FlowRow]:
        """One row per partition, ordered by topic and partition."""
        return _rows(self.flow, self.moves)

    @property
    def sentences(self) -> list[str]:
        """What the moves do, in sentences for the operator who confirms them."""
        late = [move for move in self.moves.values() if self.is_to_a_time and move.is_to_the_end]
        said = (
            f"{counted(len(late), 'partition')} {have(len(late))} no record at or after the time of --to: the new"
            " position is the log end"
        )
        return ([said] if late else []) + sentences(self.moves.values(), self.flow.identity.target_alias)

    @property
    def is_needed(self) -> bool:
        """Whether executing the moves would change anything."""
        return changes(self.moves.values())

    @property
    def refusal(self) -> MmtoolError | None:
        """The error that prevents executing the moves now; None if nothing does."""
        if no := refusal_of(self.moves.values(), self.flow.identity.options):
            return no
        if self.owner is not None and self.is_needed:
            return owned(self.flow.identity.name, self.owner)
        return None


def refusal_of(moves: Collection[PositionMove], flow: str) -> RefusedError | None:
    """One error for all partitions that cannot be moved; None if each can.

    Args:
        moves: The moves.
        flow: The options that select the flow in a command.
    """
    found = refused(moves)
    if not found:
        return None
    known = {  # what each reason means, and what helps; there are no others
        Reason.BEYOND_SOURCE_END: (
            "the offset is after the end of the source's log",
            "name an offset up to the end of the source's log, which kafka-get-offsets.sh shows",
        ),
        Reason.PARTITION_MISSING: (
            MISSING,
            f"name only the other partitions, with --topic or --csv; {forget_missing(flow)}",
        ),
        Reason.WOULD_REWIND: (
            "its records keep the source's offsets, so a record is mirrored once",
            (
                "name an offset at or after the mirror's position; to mirror the topic again, delete it on the target"
                f" and run `mmtool flow forget {flow} --topic TOPIC --execute`"
            ),
        ),
    }
    said = "; ".join(
        f"{counted(len(of), 'partition')} cannot be moved, for example {of[0].facts.source}: {reason}"
        f" ({known[reason][0]})"
        for reason, of in sorted(found.items())
    )
    code = next(iter(found)) if len(found) == 1 else "refused"
    return RefusedError(said, remedy="; ".join(known[reason][1] for reason in sorted(found)), code=code)


def _rows(flow: FlowNow, moves: Moves) -> list[FlowRow]:
    source, target = flow.identity.source_alias, flow.identity.target_alias
    ordered = sorted(moves.values(), key=lambda move: move.facts.source)
    return [move.row(source, target) for move in ordered]


# --- rehearsed --------------------------------------------------------------------------------------------


def rehearse_seek(flow: FlowNow, to: Start | int | Mapping[TopicPartition, UpstreamOffset]) -> MoveRehearsal:
    """Work out the moves of `flow seek`, which make each mirror continue at ``to``, without executing them.

    Args:
        flow: The flow, narrowed to the selected topics.
        to: One start for all partitions, or an offset for each selected one.

    Raises:
        RefusedError: stored state cannot be read.
        UnreachableError, NotAuthorisedError: as the clusters answer.
    """
    topics = {place.topic for place in to} if isinstance(to, Mapping) else None
    facts = _facts(flow, topics)
    wanted = _positions(flow, facts, to)

    def judged(facts: Mapping[Place, PartitionFacts]) -> Moves:
        chosen = {place: of for place, of in facts.items() if of.source in wanted}
        return {place: plan_seek(of, wanted[of.source]) for place, of in chosen.items()}

    by_time = isinstance(to, datetime)
    return MoveRehearsal(flow, judged(facts), lambda: judged(_facts(flow, topics)), owner_now(flow), by_time)


def rehearse_forget(flow: FlowNow, topics: Collection[str]) -> MoveRehearsal:
    """Work out the moves of `flow forget`, which delete the stored state of ``topics``, without executing them.

    Without ``topics`` all stored state of the flow. Topics that the source or the filter no longer has are found by
    their stored state.

    Raises:
        UsageError: A named topic has no stored state.
        RefusedError: stored state cannot be read.
        UnreachableError, NotAuthorisedError: as the clusters answer.
    """
    of_these = topics or None
    known = {
        place: of for place, of in _facts(flow, of_these).items() if not topics or of.source.topic in topics
    }
    begins = _positions(flow, known, flow.clusters.settings.start)

    def judged() -> Moves:
        positions = read_control(flow.clusters.settings.target, flow.identity).positions
        facts = _facts(flow, of_these)
        for place, known in flow.clusters.state.maps(flow.identity).items():
            about = known.about
            facts.setdefault(place, _past(about.source_topic, about.target_topic, about.partition, known))
        for (topic_id, partition), position in positions.items():
            place = (TopicId(topic_id), partition)
            facts.setdefault(place, _past(position.topic, position.target_topic, partition, None))
        names = {of.source.topic for of in facts.values()}
        missing = sorted(set(topics) - names)
        if missing:
            name = flow.identity.name
            raise UsageError(
                f"{name} neither mirrors nor has stored state of {few(missing)}"
                + did_you_mean(nearest(topic, names) for topic in missing),
                remedy=f"name topics that `mmtool status {flow.identity.options}` shows",
            )
        return {
            place: plan_forget(of, begins.get(of.source, UNKNOWN), shown=place in positions)
            for place, of in facts.items()
            if not topics or of.source.topic in topics
        }

    return MoveRehearsal(flow, judged(), judged, owner_now(flow))


def _facts(flow: FlowNow, topics: Collection[str] | None) -> dict[Place, PartitionFacts]:
    """The flow's existing partitions; the log bounds of ``topics`` are required, of all topics where it is None."""
    facts = partition_facts(flow, Direction.FORWARD, topics=topics, complete=True)
    return {(flow.topics[at.topic].topic_id, at.partition): of for at, of in facts.items()}


def _past(source: str, target: str, partition: int, known: PartitionMap | None) -> PartitionFacts:
    places = TopicPartition(source, partition), TopicPartition(target, partition)
    return PartitionFacts(*places, known, UNKNOWN, UNKNOWN)


def _positions(
    flow: FlowNow,
    facts: Mapping[Place, PartitionFacts],
    to: RelativeStart | int | Mapping[TopicPartition, UpstreamOffset],
) -> dict[TopicPartition, UpstreamOffset | Unknown]:
    places = [of.source for of in facts.values()]
    if isinstance(to, int):
        return dict.fromkeys(places, UpstreamOffset(to))
    if isinstance(to, Mapping):
        missing = sorted(to.keys() - set(places))
        if missing:
            raise UsageError(
                f"flow {flow.identity.name} does not mirror {few(missing)}",
                remedy=f"name only partitions that {flow.identity.source_alias} has and that the flow mirrors",
            )
        return dict(to)
    found = run_loop(ask_starts(flow, places, to))
    return {place: UpstreamOffset(found[place]) if place in found else UNKNOWN for place in places}


async def ask_starts(
    flow: FlowNow, places: Collection[TopicPartition], start: RelativeStart
) -> dict[TopicPartition, int]:
    """Find start offsets as `starts_at` does, over connections that are opened for this call."""
    async with await connect(flow.clusters.settings) as context:
        return await starts_at(context, places, start)


# --- executed ---------------------------------------------------------------------------------------------


def execute(rehearsal: MoveRehearsal, say: Callable[[str], None]) -> list[FlowRow]:
    """Own the flow, execute the rehearsed moves and release the flow; return the rows of the executed moves.

    Args:
        rehearsal: The moves.
        say: Called with sentences for the operator.

    Raises:
        OwnedElsewhereError: another process runs the flow.
        RefusedError: the flow has changed since the rehearsal, so that the moves would differ.
        UnreachableError, NotAuthorisedError: as the clusters answer.
    """
    return run_loop(_execute(rehearsal, say))


async def _execute(rehearsal: MoveRehearsal, say: Callable[[str], None]) -> list[FlowRow]:
    again = "run the same command again: it completes the remaining partitions"
    run = FlowRun(await connect(rehearsal.flow.clusters.settings))
    clean = False
    async with borrowed(run.name, lambda: run.close(clean=clean), again):
        await run.check(say)
        await joined(run.join(standby=False, say=say))
        await run.take()
        clean = True
        moves = await in_thread(rehearsal.again)
        _refuse_other(rehearsal.moves, moves, run)
        if any(move.action is not Action.FORGET for move in moves.values()):
            await run.refresh()
        clean = False
        await _Mover(run).move(moves)
        clean = True
    return _rows(rehearsal.flow, moves)


def _refuse_other(asked: Moves, found: Moves, run: FlowRun) -> None:
    """Raise RefusedError if a move differs from the confirmed one, or skips records of a halted partition."""
    for place, move in found.items():
        before = asked.get(place)
        if before is None or before.action is not move.action:
            was = "none" if before is None else before.action
            raise RefusedError(
                f"the action for {move.facts.source} changed from {was} to {move.action} during this command;"
                " no partition was changed",
                remedy="run the same command without --execute to see what it does now",
                code="changed_meanwhile",
            )
        if move.action is Action.SKIP and place in run.standing.halted:
            raise RefusedError(
                f"{move.facts.source} was not moved: it is halted: {run.standing.halted[place].cause}",
                remedy=run.standing.way_on(place, run.flow.identity),
                code="halted",
            )


class _Mover:
    """Carries moves out for the owner of a flow."""

    def __init__(self, run: FlowRun) -> None:
        self._run = run
        self._keys: dict[Place, list[BlockKey]] = defaultdict(list)

    async def move(self, moves: Moves) -> None:
        flow = self._run.flow
        for key in sorted(await in_thread(read_block_keys, flow.settings.target, flow.identity)):
            self._keys[key.topic_id, key.partition].append(key)
        todo = {place: move for place, move in moves.items() if move.action is not Action.KEEP}
        for place, move in todo.items():
            match move.action:
                case Action.SKIP:
                    recorder = MapRecorder.resume(self._run.standing.blocks[place])
                    recorder.skip_to(_known(move.after))
                    await self._store(place, recorder)
                case Action.FORGET:
                    await self._strike_out(place, self._keys[place])
                    self._run.standing.forget(place)
                case _:
                    await self._begin_anew(place, move)
        await self._tell_watchers(todo)

    async def _begin_anew(self, place: Place, move: PositionMove) -> None:
        flow, source = self._run.flow, move.facts.source
        topic = self._run.view.topics.get(source.topic)
        if topic is None:
            why = self._run.view.refused.get(source.topic)
            if why is None:
                gone = f"topic {source.topic} no longer exists on {flow.source.alias}"
                raise RefusedError(
                    f"{gone}; partitions of other topics may already have been changed",
                    remedy=f"run the same command without {source.topic}: name the other topics with --topic, or leave"
                    " its lines out of the --csv file",
                )
            raise RefusedError(
                f"{source}: {why}", remedy="remove this cause, then run the same command again"
            )
        target = TopicPartition(topic.target_name, source.partition)
        ends = await list_offsets(flow.target, {target: LATEST}, read_committed=False)
        if target not in ends:
            raise UnreachableError(
                f"target partition {target} no longer exists on {flow.target.alias}",
                remedy="run the same command again: it creates missing target partitions",
            )
        start = MirrorStart(_known(move.after), DownstreamOffset(ends[target]))
        recorder = MapRecorder.begin(partition_of(flow, topic, source.partition), start)
        if move.facts.source_log is not UNKNOWN:
            log, now_ms = move.facts.source_log, int(time.time() * 1000)
            recorder.saw_source(SeenOffset(log.log_end, now_ms), SeenOffset(log.log_start, now_ms))
        await self._strike_out(place, self._keys[place][:-1])
        await self._store(place, recorder, struck_out=self._keys[place][-1:])

    async def _store(
        self, place: Place, recorder: MapRecorder, struck_out: Collection[BlockKey] = ()
    ) -> None:
        standing, shard = self._run.standing, shard_of(*place, self._run.shard_count)
        owner = standing.shards[shard]
        recorder.claimed(WriterState(owner.producer_id, owner.epoch, 0))
        blocks = recorder.take()
        replaced = [key for key in struck_out if key != blocks[0].key]
        await store_owned(self._run.flow, standing, shard, blocks, struck_out=replaced)
        standing.blocks[place] = blocks[-1]
        standing.halted.pop(place, None)

    async def _strike_out(self, place: Place, keys: Collection[BlockKey]) -> None:
        shard = shard_of(*place, self._run.shard_count)
        await store_owned(self._run.flow, self._run.standing, shard, struck_out=keys)

    async def _tell_watchers(self, moved: Moves) -> None:
        """Write the moved partitions' positions to the control topic, and tombstones for forgotten ones."""
        run = self._run
        run.halted.clear()
        run.halted.update(run.standing.halted)
        gone = {place for place, move in moved.items() if move.action is Action.FORGET}
        positions = [
            booked_position(p, run.owner)
            for p in run.partitions()
            if (p.topic_id, p.partition) in moved.keys() - gone
        ]
        strikes = [position_key(*place) for place in gone]
        await write_documents(run.flow, run.flow.identity.control_topic, positions, tombstones=strikes)


def _known(offset: UpstreamOffset | None) -> UpstreamOffset:
    assert offset is not None, "a move that was not refused says where to"
    return offset


def owner_now(flow: FlowNow) -> FlowMember | None:
    """The process that runs the flow now; None without an owner.

    Raises:
        UnreachableError, NotAuthorisedError: as `holder_now`.
    """
    return holder_now(flow.clusters.settings.target, flow.identity.ownership_group)


def owned(flow: str, owner: object) -> OwnedElsewhereError:
    """The error of a command that needs ``flow`` while ``owner`` runs it."""
    return _stop_first(f"flow {flow} is run by {owner}")


def _stop_first(message: str) -> OwnedElsewhereError:
    return OwnedElsewhereError(
        message,
        remedy="stop the process that owns the flow (`mmtool status -c FILE` names it), run this command again, then"
        " start `mmtool replicate`",
    )


async def joined(joining: Awaitable[None]) -> None:
    """Wait until this process owns the flow.

    Raises:
        OwnedElsewhereError: another process runs it; the error names the next step.
    """
    try:
        await joining
    except OwnedElsewhereError as error:
        raise _stop_first(error.message) from error


@asynccontextmanager
async def borrowed(name: str, close: Callable[[], Awaitable[None]], again: str) -> AsyncIterator[None]:
    """Wrap the work of a command that joins a flow: translate its errors, and always release the flow.

    Args:
        name: The flow's name.
        close: Releases the flow and closes its connections.
        again: What the operator does when the work was interrupted.

    Raises:
        OwnedElsewhereError: another process took the flow meanwhile.
        UnreachableError: a cluster did not answer, or its answer left a write in doubt.
    """
    try:
        yield
    except FencedError as error:
        raise _stop_first(
            f"another process took ownership of flow {name} during this command: {error}"
        ) from error
    except (InDoubtError, ConnectionLostError) as error:
        raise UnreachableError(f"flow {name}: {error}", remedy=remedy_after(error, again)) from error
    finally:
        await close()
