"""Run a plan's steps with what all modes share: preparations that are undone on failure, and the operator's hooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mmtool.failover.fence.promotion import do, undo
from mmtool.failover.operation import operation as operations
from mmtool.failover.operation.hooks import environment_of
from mmtool.failover.report.operation_row import operation_row
from mmtool.plan.failover.steps import acl_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.failover.fence.promotion import AclsAsked
    from mmtool.failover.modes.cutover import Cutover
    from mmtool.failover.operation.operation import Operation
    from mmtool.kafka.ports import FencePort
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import Step, StepName


class Preparation(Protocol):
    """A step that is undone when it fails, or a later one before the point of no return."""

    @property
    def name(self) -> StepName:
        """The step."""

    @property
    def may_stand(self) -> bool:
        """An earlier attempt may have left it done: it is undone even if this attempt does not reach it."""

    def do(self) -> None:
        """The step's action; it raises if the step fails."""

    def undo(self) -> None:
        """Undo what was done; do nothing if nothing was."""


@dataclass(slots=True)
class PromotionStep:
    """A `Preparation`: the change of producers' ACLs.

    The ACLs are in the journal before they change, and the journal says that the change is undone only once it is.

    Attributes:
        port: The flow's target.
        may_stand: Whether there may be a change to undo.
    """

    plan: FailoverPlan
    port: FencePort
    cutover: Cutover
    may_stand: bool

    @property
    def name(self) -> StepName:
        return acl_step(self.plan.mode)

    def do(self) -> None:
        """Change the ACLs once no other operation is open on the groups; a failure is undone as the step is."""
        self.cutover.alone()
        promotion = self.plan.promotion
        self.cutover.context.journal.promoted(promotion, stands=True)
        self.may_stand = True
        do(self.port, promotion)

    def undo(self) -> None:
        """Undo exactly the recorded change and record that; do nothing if none may be in force."""
        if self.may_stand:
            undo(self.port, self.plan.promotion)
            self.may_stand = False
            self.cutover.context.journal.promoted(self.plan.promotion, stands=False)


def run_steps(
    operation: Operation,
    cutover: Cutover,
    actions: Mapping[StepName, Callable[[], None]],
    acls: AclsAsked | None = None,
    preparations: Iterable[Preparation] = (),
) -> Operation:
    """Execute the steps of a new or interrupted operation, each with its hook, and return the operation.

    Args:
        operation: The operation.
        cutover: The operation's groups, offsets and results.
        actions: What each other step does.
        acls: The change of producers' ACLs with its connections; None where there is none.
        preparations: The other steps that can be undone.

    Raises:
        MmtoolError: The start could not be recorded; nothing was done.
    """
    hooks, undone = cutover.context.hooks, list(preparations)
    if acls is not None:
        undone.append(PromotionStep(operation.plan, acls.port, cutover, acls.standing is not None))

    def run_hook(operation: Operation, step: Step) -> None:
        """Run a step's hook, if it has one, with the operation's row; raises as `Hooks.run`."""
        if step.name in hooks.executables:
            plans = cutover.plans or operation.plan.groups
            told = environment_of(operation.plan, step, cutover.groups, plans)
            hooks.run(operation, step, told, operation_row(operation, cutover))

    return operations.run(
        operation,
        {**actions, **{one.name: one.do for one in undone}},
        cutover.context.log,
        {one.name: one.undo for one in undone},
        run_hook,
        [one.name for one in undone if one.may_stand],
    )
