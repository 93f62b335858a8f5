"""Run the hook of a finished step, with the operation's row and environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.failover.operation.hooks import environment_of
from mmtool.failover.report.report import operation_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.failover.modes.cutover import Cutover
    from mmtool.failover.operation.hooks import Hooks
    from mmtool.failover.operation.operation import Operation
    from mmtool.plan.failover.steps import Step


def after_step(hooks: Hooks, cutover: Cutover) -> Callable[[Operation, Step], None]:
    """A function that runs a step's hook, if it has one; it raises as `Hooks.run`."""

    def run(operation: Operation, step: Step) -> None:
        if step.name in hooks.executables:
            row = operation_row(operation, cutover)
            plans = cutover.plans or operation.plan.groups
            hooks.run(operation, step, environment_of(operation.plan, step, cutover.groups, plans), row)

    return run
