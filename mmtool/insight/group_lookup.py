"""Read groups' commits, and the topics that each group reads; a group that fails does not block the others."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.kafka.errors import AWAY, GRANT, KINDS, REMEDIES, ErrorSubject
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX
from mmtool.plan.words import first_part, joined
from mmtool.runtime.threads import LookUps
from mmtool.translation.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import Answers, ClusterPort
    from mmtool.plan.groups.facts import Commit
    from mmtool.translation.types import TopicPartition

    Commits = dict[str, Mapping[TopicPartition, Commit]]


_OURS = {UnreachableError.code: ErrorSubject.AWAY, NotAuthorisedError.code: ErrorSubject.DENIED}
_ACTIVE = "stop the client that also commits for the group on {alias}: a consumer with assign(), or a tool"
_BY_KIND = {
    ErrorSubject.AWAY: AWAY,
    ErrorSubject.DENIED: GRANT,
    ErrorSubject.BUSY: "stop the consumers of the group on {alias}",
    ErrorSubject.GONE: "check whether the topic or the group was deleted on {alias}",
}
"""The clause for a problem that has none in `REMEDIES`."""


def remedy_of(problems: Iterable[str], where: str, denied: str = GRANT) -> str:
    """One clause for each cause of some problems, without a command to run afterwards; empty where no cause is known.

    Args:
        problems: Names of problems, as `mmtool.kafka.ports.Problem` has them.
        where: The cluster's alias.
        denied: The clause for a missing right.
    """
    templates = dict.fromkeys(filter(None, map(_template, problems)))
    return joined(
        *(denied if one == GRANT else one.format(alias=where, topic="the topic") for one in templates)
    )


def _template(name: str) -> str:
    if name == Reason.ACTIVE_ON_TARGET:
        return _ACTIVE
    kind = _OURS.get(name) or KINDS.get(name)
    return first_part(REMEDIES.get(name, "")) or ("" if kind is None else _BY_KIND.get(kind, ""))


def readers_of(flow: FlowNow) -> dict[str, frozenset[str]]:
    """The flow's topics in which each source group has commits; groups that may not be read are left out.

    Raises:
        UnreachableError, NotAuthorisedError: The source does not answer.
    """
    groups = flow.clusters.source.groups
    names = [name for name in groups.listing().states if not name.startswith(OWN_GROUP_PREFIX)]
    return {
        name: frozenset(place.topic for place in commits) & flow.topics.keys()
        for name, commits in groups.commits_each(names).items()
    }


_AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class ShownCommits:
    """Reads commits repeatedly; a denied group is tried again after a minute.

    A group without an answer delays the first read by one timeout, and no later read: it is then read separately, at
    most once a minute, and together with the others again when it has answered.

    Attributes:
        now: The clock, in seconds.
        denied: Groups that are denied, or whose coordinator did not answer, and why.
    """

    now: Callable[[], float] = time.monotonic
    denied: dict[str, MmtoolError] = field(default_factory=dict)
    _again_at: float = 0.0
    _apart: Future[Answers[str, dict[TopicPartition, Commit]]] | None = None
    _apart_at: float = 0.0

    def of(self, cluster: ClusterPort, groups: Sequence[str]) -> Commits:
        """The commits of the groups that the cluster shows; the other groups are in `denied`.

        Raises:
            UnreachableError, NotAuthorisedError: The cluster does not answer, or shows no group.
        """
        again = self._answered_apart() | self._denied_long_ago()
        left_out = set(groups) - again
        self.denied = {group: error for group, error in self.denied.items() if group in left_out}
        found = cluster.groups.commits_each([group for group in groups if group not in self.denied])
        self.denied |= found.failed
        if self.denied and not found:
            error = next(iter(self.denied.values()))
            for group in self._unanswered():  # they are read again at the next call
                del self.denied[group]
            raise error
        self._ask_apart(cluster)
        return dict(found)

    def _denied_long_ago(self) -> set[str]:
        if self.now() < self._again_at:
            return set()
        self._again_at = self.now() + _AGAIN_SECONDS
        return self.denied.keys() - self._unanswered().keys()

    def _answered_apart(self) -> set[str]:
        if self._apart is None or not self._apart.done():
            return set()
        done, self._apart = self._apart, None
        error = done.exception()
        if isinstance(error, MmtoolError):
            return set()
        answers = done.result()
        self.denied |= {group: why for group, why in answers.failed.items() if group in self.denied}
        return set(answers)

    def _ask_apart(self, cluster: ClusterPort) -> None:
        groups = list(self._unanswered())
        if groups and self._apart is None and self.now() >= self._apart_at:
            self._apart_at = self.now() + _AGAIN_SECONDS
            self._apart = LookUps().submit(cluster.groups.commits_each, groups)

    def _unanswered(self) -> dict[str, MmtoolError]:
        return {
            group: error for group, error in self.denied.items() if not isinstance(error, NotAuthorisedError)
        }
