"""The options ``--fence`` and ``--fence-watch``: how producers are kept off the source during a failover."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import UsageError
from mmtool.plan.failover.choices import FenceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.plan.runbook.plan_file import SavedPlan


WATCH = timedelta(seconds=2)
Option = Annotated[
    FenceKind,
    typer.Option(
        "--fence",
        help="How producers are kept from writing to the groups' topics on the source. acl: DENY rules for the"
        " principals that may write; hook: the program that the key mmtool.hook.fence names; watch: mmtool only checks"
        " that you have stopped the producers; none: producers may keep writing.",
    ),
]
Watch = Annotated[
    timedelta,
    options.duration_option(
        "--fence-watch",
        "With --fence acl, hook or watch: how long the groups' topics on the source must get no record before the"
        " failover continues (default 2s).",
    ),
]


def said(saved: SavedPlan | None, fence: FenceKind, watch: timedelta) -> dict[str, str]:
    """The options as a plan keeps them: those of the saved one, or what the command line says."""
    if saved is not None:
        return dict(saved.options)
    more = {} if fence is FenceKind.NONE else {"fence_watch": f"{watch.total_seconds():g}s"}
    return {"fence": fence.value, **more}


def asked(flow: FlowSettings, said: Mapping[str, str], timeout: timedelta | None) -> FenceAsked | None:
    """What is asked for; None without a fence.

    Raises:
        UsageError: A hook is asked for, and none is configured.
    """
    from mmtool.failover.service.fence import fence_asked

    kind, watch = FenceKind(said["fence"]), options.duration(said.get("fence_watch", WATCH))
    if kind is FenceKind.HOOK and "fence" not in flow.hooks:
        raise UsageError(
            f"mmtool.hook.fence is not set for {flow.name}: --fence hook has nothing to run",
            remedy="in the properties file, set mmtool.hook.fence to the path of an executable; or, without --plan, use"
            " --fence acl or --fence watch",
        )
    return fence_asked(flow, kind, watch.total_seconds(), timeout or options.DEFAULT_TIMEOUT)
