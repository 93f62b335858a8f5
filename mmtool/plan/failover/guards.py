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


def no_authorizer(cluster: str, effect: str, remedy: str) -> Guard:
    """The guard of an ACL operation on a cluster where ACLs do nothing; ``effect`` says what follows."""
    told = f"{cluster} has no authorizer (authorizer.class.name is not set): {effect}"
    return Guard("no_authorizer", told, remedy)
