"""``mmtool smoke``: test a running flow step by step, with canary records, or read-only with its newest record."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import GateError, MmtoolError, StoppedError
from mmtool.insight.smoke_canary import Canary, Newest, NotSoonError
from mmtool.insight.smoke_flow import (
    CANARY_STEPS,
    FIRST_STEPS,
    NEWEST_STEPS,
    Step,
    StepResult,
    not_tried,
)
from mmtool.plan.records.identity import CANARY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmtool.insight.smoke_flow import SmokeFlow

_NEWEST_INSTEAD = "the test follows the newest record of a mirrored topic instead"


@dataclass(frozen=True, slots=True)
class Smoked:
    """The result of a smoke test.

    Attributes:
        flow: ``A->B``.
        results: Of each step, in order.
        warnings: Sentences for the operator.
    """

    flow: str
    results: tuple[StepResult, ...]
    warnings: tuple[str, ...]

    @property
    def error(self) -> GateError | None:
        """The error of the step that failed; None when all have passed."""
        failed = next((result for result in self.results if not result.passed), None)
        if failed is None:
            return None
        said = f"smoke test of {self.flow}: step {failed.step} failed: {failed.said}"
        return GateError(said, remedy=failed.remedy)


class _FailedError(Exception):
    """A step failed: its result is recorded, and no other step is tried."""


@dataclass(slots=True)
class _Run:
    """The steps as they are done.

    Attributes:
        ahead: Those that are to come.
    """

    ahead: list[Step]
    results: list[StepResult] = field(default_factory=list)

    def go_on(self, steps: Sequence[Step]) -> None:
        """Replace the steps that are still to come."""
        self.ahead = list(steps)

    def do(self, step: Step, action: Callable[[], str]) -> None:
        """Run one step and record its result.

        Raises:
            _FailedError: The step failed.
            NotSoonError: The step passed, but the steps after it make no sense.
        """
        began = time.monotonic()
        self.ahead.remove(step)
        try:
            said, passed, remedy = action(), True, ""
        except StoppedError:
            raise
        except NotSoonError as later:
            seconds = time.monotonic() - began
            self.results.append(StepResult(step, True, seconds, later.message))
            raise
        except MmtoolError as error:
            said, passed, remedy = error.message, False, error.remedy
        self.results.append(StepResult(step, passed, time.monotonic() - began, said, remedy=remedy))
        if not passed:
            self.results += not_tried(self.ahead, step)
            raise _FailedError

    def do_all(self, actions: dict[Step, Callable[[], str]]) -> None:
        """Run steps one after the other; raises as `do`."""
        for step, action in actions.items():
            self.do(step, action)


def smoke(flow: SmokeFlow, *, read_only: bool) -> Smoked:
    """Test a flow from end to end, within its deadline.

    Args:
        flow: The flow.
        read_only: Write nothing to the source, and follow the newest record of a mirrored topic.
    """
    run = _Run([*FIRST_STEPS, *(NEWEST_STEPS if read_only else CANARY_STEPS)])
    try:
        run.do(Step.CLUSTERS, flow.probe)
        run.do(Step.OWNER, flow.find_owner)
        if read_only or _leaves_canary_out(flow):
            _follow_newest(flow, run)
        else:
            _follow_canary(flow, run)
    except _FailedError:
        pass
    return Smoked(flow.name, tuple(run.results), tuple(dict.fromkeys(flow.warnings)))


def _leaves_canary_out(flow: SmokeFlow) -> bool:
    """Whether MirrorMaker 2 runs the flow and its filter excludes the canary topic; adds a warning if so."""
    left_out = bool(flow.by_mm2) and not flow.clusters.settings.topics.accepts(CANARY_TOPIC)
    if left_out:
        flow.warnings.append(
            f"MirrorMaker 2 does not mirror {CANARY_TOPIC}, which `topics` and `topics.exclude` do not allow:"
            f" {_NEWEST_INSTEAD}"
        )
    return left_out


def _follow_newest(flow: SmokeFlow, run: _Run) -> None:
    run.go_on(NEWEST_STEPS)
    run.do_all(Newest(flow).actions())


def _follow_canary(flow: SmokeFlow, run: _Run) -> None:
    canary = Canary(flow)
    run.go_on(CANARY_STEPS)
    try:
        run.do_all(canary.actions())
    except NotSoonError as later:
        flow.warnings.append(f"{later.message}; {_NEWEST_INSTEAD}")
        _follow_newest(flow, run)
    finally:
        canary.clean_up()
