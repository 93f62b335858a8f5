"""What this version does not do yet, refused where leaving it out would do harm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.kafka.state_log import read_control
from mmtool.plan.identity import FlowIdentity
from mmtool.translation.naming import IdentityPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.config import FlowSettings
    from mmtool.replication.context import FlowContext


def refuse_unsupported(flows: Sequence[FlowSettings]) -> None:
    """Refuses settings that would do harm if they were passed over.

    Raises:
        UsageError: a dead-letter topic or origins are asked for, or identical names both ways, which
            would mirror every record back and forth for ever.
    """
    for flow in flows:
        for key, is_set in (
            ("mmtool.on.oversize = dead-letter", flow.on_oversize == "dead-letter"),
            ("mmtool.origins = local", flow.origins == "local"),
        ):
            if is_set:
                raise UsageError(f"{flow.name}: {key} is not supported by this version", remedy="remove it")
    pairs = {(f.source.alias, f.target.alias) for f in flows if isinstance(f.policy, IdentityPolicy)}
    for source, target in pairs:
        if (target, source) in pairs:
            raise _loops(source, target)


async def check_loop(flow: FlowContext) -> None:
    """Whether somebody mirrors the other way with the same names.

    Raises:
        UsageError: somebody does: the source holds the state of the way back.
    """
    identity = flow.identity
    if not isinstance(flow.settings.policy, IdentityPolicy):
        return
    back = FlowIdentity(identity.target_id, identity.source_id, identity.target_alias, identity.source_alias)
    stored = (await asyncio.to_thread(read_control, flow.settings.source, back)).flow
    if stored is not None and stored.source_cluster_id == identity.target_id:
        raise _loops(identity.source_alias, identity.target_alias)


def _loops(source: str, target: str) -> UsageError:
    """The refusal of identical names both ways."""
    return UsageError(
        f"{source}->{target} and {target}->{source} with identical topic names would mirror each record back and"
        " forth for ever",
        remedy="enable one direction, or use DefaultReplicationPolicy",
        code="loop",
    )
