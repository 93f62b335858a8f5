"""The steps of a smoke test, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypedDict

from mmtool.plan.groups.facts import OWN_GROUP_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

CANARY_GROUP = f"{OWN_GROUP_PREFIX}canary"
"""The group that commits in the canary topic on the source; no selector and no sync matches it."""


class Step(StrEnum):
    """A step of a smoke test; stable, as CI jobs name them."""

    CLUSTERS = "clusters"
    OWNER = "owner"
    TOPIC = "topic"
    PRODUCE = "produce"
    NEWEST = "newest"
    MIRRORED = "mirrored"
    COMMIT = "commit"
    TRANSLATED = "translated"
    READ = "read"


FIRST_STEPS = (Step.CLUSTERS, Step.OWNER)
CANARY_STEPS = (Step.TOPIC, Step.PRODUCE, Step.MIRRORED, Step.COMMIT, Step.TRANSLATED, Step.READ)
"""The steps of a test that writes a canary record to the source."""

NEWEST_STEPS = (Step.NEWEST, Step.MIRRORED, Step.TRANSLATED, Step.READ)
"""The steps of a test with the newest record of a mirrored topic: it writes nothing to the source."""


class SmokeRow(TypedDict):
    """One step in `mmtool smoke`.

    Attributes:
        step: Its name.
        result: Whether it passed.
        seconds: How long it took; 0 for a step that was not tried.
        message: What was found; for a failed step, the problem and the remedy.
    """

    step: Step
    result: Literal["passed", "failed"]
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step.

    Attributes:
        seconds: How long it took; 0 for a step that was not tried.
        said: What was found; for a failed step, the problem.
        tried: False where a step before it failed.
        remedy: Of a failed step: what the operator can do; may be empty.
    """

    step: Step
    passed: bool
    seconds: float
    said: str
    tried: bool = True
    remedy: str = ""

    @property
    def message(self) -> str:
        """What was found, and the remedy."""
        return f"{self.said}; remedy: {self.remedy}" if self.remedy else self.said

    def row(self) -> SmokeRow:
        """The result as the contract's row of ``mmtool smoke``."""
        return {
            "step": self.step,
            "result": "passed" if self.passed else "failed",
            "seconds": round(self.seconds, 3),
            "message": self.message,
        }


def not_tried(steps: Sequence[Step], failed: Step) -> list[StepResult]:
    """The results of the steps after a failed one: none was tried."""
    return [
        StepResult(step, False, 0.0, f"not tried, because step {failed} failed", tried=False)
        for step in steps
    ]
