"""Own a flow for the length of one command: join, fence, do the work, and always release the flow."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.groups.lease import holder_now
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication.pump.errors import FencedError, InDoubtError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.flow.status import FlowMember


def owner_now(flow: FlowNow) -> FlowMember | None:
    """Who runs the flow; None when nobody does.

    Raises:
        UnreachableError, NotAuthorisedError: as `holder_now`.
    """
    return holder_now(flow.clusters.settings.target, flow.identity.ownership_group)


def owned(flow: str, owner: object, more: str = "") -> OwnedElsewhereError:
    """The error of a command that needs ``flow`` while ``owner`` runs it."""
    return _stop_first(f"flow {flow} is run by {owner}{more}")


def _stop_first(message: str) -> OwnedElsewhereError:
    remedy = "stop that replicate, run this command again, then start replicate again"
    return OwnedElsewhereError(message, remedy=remedy)


async def joined(joining: Awaitable[None]) -> None:
    """Waits until the flow is ours.

    Raises:
        OwnedElsewhereError: somebody runs it; says what comes first.
    """
    try:
        await joining
    except OwnedElsewhereError as error:
        raise _stop_first(error.message) from error


@asynccontextmanager
async def borrowed(name: str, close: Callable[[], Awaitable[None]], again: str) -> AsyncIterator[None]:
    """The time in which a command joins a flow and works on it; ``close`` lets it go, whatever happens.

    Args:
        name: The flow's.
        close: Leaves the flow and its clusters.
        again: What the operator does when the work was cut off.

    Raises:
        OwnedElsewhereError: another process took the flow meanwhile.
        UnreachableError: a cluster did not answer, or not clearly.
    """
    try:
        yield
    except FencedError as error:
        raise _stop_first(
            f"another process took ownership of flow {name} during this command: {error}"
        ) from error
    except (InDoubtError, ConnectionLostError) as error:
        raise UnreachableError(f"flow {name}: {error}", remedy=again) from error
    finally:
        await close()
