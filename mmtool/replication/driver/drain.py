"""Drain a flow for a failover: mirror up to the groups' commits, by the running owner or by this process.

Where MirrorMaker 2 runs the flow, this only waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mmtool.config import FlowSettings
from mmtool.errors import GateError, MmtoolError, OwnedElsewhereError, RefusedError
from mmtool.events import Event, NoticeDeduplicator, flow_notice
from mmtool.java import java_binary
from mmtool.kafka.groups.lease import holder_now
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.state_log import read_control, read_newest_blocks
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.output.progress import ProgressSnapshot
from mmtool.plan.records.documents import State
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.topics.facts import not_the_same
from mmtool.plan.words import are, counted
from mmtool.replication.driver.context import Place, connect
from mmtool.replication.driver.engine import Engine
from mmtool.replication.driver.progress import FlowsShown
from mmtool.replication.driver.supervisor import FlowSupervisor, RunOptions
from mmtool.replication.mm2.guard import BY_MIRROR_MAKER, MirrorMakerGuard
from mmtool.runtime.threads import in_thread, run_loop
from mmtool.translation.types import TopicId, TopicPartition, UpstreamOffset

_POLL_SECONDS = 0.5
_SPOKEN_OF_SECONDS = 30.0
"""An owner's workers report all partitions that they mirror every 10 s, once Spark is up."""


def drain_flow(
    flow: FlowSettings,
    until: Mapping[TopicPartition, UpstreamOffset],
    timeout_seconds: float | None,
    *,
    show: Callable[[Sequence[ProgressSnapshot]], None],
    say: Callable[[str], None],
) -> None:
    """Wait until the frontier of every partition of ``until`` has reached its offset.

    If a `replicate` runs the flow, this watches it; otherwise it takes the flow and runs the engine in this process.

    Args:
        flow: The flow to drain.
        until: The source offset to reach, by source partition.
        timeout_seconds: None waits as long as it takes.
        show: Called about twice a second with the flow's progress.
        say: Called with sentences for the operator.

    Raises:
        GateError: time ran out; what was mirrored meanwhile stays mirrored and harms nothing.
        RefusedError: a partition is not mirrored, or is halted.
        OwnedElsewhereError: MirrorMaker 2 runs the flow.
        MmtoolError: as `Engine.run`.
    """
    run_loop(Drain(flow, until, FlowsShown(show), NoticeDeduplicator(say)).run(timeout_seconds))


def await_mirror_maker(
    flow: FlowSettings,
    missing: Callable[[], int],
    timeout_seconds: float | None,
    *,
    say: Callable[[str], None],
) -> int:
    """Wait while MirrorMaker 2 runs a flow and has not copied all of its records.

    Args:
        flow: The flow.
        missing: Returns how many records are still to come, at most; asks both clusters.
        timeout_seconds: None waits as long as it takes.
        say: Called with a sentence for the operator when the number has changed.

    Returns:
        How many records were missing at the last check; if any are, nothing shows that MM2 runs the flow.

    Raises:
        GateError: time ran out; nothing was changed.
        UnreachableError, NotAuthorisedError: a cluster does not answer, or denies access.
    """
    return run_loop(_await(flow, missing, timeout_seconds, NoticeDeduplicator(say)))


async def _await(
    flow: FlowSettings, missing: Callable[[], int], timeout_seconds: float | None, sayings: NoticeDeduplicator
) -> int:
    context, left = await connect(flow), 0
    guard = MirrorMakerGuard(context, [])
    try:
        async with asyncio.timeout(timeout_seconds):
            while left := await in_thread(missing):
                if await guard.look() is None:
                    break
                said = f"waiting for MirrorMaker 2, which has up to {counted(left, 'record')} still to copy"
                sayings.once("left", flow_notice(flow.name, said, Event.PROGRESS, lag_records=left))
                await asyncio.sleep(_POLL_SECONDS)
            return left
    except TimeoutError:
        raise GateError(
            f"MirrorMaker 2 did not copy all records of flow {flow.name} within {timeout_seconds:g} s:"
            f" up to {counted(left, 'record')} {are(left)} missing",
            remedy="no offset was written; check MirrorMaker 2's connectors, then run the same command again with a"
            " longer --timeout",
        ) from None
    finally:
        await context.close()


@dataclass(slots=True)
class Drain:
    """The drain of one flow.

    Attributes:
        until: The source offset to reach, by source partition.
        goal: The same by topic id, by which mirrors are known.
        names: The topics of the goal.
    """

    flow: FlowSettings
    until: Mapping[TopicPartition, UpstreamOffset]
    shown: FlowsShown
    sayings: NoticeDeduplicator
    identity: FlowIdentity = field(init=False)
    goal: dict[Place, UpstreamOffset] = field(init=False)
    names: dict[TopicId, str] = field(init=False)
    _unspoken: dict[Place, float] = field(default_factory=dict)

    async def run(self, timeout_seconds: float | None) -> None:
        """Drain the flow; raises as `drain_flow`."""
        await self._locate()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.reach()
        except TimeoutError:
            raise GateError(
                f"flow {self.flow.name} did not mirror the remaining records within {timeout_seconds:g} s",
                remedy="no offset was written; `mmtool status -c FILE` shows the lag and partitions that are not"
                " mirrored; run the same command again with a longer --timeout",
            ) from None

    async def _locate(self) -> None:
        async with await connect(self.flow) as context:
            found = await context.source.refresh({tp.topic for tp in self.until})
        self.identity = context.identity
        self.goal = {(found[tp.topic].topic_id, tp.partition): end for tp, end in self.until.items()}
        self.names = {found[tp.topic].topic_id: tp.topic for tp in self.until}

    async def _await_other(self) -> None:
        """Wait until the system that keeps the flow's mirrors has brought their ends to the goal."""
        remote = self.flow.remote_topic
        downs = {TopicPartition(remote(at.topic), at.partition): end for at, end in self.until.items()}
        async with await connect(self.flow) as context:
            while True:
                self._refuse_held(await self._control())
                await context.target.refresh({down.topic for down in downs})
                ends = await list_offsets(context.target, dict.fromkeys(downs, LATEST), read_committed=False)
                left = sum(max(0, end - ends.get(down, 0)) for down, end in downs.items())
                if not left:
                    return
                said = f"waiting for the system that keeps the mirrors: {counted(left, 'offset')} left"
                self.sayings.once("left", flow_notice(self.flow.name, said, Event.PROGRESS, lag_records=left))
                await asyncio.sleep(_POLL_SECONDS)

    async def reach(self) -> None:
        """Watch the flow's owner, or run the flow, until the goal is reached."""
        if self.flow.is_external:
            await self._await_other()
            return
        while not await self._is_reached():
            self._refuse_held(await self._control())
            # a living owner is watched, not replaced
            if await in_thread(holder_now, self.flow.target, self.identity.ownership_group) is not None:
                await self._watch()
                continue
            java_binary()  # asked for only here: starting it takes a part of a second that whoever watches has not
            goal = {self.flow.name: {place: int(offset) for place, offset in self.goal.items()}}
            flows = FlowSupervisor([self.flow], RunOptions(until=goal), asyncio.Event(), self.sayings.say)
            try:
                await Engine(flows, self.shown.runs).run()
            except OwnedElsewhereError as error:
                if error.code == BY_MIRROR_MAKER:
                    raise  # it mirrors, but makes no offset runs that could be waited for
                await asyncio.sleep(_POLL_SECONDS)
                continue
            await self._watch()
            if not await self._is_reached():
                raise MmtoolError(
                    f"flow {self.flow.name} stopped before it had mirrored the remaining records",
                    remedy="no offset was written; run the same command again; if this happens again, `mmtool status -c"
                    " FILE` shows which partitions are not mirrored, and why",
                )

    async def _is_reached(self) -> bool:
        blocks = await in_thread(read_newest_blocks, self.flow.target, self.identity)
        return all(at in blocks and blocks[at].tail.upstream_frontier >= end for at, end in self.goal.items())

    async def _control(self) -> ControlView:
        return await in_thread(read_control, self.flow.target, self.identity)

    async def _watch(self) -> None:
        """Show how far the flow's running owner is; refuse to wait for partitions that are halted or held."""
        control = await self._control()
        self._refuse_halted(control)
        self._refuse_held(control)
        self.shown.watched(self.flow.name, control.positions.values())
        self._tell_unspoken(control)
        await asyncio.sleep(_POLL_SECONDS)

    def _tell_unspoken(self, control: ControlView) -> None:
        """Warn of the goal's topics that the owner has not reported for 30 s: its file does not select them."""
        now, before = asyncio.get_running_loop().time(), self._unspoken
        self._unspoken = {}
        for place, end in self.goal.items():
            position, owner = control.positions.get(place), control.owner
            is_under_way = (
                position is not None
                and owner is not None
                and (position.upstream_position >= end or position.owner == owner.owner)
            )
            if not is_under_way:
                self._unspoken[place] = before.get(place, now)
        late = {place[0] for place, began in self._unspoken.items() if now - began >= _SPOKEN_OF_SECONDS}
        if late:
            topics = ", ".join(sorted(self.names[topic_id] for topic_id in late))
            said = (
                f"the running `mmtool replicate` does not mirror {topics} yet: `mmtool status -c FILE` shows whether"
                " its Spark lacks slots; if not, check `topics`, topics.exclude and refresh.topics.* in the properties"
                " file of that `mmtool replicate`"
            )
            self.sayings.once("unspoken", flow_notice(self.flow.name, said))

    def _refuse_halted(self, control: ControlView) -> None:
        """Refuse to wait for a partition that is halted, or whose topic is refused, until an operator has acted.

        Raises:
            RefusedError: a partition of the goal is halted, or its topic is not mirrored at all.
        """
        positions = control.positions
        mirrored = {
            topic: {TopicId(p.topic_id) for p in positions.values() if p.topic == topic}
            for topic in self.names.values()
        }
        new = {t for topic_id, t in self.names.items() if not_the_same(t, topic_id, mirrored[t])}
        refused = control.refused_beside(new)
        for topic_id, partition in self.goal:
            position, topic = positions.get((topic_id, partition)), self.names[topic_id]
            what, why = topic, refused.get(topic)
            if position is not None and position.state == State.HALTED:
                what, why = f"{topic}-{partition}", position.reason
            elif topic in new:  # its owner may not have looked yet
                again, kept_in = self.flow.begins_again, self.flow.kept_in(topic)
                why = (
                    not_the_same(topic, topic_id, mirrored[topic], begins_again=again, kept_in=kept_in) or why
                )
            if why is not None:
                raise RefusedError(
                    f"the remaining records of {what} cannot be mirrored: {why}",
                    remedy="remove this cause, then run the same command again",
                )

    def _refuse_held(self, control: ControlView) -> None:
        """Refuse to wait for partitions that are paused or have failed over, because no process mirrors them.

        Raises:
            RefusedError: a partition of the goal is held.
        """
        for topic_id, _ in self.goal:
            hold = control.holds.of(topic_id, self.names[topic_id])
            if hold is not None:
                raise RefusedError(
                    f"the remaining records of {hold.what} cannot be mirrored: {hold.reason}",
                    remedy=hold.remedy,
                    code=hold.state,
                )
