"""Connect to what keeps producers off the source, and to the ACLs that they get on the target.

Each as it is asked for, or as the journal of an operation says that it may still be in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.failover.fence.promotion import PromotionAsked, WithdrawalAsked
from mmtool.failover.fence.steps import FenceAsked
from mmtool.failover.operation.records import fences_standing, promoted_acls
from mmtool.failover.service import connections
from mmtool.failover.service.lookup import operations_of
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.promotion import AclsAsked
    from mmtool.failover.operation.records import Recorded
    from mmtool.kafka.ports import FencePort
    from mmtool.plan.failover.acl_promotion import PrincipalMap, Promotion
    from mmtool.plan.failover.fence_plan import Fence


def fence_asked(
    flow: FlowSettings,
    kind: FenceKind,
    watch_seconds: float,
    timeout: timedelta,
    standing: Fence | None = None,
) -> FenceAsked | None:
    """The requested fence with its connections; None for ``FenceKind.NONE``.

    Args:
        flow: The flow whose source is fenced.
        kind: The kind of fence.
        watch_seconds: How long the source's log ends must stand still after the fence is raised.
        timeout: For one request.
        standing: The recorded fence that may still be up.
    """
    if kind is FenceKind.NONE:
        return None
    source, port = connections.fenced_cluster(flow.source, timeout)
    return FenceAsked(kind, source, port, watch_seconds, standing)


def recorded_fence(flow: FlowSettings, found: Recorded, timeout: timedelta) -> FenceAsked | None:
    """The fence of an operation that is resumed, with its connections; None if the operation has none."""
    fence = found.head.plan.fence
    standing = fence if found.fence_stands else None
    return fence_asked(flow, fence.kind, fence.watch_seconds, timeout, standing)


def promotion_asked(
    flow: FlowSettings,
    timeout: timedelta,
    principals: PrincipalMap | None,
    mode: Mode,
    found: Recorded | None = None,
) -> AclsAsked | None:
    """A promotion with its connections; reads the journal for the fences of earlier operations.

    Args:
        flow: The flow.
        timeout: For one request.
        principals: The principals' names on the target; None where no promotion is requested.
        mode: The failover's mode.
        found: The recorded failover, if it is resumed: its promotion counts, not what is requested.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or does not show its journal.
    """
    if found is not None:
        promotion = found.head.plan.promotion
        principals = promotion.renamed if promotion.is_asked_for else None
    if principals is None:
        return None
    return PromotionAsked(
        connections.acls_to_read(flow.source, timeout),
        connections.acls_of(flow.target, timeout),
        principals,
        _standing(found),
        fences_standing(operations_of(flow, timeout)),
        may_be_lost=mode is Mode.EMERGENCY,
    )


def withdrawal_asked(
    flow: FlowSettings, timeout: timedelta, found: Recorded | None = None
) -> AclsAsked | None:
    """A failback's withdrawal of promoted ACLs with its connections; None where no ACLs are left to withdraw.

    Args:
        flow: The flow that the groups failed over on.
        timeout: For one request.
        found: The recorded failback, if it is resumed.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or does not show its journal.
    """
    known = None if found is None else found.operation_id
    promoted = promoted_acls(one for one in operations_of(flow, timeout) if one.operation_id != known)
    standing = _standing(found)
    if not promoted and standing is None:
        return None
    return WithdrawalAsked(connections.acls_of(flow.target, timeout), promoted, standing)


def _standing(found: Recorded | None) -> Promotion | None:
    return found.head.plan.promotion if found is not None and found.promotion_stands else None


def left_standing(
    flow: FlowSettings, found: Recorded, timeout: timedelta
) -> tuple[FenceAsked | None, FencePort | None]:
    """The fence that an operation may have left up, and the cluster on which its change of ACLs may be in force."""
    return (
        recorded_fence(flow, found, timeout) if found.fence_stands else None,
        connections.acls_of(flow.target, timeout) if found.promotion_stands else None,
    )
