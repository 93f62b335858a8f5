"""Connect to the ACLs of producers: for a requested promotion, for a withdrawal, or for one in a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.failover.fence.acls_asked import PromotionAsked, WithdrawalAsked
from mmtool.failover.operation.records import fences_standing, promoted_acls
from mmtool.failover.service import connections
from mmtool.failover.service.lookup import operations_of
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.acls_asked import AclsAsked
    from mmtool.failover.operation.records import Recorded
    from mmtool.kafka.ports import FencePort
    from mmtool.plan.failover.acl_promotion import PrincipalMap, Promotion


def promotion_asked(
    flow: FlowSettings,
    timeout: timedelta,
    principals: PrincipalMap,
    mode: Mode,
    standing: Promotion | None = None,
) -> AclsAsked:
    """A requested promotion with its connections; reads the journal for the fences of earlier operations.

    Args:
        flow: The flow.
        timeout: For one request.
        principals: The principals' names on the target.
        mode: The failover's mode.
        standing: What the journal of the resumed operation has.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or does not show its journal.
    """
    return PromotionAsked(
        connections.acls_to_read(flow.source, timeout),
        connections.acls_of(flow.target, timeout),
        principals,
        standing,
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
    standing = None if found is None else _standing(found)
    if not promoted and standing is None:
        return None
    return WithdrawalAsked(connections.acls_of(flow.target, timeout), promoted, standing)


def again(flow: FlowSettings, found: Recorded, timeout: timedelta) -> AclsAsked | None:
    """The promotion of an operation that is resumed, with its connections; None if the operation has none."""
    promotion = found.head.plan.promotion
    if not promotion.is_asked_for:
        return None
    return promotion_asked(flow, timeout, promotion.renamed, found.mode, _standing(found))


def standing(flow: FlowSettings, found: Recorded, timeout: timedelta) -> FencePort | None:
    """The cluster on which an operation's change of producers' ACLs may be in force; None where none is."""
    return connections.acls_of(flow.target, timeout) if found.promotion_stands else None


def _standing(found: Recorded) -> Promotion | None:
    return found.head.plan.promotion if found.promotion_stands else None
