"""Commands on clusters in memory: each meets a scene where it would connect to real ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kit.clusters import FakeFlowWatch
from kit.one_name import OneName
from kit.smoke import SmokeScene
from kit.there_and_back import ThereAndBack
from mmtool.insight.status import WatchedFlow

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.scene import Scene

    Patch = Callable[[str, object], None]

_CONNECT = "insight.flow_now.connect"
_CONNECTIONS = "failover.service.connections"


def wire_failovers(scene: Scene, patch: Patch) -> None:
    """`mmtool failover` works on the scene.

    Args:
        scene: The clusters.
        patch: Sets an attribute of ``mmtool``, by its dotted name, for as long as the test runs.
    """
    patch(_CONNECT, lambda *_, **__: scene.clusters)
    patch(f"{_CONNECTIONS}.engine_drain", lambda: scene)
    patch(f"{_CONNECTIONS}.fenced_cluster", lambda *_: (scene.source, scene.fences))
    patch(f"{_CONNECTIONS}.acls_to_read", lambda *_: scene.fences)
    patch(f"{_CONNECTIONS}.acls_of", lambda *_: scene.acls)
    patch(f"{_CONNECTIONS}.target_side", lambda *_: scene.side)
    patch(
        f"{_CONNECTIONS}.written_at",
        lambda found, *_: scene.source if found.mode == "failback" else scene.target,
    )
    patch(f"{_CONNECTIONS}.operation_lock_of", lambda *_: scene.lock)
    patch(f"{_CONNECTIONS}.tools", scene.tools)
    patch(f"{_CONNECTIONS}.journal", lambda *_, **__: scene.journal)
    if isinstance(scene, ThereAndBack):
        _wire_failbacks(scene, patch)


def wire(scene: Scene, patch: Patch) -> None:
    """Every command for operators works on the scene; arguments as for `wire_failovers`."""
    wire_failovers(scene, patch)
    patch(
        "commands._connections.watched_flows",
        lambda _, topics, _timeout: [replace(watched(scene), topics=tuple(topics or ()))],
    )
    if isinstance(scene, SmokeScene):
        patch(
            "commands._connections.smoke_flow",
            lambda _, timeout, command: scene.smoke_flow(timeout.total_seconds(), command),
        )


def watched(scene: Scene) -> WatchedFlow:
    """The scene's flow, for looking at."""
    watch = scene.state
    assert isinstance(watch, FakeFlowWatch)
    return WatchedFlow(replace(scene.clusters, state=watch), watch, (), scene.mm2)


def _wire_failbacks(scene: ThereAndBack, patch: Patch) -> None:
    patch(f"{_CONNECTIONS}.both_ways", lambda *_: scene.both)
    if isinstance(scene, OneName):
        patch("failover.service.connections.tail_appender", lambda *_: scene.writer)
