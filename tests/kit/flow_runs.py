"""As much of a `FlowRun` as a look for topics touches, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mmtool.config.settings import Transforms
from mmtool.plan.flow.phases import FlowPhase
from mmtool.plan.records.holds import Holds
from mmtool.plan.records.identity import FlowIdentity
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.ownership.ownership import FlowLife
from mmtool.replication.same_offsets.prefill import Prefills
from mmtool.replication.topics.mirror_topics import TopicsView
from mmtool.replication.topics.start_offsets import FirstSizes
from mmtool.translation.types import ClusterId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def no_transform(_topic: str) -> None:
    """No topic's records are changed."""


def run_of(refresh: Callable[..., Awaitable[TopicsView]]) -> FlowRun:
    """The run of flow ``a->b``, which has seen nothing yet.

    Args:
        refresh: What a look at both clusters finds.
    """

    async def nothing_left(*_: object) -> dict[Any, Any]:
        return {}

    async def all_of(_: object, unknown: Any) -> Any:
        return unknown

    async def as_begun(_standing: object, begun: Any, _shards: object) -> Any:
        return begun

    settings = SimpleNamespace(
        offsets="translated",
        is_external=False,
        keeps_offsets=lambda _: False,
        kept_in=lambda _: "",
        refresh_topics=True,
        begins_again=False,
        name="a->b",
        remote_topic="source.{}".format,
        reads_committed=True,
        transforms=Transforms(),
        unused_transforms=lambda _: (),
    )
    identity = FlowIdentity(ClusterId("source"), ClusterId("target"), "a", "b")
    run = FlowRun.__new__(FlowRun)
    flow: Any = SimpleNamespace(settings=settings, source=None, identity=identity)
    vars(run).update(
        flow=flow,
        prefills=Prefills(flow, "owner-1", Holds, [], []),
        beside=(),
        owner="owner-1",
        warnings=[],
        life=FlowLife(FlowPhase.RUNNING),
        view=TopicsView(),
        standing=OwnedState({}),
        shard_count=4,
        _shipment=SimpleNamespace(of=no_transform, code=(b"", "")),
        halted={},
        watch=SimpleNamespace(positions={}, holds=Holds(), news=[], offset=0),
        _topics=SimpleNamespace(refresh=refresh),
        _refusals=SimpleNamespace(tell=nothing_left),
        _predecessor=SimpleNamespace(take_over=False, starts=nothing_left, record=as_begun),
        _led=SimpleNamespace(of=all_of),
        _fresh={},
        _sizes=FirstSizes(),
        _tallies={},
        _positions={},
        _sequences={},
        goal={},
        _unused=(),
    )
    return run
