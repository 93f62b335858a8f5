"""Detect whether MirrorMaker 2 runs a flow: MM2 and mmtool must never write to the same topics at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.config.aliases import workers_groups
from mmtool.errors import NotAuthorisedError, OwnedElsewhereError, UnreachableError
from mmtool.events import Event, NoticeDeduplicator, flow_notice
from mmtool.kafka.errors import awaited
from mmtool.kafka.groups.lease import described
from mmtool.kafka.mirror_maker import syncs_place
from mmtool.kafka.state.own_log import foreign_records
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets, read_range
from mmtool.replication.driver.context import FlowContext, connect
from mmtool.runtime.threads import run_loop
from mmtool.translation.mm2_records import Heartbeat, OffsetSync, decode_heartbeat, decode_offset_sync
from mmtool.translation.names import RenamePolicy, TopicAliases
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import FlowSettings
    from mmtool.kafka.batches import Record
    from mmtool.kafka.wire.groups import DescribedGroup

    Say = Callable[[str], None]
    Judge = Callable[[FlowSettings, Record], bool]


RECENT_SECONDS = 15.0
BY_MIRROR_MAKER = "mirror_maker"
"""The error code of the refusal where MirrorMaker 2 runs a flow."""
_SILENT_SECONDS = 5.0
"""Seconds of silence after MM2's workers have left their group: five of its heartbeats."""
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Sign:
    """The evidence that MM2 runs a flow.

    Attributes:
        sentence: The evidence in words; unchanged while the evidence is the same.
        last_written: The newest offset seen of its records; empty when the evidence is its workers' group.
        workers_left: Its group exists without members, so recent records may be its last ones.
    """

    sentence: str
    last_written: tuple[int, ...] = ()
    workers_left: bool = False

    @property
    def silence_seconds(self) -> float:
        """Seconds without a new record after which MM2 has stopped, whatever timestamp its last record has."""
        return _SILENT_SECONDS if self.workers_left else RECENT_SECONDS


@dataclass(slots=True)
class MirrorMakerGuard:
    """Looks for MirrorMaker 2 on one flow; read-only.

    Attributes:
        warnings: The list that collects sentences for the operator.
    """

    flow: FlowContext
    warnings: list[str]
    _denied: set[str] = field(default_factory=set)

    async def refuse(self, say: Say) -> None:
        """Check that MM2 does not run the flow, and refuse the flow otherwise.

        If MM2's workers have just left, this waits a few seconds to see whether new records still appear.

        Raises:
            OwnedElsewhereError: MM2 runs the flow; the message names the evidence.
            UnreachableError: a cluster does not answer.
        """
        sign = await self.look()
        self._warn_of_unseen(sign)
        if sign is None or (sign.workers_left and await self._falls_silent(sign, say)):
            return
        name = self.flow.settings.name
        if not writes_same_topics(self.flow.settings):
            if self.flow.settings.emit_offset_syncs or self.flow.settings.emit_checkpoints:
                self.warnings.append(
                    f"{name}: MirrorMaker 2 runs between these clusters too, under other topic names ({sign.sentence}),"
                    f" and mmtool writes to the same offset-syncs and checkpoints topics: set"
                    f" {name}.emit.offset-syncs.enabled = false and {name}.emit.checkpoints.enabled = false in mmtool's"
                    " file"
                )
            return
        raise OwnedElsewhereError(
            f"MirrorMaker 2 runs flow {name}: {sign.sentence}",
            remedy=_stop(sign, self.flow.settings),
            code=BY_MIRROR_MAKER,
        )

    async def wait_until_stopped(self, say: Say) -> None:
        """Wait for as long as MM2 runs the flow; ``say`` is called with the evidence."""
        if not writes_same_topics(self.flow.settings):
            return
        sayings, last_written, silent_since = NoticeDeduplicator(say), None, time.monotonic()
        seen = False
        while (sign := await self._look_again(sayings)) is not None:
            seen = True
            said = f"waiting until MirrorMaker 2 has stopped: {sign.sentence}"
            sayings.once("it", flow_notice(self.flow.settings.name, said, Event.MIRROR_MAKER_SEEN))
            if sign.last_written != last_written or not sign.last_written:
                last_written, silent_since = sign.last_written, time.monotonic()
            elif time.monotonic() - silent_since > sign.silence_seconds:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        if not seen:
            self._warn_of_unseen(None)

    async def look(self) -> Sign | None:
        """The evidence that MM2 runs the flow now; None if there is none."""
        groups, lately = await asyncio.gather(self._workers(), self._written_lately())
        working = [group for group in groups if group.members]
        if working:
            group, count = working[0], len(working[0].members) - 1
            first, more = group.members[0], f" and {count} more" if count else ""
            return Sign(
                f"its group {group.group} on {self.flow.target.alias} has members: {first.client_id} on"
                f" {first.host.lstrip('/')}{more}"
            )
        if not lately:
            return None
        where, offsets = zip(*lately, strict=True)
        left = any(group.state == "Empty" for group in groups)
        return Sign(f"it wrote to {' and '.join(where)} in the last {RECENT_SECONDS:g} s", offsets, left)

    async def _look_again(self, sayings: NoticeDeduplicator) -> Sign | None:
        """The result of `look`, repeated while a cluster does not answer."""
        while True:
            try:
                sign = await self.look()
            except (UnreachableError, ConnectionLostError) as away:
                said = flow_notice(self.flow.settings.name, awaited(away), Event.CLUSTER_AWAY)
                sayings.once("clusters", said)
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                sayings.is_well("clusters")
                return sign

    async def _falls_silent(self, sign: Sign, say: Say) -> bool:
        said = f"MirrorMaker 2's workers have left their group, but {sign.sentence}: checking whether it has stopped"
        say(flow_notice(self.flow.settings.name, said, Event.MIRROR_MAKER_SEEN))
        deadline = time.monotonic() + sign.silence_seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            now = await self.look()
            if now is None:
                return True
            if now.last_written != sign.last_written:
                return False
        return True

    async def _workers(self) -> list[DescribedGroup]:
        """The groups of which MM2's workers may be members, except those that may not be described."""
        likeliest, *guessed = workers_groups(self.flow.settings)
        found = await asyncio.gather(
            self._described(likeliest), *(self._described(name, guessed=True) for name in guessed)
        )
        return [group for group in found if group is not None]

    async def _described(self, group: str, *, guessed: bool = False) -> DescribedGroup | None:
        """One group; None if describing it is denied, which is reported once, but not for a guessed name."""
        try:
            return await described(self.flow.target, group)
        except NotAuthorisedError as denied:
            if not guessed:
                self._warn_of_denied(denied)
            return None

    async def _written_lately(self) -> list[tuple[str, int]]:
        """The topics that MM2 writes beside the mirrored ones, and that had records about this flow lately."""
        settings = self.flow.settings
        cluster, syncs = syncs_place(settings)
        at = self.flow.source if cluster is settings.source else self.flow.target
        found = await asyncio.gather(
            self._lately(self.flow.target, settings.policy.heartbeats_topic(), _beats_for),
            self._lately(at, syncs, _maps_for),
        )
        return [written for written in found if written is not None]

    async def _lately(self, cluster: WireCluster, topic: str, is_about: Judge) -> tuple[str, int] | None:
        """The topic and newest offset of recent foreign records about this flow; None if there are none."""
        try:
            records = await _written_since(cluster, topic, int((time.time() - RECENT_SECONDS) * 1000))
        except (NotAuthorisedError, ConnectionLostError) as denied:
            self._warn_of_denied(denied)
            return None
        ours = [record.offset for record in records if is_about(self.flow.settings, record)]
        return (f"{topic} on {cluster.alias}", max(ours)) if ours else None

    def _warn_of_denied(self, denied: Exception) -> None:
        if str(denied) not in self._denied:
            self._denied.add(str(denied))
            is_denied = isinstance(denied, NotAuthorisedError)
            helps = "grant the right" if is_denied else "check the brokers of both clusters"
            self.warnings.append(
                f"{self.flow.settings.name}: mmtool cannot see whether MirrorMaker 2 runs this flow as well: {denied};"
                f" {helps}, or make sure that MirrorMaker 2 does not run the flow"
            )

    def _warn_of_unseen(self, sign: Sign | None) -> None:
        """Warn if the file turns heartbeats and offset syncs off: MM2 in a Connect cluster then leaves no trace."""
        here = self.flow.settings
        if (
            sign is None
            and not here.emit_heartbeats
            and not here.emit_offset_syncs
            and writes_same_topics(here)
        ):
            groups = ", ".join(workers_groups(here))
            self.warnings.append(
                f"{here.name}: emit.heartbeats.enabled and emit.offset-syncs.enabled are false: mmtool sees a running"
                f" MirrorMaker 2 only by its workers' group ({groups} on {here.target.alias}); make sure that no"
                " MirrorMaker 2 with another group runs this flow"
            )


def writes_same_topics(flow: FlowSettings) -> bool:
    """Whether MM2 could give the flow's topics the same names as mmtool: it knows no rename format."""
    policy, probe = flow.policy, "topic"
    if not isinstance(policy, RenamePolicy):
        return True
    named = {probe, policy.base.format_remote_topic(flow.topic_aliases.source, probe)}
    return flow.remote_topic(probe) in named


def sign_now(flow: FlowSettings, seconds: float) -> str:
    """The evidence, in words, that MM2 runs a flow now; empty if there is none. It needs no event loop.

    Raises:
        UnreachableError, NotAuthorisedError: a cluster does not answer within ``seconds``, or denies access.
    """
    return run_loop(_sign(flow, seconds))


async def _sign(flow: FlowSettings, seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds), await connect(flow) as context:
            sign = await MirrorMakerGuard(context, []).look()
    except TimeoutError:
        raise UnreachableError(
            f"it is unknown whether MirrorMaker 2 runs {flow.name}: {flow.source.alias} or"
            f" {flow.target.alias} did not answer within {seconds:g} s",
            remedy=f"check that {flow.source.alias} and {flow.target.alias} answer, then run the same command again",
        ) from None
    return "" if sign is None else sign.sentence


def _stop(sign: Sign, flow: FlowSettings) -> str:
    """How MM2 is stopped, by the evidence: a worker stays in its group when only its connectors stop."""
    take_over = "then run `mmtool replicate -c FILE --take-over`, which continues where MirrorMaker 2 stopped"
    if flow.offsets == "same":
        take_over = f"delete its mirrors on {flow.target.alias}, then run the same command again"
    if not sign.last_written:
        return (
            "stop MirrorMaker 2's processes, or the Connect workers in this group (they stay in it if only the"
            f" connectors stop), {take_over}"
        )
    return (
        f"stop MirrorMaker 2's connectors, {take_over}; if MirrorMaker 2 only sends heartbeats, set"
        f" {flow.name}.emit.heartbeats.enabled = false in MirrorMaker 2's file"
    )


async def _written_since(cluster: WireCluster, topic: str, since_ms: int) -> list[Record]:
    """Records that other programs wrote since ``since_ms`` to a topic of MM2's, which has one partition."""
    place = TopicPartition(topic, 0)
    starts, ends = await asyncio.gather(
        *(list_offsets(cluster, {place: when}, read_committed=False) for when in (since_ms, LATEST))
    )
    topic_id = cluster.topic_id(topic)
    if place not in starts or place not in ends or topic_id is None:
        return []
    views = read_range(cluster, topic, topic_id, 0, starts[place], ends[place], read_committed=False)
    return [r for r in foreign_records([view async for view in views]) if r.timestamp >= since_ms]


def _beats_for(flow: FlowSettings, record: Record) -> bool:
    beat = decode_heartbeat(record.key, record.value)
    return (
        isinstance(beat, Heartbeat)
        and TopicAliases(beat.source_alias, beat.target_alias) == flow.topic_aliases
    )


def _maps_for(flow: FlowSettings, record: Record) -> bool:
    sync = decode_offset_sync(record.key, record.value)
    return isinstance(sync, OffsetSync) and flow.mirrors_topic(sync.topic_partition.topic)


@dataclass(slots=True)
class MirrorMakerWatch:
    """Reports once that MM2 runs, and once that it has stopped.

    mmtool continues meanwhile: what MM2 copies is on the target twice, whichever of the two ends first, and only an
    operator knows which of them should run.

    Attributes:
        guard: Of the flow.
        say: Called with sentences for the operator.
    """

    guard: MirrorMakerGuard
    say: Callable[[str], None]
    _is_there: bool = False
    _since: float = field(default_factory=time.monotonic)

    async def perform(self) -> None:
        with suppress(UnreachableError, ConnectionLostError):  # others say that a cluster is away
            sign = await self.guard.look()
            # maybe the last records of an MM2 from which this process has just taken over
            is_recent = time.monotonic() - self._since < RECENT_SECONDS
            if sign is not None and not self._is_there and sign.last_written and is_recent:
                return
            name, was_there = self.guard.flow.settings.name, self._is_there
            self._is_there = sign is not None
            if sign is not None and not was_there:
                told = (
                    f"MirrorMaker 2 now runs this flow too: {sign.sentence}; stop MirrorMaker 2: the target gets each"
                    " record twice"
                )
                self.say(flow_notice(name, told, Event.MIRROR_MAKER_SEEN))
            elif sign is None and was_there:
                self.say(flow_notice(name, "MirrorMaker 2 has stopped", Event.MIRROR_MAKER_GONE))
