"""Own a flow for the length of one command: join, fence, do the work, and always release the flow."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.groups.lease import holder_now
from mmtool.kafka.wire.cluster import ConnectionLostError, remedy_after
from mmtool.replication.pump.in_flight import FencedError, InDoubtError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.flow.status import FlowMember


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
