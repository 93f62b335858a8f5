"""``mmtool smoke``: test a running flow step by step, with canary records, or read-only with its newest record."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import GateError, MmtoolError, StoppedError
from mmtool.insight.smoke_canary import Canary, Newest, NotSoonError
from mmtool.insight.smoke_flow import (
    CANARY_STEPS,
    NEWEST_STEPS,
    Step,
    StepResult,
    not_tried,
)
from mmtool.plan.records.identity import CANARY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def _do(
    results: list[StepResult], actions: Mapping[Step, Callable[[], str]], later: Sequence[Step] = ()
) -> None:
    """Run steps one after the other and record their results; ``later`` are steps that follow them.

    Raises:
        _FailedError: A step failed.
        NotSoonError: A step passed, but the steps after it make no sense.
    """
    steps = [*actions, *later]
    for number, (step, action) in enumerate(actions.items(), 1):
        began = time.monotonic()
        try:
            said = action()
        except StoppedError:
            raise
        except NotSoonError as error:
            results.append(StepResult(step, True, time.monotonic() - began, error.message))
            raise
        except MmtoolError as error:
            seconds = time.monotonic() - began
            results.append(StepResult(step, False, seconds, error.message, remedy=error.remedy))
            results += not_tried(steps[number:], step)
            raise _FailedError from error
        results.append(StepResult(step, True, time.monotonic() - began, said))


def smoke(flow: SmokeFlow, *, read_only: bool) -> Smoked:
    """Test a flow from end to end, within its deadline.

    Args:
        flow: The flow.
        read_only: Write nothing to the source, and follow the newest record of a mirrored topic.
    """
    results: list[StepResult] = []
    later = NEWEST_STEPS if read_only else CANARY_STEPS
    try:
        _do(results, {Step.CLUSTERS: flow.probe, Step.OWNER: flow.find_owner}, later)
        if read_only or _leaves_canary_out(flow):
            _do(results, Newest(flow).actions())
        else:
            _follow_canary(flow, results)
    except _FailedError:
        pass
    return Smoked(flow.name, tuple(results), tuple(dict.fromkeys(flow.warnings)))


def _leaves_canary_out(flow: SmokeFlow) -> bool:
    """Whether MirrorMaker 2 runs the flow and its filter excludes the canary topic; adds a warning if so."""
    left_out = bool(flow.by_mm2) and not flow.clusters.settings.topics.accepts(CANARY_TOPIC)
    if left_out:
        flow.warnings.append(
            f"MirrorMaker 2 does not mirror {CANARY_TOPIC}, which `topics` and `topics.exclude` do not allow:"
            f" {_NEWEST_INSTEAD}"
        )
    return left_out


def _follow_canary(flow: SmokeFlow, results: list[StepResult]) -> None:
    canary = Canary(flow)
    try:
        _do(results, canary.actions())
    except NotSoonError as later:
        flow.warnings.append(f"{later.message}; {_NEWEST_INSTEAD}")
        _do(results, Newest(flow).actions())
    finally:
        canary.clean_up()
