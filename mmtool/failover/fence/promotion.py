"""The step that gives the producers of moved topics their rights on the target, or withdraws them in a failback.

G  the ACLs are in the journal before they change, and the journal says that the change is undone only once it is
H  a resumed operation does the recorded change again, with what its groups need by now
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.failover.fence.acl_change import AclChange, AclUse
from mmtool.plan.failover.acl_promotion import plan_promotion, plan_withdrawal
from mmtool.plan.failover.principal_map import SAME_NAMES, PrincipalMap
from mmtool.plan.failover.steps import acl_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.failover.modes.cutover import Cutover
    from mmtool.kafka.ports import AclPort
    from mmtool.plan.failover.acl_promotion import Promotion
    from mmtool.plan.failover.acl_rules import AclFacts, Binding
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import StepName
    from mmtool.plan.words import Names

_USE = AclUse(
    "the promotion",
    "the promoted ACLs",
    "one of the promoted ACLs",
    "promotion",
    is_right=True,
    remedies={"SECURITY_DISABLED": "leave out --promote-acls: the brokers have no authorizer"},
)


class AclsAsked(Protocol):
    """What an operation is asked to do with producers' ACLs, with the connections that it needs."""

    @property
    def port(self) -> AclPort:
        """The flow's target."""

    @property
    def standing(self) -> Promotion | None:
        """The change that the journal of the resumed operation has, and that may be in force."""

    def plan(self, topics: tuple[str, ...], names: Names) -> Promotion:
        """Plan the change for topics of the flow's source; change nothing.

        Raises:
            UnreachableError, NotAuthorisedError: A cluster does not answer, does not show its ACLs, or does not let
                mmtool change them.
        """


@dataclass(frozen=True, slots=True)
class PromotionAsked:
    """``--promote-acls``.

    Attributes:
        source: The source, whose ACLs are only read.
        port: The target.
        principals: The principals' names on the target.
        standing: As in `AclsAsked`.
        fences: DENY rules of mmtool's fences on the source.
        may_be_lost: In an emergency the source may not answer.
    """

    source: AclPort
    port: AclPort
    principals: PrincipalMap = SAME_NAMES
    standing: Promotion | None = None
    fences: frozenset[Binding] = frozenset()
    may_be_lost: bool = False

    def plan(self, topics: tuple[str, ...], names: Names) -> Promotion:
        try:
            there = self.source.acls()
        except NotAuthorisedError:
            raise
        except UnreachableError as error:
            if not self.may_be_lost:
                raise
            if self.standing is not None:
                return self.standing
            raise self._lost(error) from error
        target = self.port.acls()
        require_alter(target, self.port.alias)
        before = target if self.standing is None else target.without(self.standing.acls)
        promotion = plan_promotion(topics, there.without(self.fences), before, names, self.principals)
        return promotion.with_standing(self.standing)

    def _lost(self, error: UnreachableError) -> RefusedError:
        here, there = self.source.alias, self.port.alias
        return RefusedError(
            f"{here} does not answer, so --promote-acls cannot read the ACLs of its producers: {error.message}",
            remedy=f"leave out --promote-acls; then create the producers' ACLs on {there} with kafka-acls.sh: step"
            " promote_acls of a runbook that was written with --promote-acls has the commands",
            code="source_acls_unknown",
        )


@dataclass(frozen=True, slots=True)
class WithdrawalAsked:
    """A failback's withdrawal of the rules that earlier operations of its flow promoted.

    Attributes:
        port: The flow's target.
        promoted: Rules that these operations created and that were not removed since.
        standing: As in `AclsAsked`.
    """

    port: AclPort
    promoted: frozenset[Binding]
    standing: Promotion | None = None

    def plan(self, topics: tuple[str, ...], names: Names) -> Promotion:
        del names
        facts = self.port.acls()
        withdrawal = plan_withdrawal(topics, self.promoted, facts, self.standing)
        if withdrawal.acls:
            require_alter(facts, self.port.alias)
        return withdrawal


def require_alter(facts: AclFacts, alias: str) -> None:
    """Raise if mmtool is known to lack the right to change ACLs.

    Raises:
        NotAuthorisedError: It lacks ALTER on the cluster.
    """
    if facts.may_alter is False:
        raise NotAuthorisedError(
            f"mmtool cannot change producers' ACLs on {alias}: it lacks ALTER on the cluster; nothing was changed",
            remedy="grant ALTER on the cluster to mmtool's principal, then run the same command again",
        )


def do(port: AclPort, promotion: Promotion) -> None:
    """Create the ACLs of a promotion, or remove those of a withdrawal.

    Raises:
        MmtoolError: As `AclChange.create` and `AclChange.remove`.
    """
    change = AclChange(port, promotion.acls, _USE)
    change.remove() if promotion.withdraws else change.create()


def undo(port: AclPort, promotion: Promotion) -> None:
    """Remove the ACLs of a promotion, or create those of a withdrawal again; raises as `do`."""
    change = AclChange(port, promotion.acls, _USE)
    change.restore() if promotion.withdraws else change.remove()


@dataclass(slots=True)
class PromotionStep:
    """The action of the step, and its undo; an operation that changes no ACLs has neither.

    Attributes:
        may_stand: Whether there may be a change to undo.
    """

    plan: FailoverPlan
    asked: AclsAsked | None
    cutover: Cutover
    may_stand: bool = field(init=False)

    def __post_init__(self) -> None:
        self.may_stand = self.asked is not None and self.asked.standing is not None

    @property
    def begun(self) -> tuple[StepName, ...]:
        """The step if its change may still be in force from an earlier attempt, else no step."""
        return (acl_step(self.plan.mode),) if self.may_stand else ()

    @property
    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {} if self.asked is None else {acl_step(self.plan.mode): self.do}

    @property
    def undo_actions(self) -> dict[StepName, Callable[[], None]]:
        return {} if self.asked is None else {acl_step(self.plan.mode): self.undo}

    def do(self) -> None:
        """Change the ACLs once no other operation is open on the groups; a failure is undone as the step is."""
        assert self.asked is not None
        self.cutover.alone()
        self.cutover.context.journal.promoted(self.plan.promotion, stands=True)
        self.may_stand = True
        do(self.asked.port, self.plan.promotion)

    def undo(self) -> None:
        """Undo exactly the recorded change and record that; do nothing if none may be in force."""
        if not self.may_stand or self.asked is None:
            return
        undo(self.asked.port, self.plan.promotion)
        self.may_stand = False
        self.cutover.context.journal.promoted(self.plan.promotion, stands=False)
