"""What forbids a plan, or what its ACLs do not do, as data."""

from __future__ import annotations

from dataclasses import dataclass

from mmtool.plan.words import joined


@dataclass(frozen=True, slots=True)
class Guard:
    """A stable word, the sentence, and a remedy where the sentence has none."""

    code: str
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return joined(self.sentence, self.remedy)
