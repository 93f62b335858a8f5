"""The step that gives the producers of moved topics their rights on the target, or withdraws them in a failback.

G  the ACLs are in the journal before they change, and the journal says that the change is undone only once it is
H  a resumed operation does the recorded change again, with what its groups need by now
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.failover.fence.actions import AclChange, AclUse
from mmtool.plan.failover.steps import acl_step
from mmtool.plan.words import ID_PLACEHOLDER, SHOWS_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.failover.fence.acls_asked import AclsAsked
    from mmtool.failover.modes.cutover import Cutover
    from mmtool.kafka.ports import FencePort
    from mmtool.plan.failover.acl_promotion import Promotion
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import StepName

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
