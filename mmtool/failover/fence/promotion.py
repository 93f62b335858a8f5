"""Give the producers of moved topics their rights on the target, or withdraw them in a failback.

A resumed operation does the recorded change again, with what its groups need by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.failover.fence.actions import AclChange, AclUse
from mmtool.kafka.ports import FencePort
from mmtool.plan.failover.acl_promotion import (
    SAME_NAMES,
    PrincipalMap,
    Promotion,
    plan_promotion,
    plan_withdrawal,
)
from mmtool.plan.failover.acl_rules import AclFacts, Binding
from mmtool.plan.words import ID_PLACEHOLDER, SHOWS_ID, Names


@dataclass(frozen=True, slots=True)
class PromotionAsked:
    """``--promote-acls``.

    Attributes:
        source: The source, whose ACLs are only read.
        port: The target.
        principals: The principals' names on the target.
        standing: The change that the journal of the resumed operation has, and that may be in force.
        fences: DENY rules of mmtool's fences on the source.
        may_be_lost: In an emergency the source may not answer.
    """

    source: FencePort
    port: FencePort
    principals: PrincipalMap = SAME_NAMES
    standing: Promotion | None = None
    fences: frozenset[Binding] = frozenset()
    may_be_lost: bool = False

    def plan(self, topics: tuple[str, ...], names: Names) -> Promotion:
        """Plan the change for topics of the flow's source; change nothing.

        Raises:
            UnreachableError, NotAuthorisedError: A cluster does not answer, does not show its ACLs, or does not let
                mmtool change them.
        """
        try:
            here = self.source.acls()
        except NotAuthorisedError:
            raise
        except UnreachableError as error:
            if not self.may_be_lost:
                raise
            if self.standing is not None:
                return self.standing
            alias = self.source.alias
            raise RefusedError(
                f"{alias} does not answer, so --promote-acls cannot read the ACLs of its producers: {error.message}",
                remedy="run `mmtool failover emergency` without --promote-acls, then create the producers' ACLs on"
                f" {self.port.alias} with kafka-acls.sh: a runbook that was written with --promote-acls while {alias}"
                " answered has the commands, in its step promote_acls",
                code="source_acls_unknown",
            ) from error
        target = self.port.acls()
        before = target if self.standing is None else target.without(self.standing.acls)
        promotion = plan_promotion(topics, here.without(self.fences), before, names, self.principals)
        promotion = promotion.with_standing(self.standing)
        _require_alter(promotion, target, self.port.alias)
        return promotion


@dataclass(frozen=True, slots=True)
class WithdrawalAsked:
    """A failback's withdrawal of the rules that earlier operations of its flow promoted.

    Attributes:
        port: The flow's target.
        promoted: Rules that these operations created and that were not removed since.
        standing: As in `PromotionAsked`.
    """

    port: FencePort
    promoted: frozenset[Binding]
    standing: Promotion | None = None

    def plan(self, topics: tuple[str, ...], names: Names) -> Promotion:
        """Plan the withdrawal; arguments and errors as for `PromotionAsked.plan`."""
        del names
        facts = self.port.acls()
        withdrawal = plan_withdrawal(topics, self.promoted, facts, self.standing)
        _require_alter(withdrawal, facts, self.port.alias)
        return withdrawal


def _require_alter(promotion: Promotion, facts: AclFacts, alias: str) -> None:
    if promotion.acls and facts.may_alter is False:
        raise NotAuthorisedError(
            f"mmtool cannot change producers' ACLs on {alias}: it lacks ALTER on the cluster; nothing was changed",
            remedy=f"grant ALTER on the cluster {alias} to mmtool's principal, then run the same command again",
        )


AclsAsked: TypeAlias = PromotionAsked | WithdrawalAsked
"""What an operation is asked to do with producers' ACLs, with the connections that it needs."""


_USE = AclUse(
    "the ACLs of --promote-acls",
    "the ACLs of --promote-acls",
    "an ACL of --promote-acls",
    "promotion",
    is_right=True,
    remedies={
        "SECURITY_DISABLED": "start a new failover without --promote-acls: the brokers have no authorizer"
    },
)
_WITHDRAWN = AclUse(
    "the producers' ACLs",
    "the producers' ACLs",
    "one of the producers' ACLs",
    "promotion",
    is_right=True,
    again=f"remove the cause, then run `mmtool failover resume {ID_PLACEHOLDER} -c FILE --execute`{SHOWS_ID}",
)


def do(port: FencePort, promotion: Promotion) -> None:
    """Create the ACLs of a promotion, or remove those of a withdrawal.

    Raises:
        MmtoolError: As `AclChange.create` and `AclChange.remove`.
    """
    change = _change(port, promotion)
    change.remove() if promotion.withdraws else change.create()


def undo(port: FencePort, promotion: Promotion) -> None:
    """Remove the ACLs of a promotion, or create those of a withdrawal again; raises as `do`."""
    change = _change(port, promotion)
    change.restore() if promotion.withdraws else change.remove()


def _change(port: FencePort, promotion: Promotion) -> AclChange:
    return AclChange(port, promotion.acls, _WITHDRAWN if promotion.withdraws else _USE)
