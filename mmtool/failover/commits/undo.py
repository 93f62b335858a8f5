"""Undo a command's commits: restore the replaced ones from the file that the command saved."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mmtool.errors import MmtoolError, RefusedError
from mmtool.failover.commits.exchange import Moved, groups_of, refused_for
from mmtool.failover.commits.write import (
    AT_ONCE,
    FRESH_SECONDS,
    Stands,
    WriteOutcome,
    Written,
    failure_of_writing,
    may_come,
    names_of,
    overtaken,
    stored_commits,
    unread,
    written_places,
)
from mmtool.failover.report.rows import ImportedRow
from mmtool.kafka.ports import ClusterPort, Problem
from mmtool.plan.groups.undo import Undo, UndoGroup, plan_undo
from mmtool.plan.words import counted, few
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition

_NOT_SENT = Problem(
    "not_sent", "the new offset was not deleted, because other offsets of the group could not be restored"
)
_WHY_NOT = {
    Reason.ACTIVE_ON_TARGET: "{group} has members on {where}: stop them, then run the same command again",
    Reason.WOULD_REWIND: "{group} has since committed other offsets on {where}, and keeps them; to go back in spite of"
    " that, reset it to its previous offsets with `kafka-{tool} --reset-offsets --to-offset OFFSET --execute`"
    " on {where}, then run the same command again",
}


@dataclass(frozen=True, slots=True)
class Undoing:
    """The commits to restore, checked against the cluster.

    Attributes:
        looked_at: When reading the groups' current state began, by the monotonic clock.
    """

    cluster: ClusterPort
    groups: tuple[UndoGroup, ...]
    looked_at: float

    @property
    def writable(self) -> bool:
        return any(group.has_work for group in self.groups)

    @property
    def question(self) -> str:
        """What the undo would restore and delete, as one sentence."""
        work = [group for group in self.groups if group.has_work]
        restored, deleted = sum(len(g.restore) for g in work), sum(len(g.delete) for g in work)
        done = [f"restore {counted(restored, 'previous offset')}"] if restored else []
        done += [f"delete {counted(deleted, 'new offset')}"] if deleted else []
        return f"{' and '.join(done)} of {groups_of([g.group for g in work])} on {self.cluster.alias}"

    @property
    def refusal(self) -> RefusedError | None:
        reasons = [reason for group in self.groups for reason in group.refused.values()]
        if not reasons:
            return None
        whom = groups_of([group.group for group in self.groups if group.refused])
        said = [f"{reason}: {self._why_not(reason)}" for reason in sorted(set(reasons))]
        return refused_for(reasons, whom, "; ".join(said))

    def _why_not(self, reason: Reason) -> str:
        refused = [group for group in self.groups if reason in group.refused.values()]
        names, tool = (
            [group.group for group in refused],
            "` or `kafka-".join(sorted({g.kind.writer for g in refused})),
        )
        whom = "the group" if len(names) == 1 else f"each of the groups {few(names)}"
        return _WHY_NOT[reason].format(group=whom, where=self.cluster.alias, tool=tool)

    def rows(self, written: Iterable[Written] = ()) -> list[ImportedRow]:
        """One row for each commit to undo; ``offset`` is None if it is to be deleted."""
        done = written_places(written)
        return [
            {
                "group": group.group,
                "topic": place.topic,
                "partition": place.partition,
                "offset": group.restore[place].offset if place in group.restore else None,
                "reason": group.refused.get(place, ""),
                "offset_before": group.now[place].offset if place in group.now else None,
                "written": done.get((group.group, place), False),
                "kind": group.kind,
            }
            for group in self.groups
            for place in group.places
        ]

    def write(self) -> Moved:
        """Restore or delete the commits, several groups at a time; a refused group stays unchanged."""
        todo = [group for group in self.groups if group.places]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            sent = list(pool.map(self._sent, todo))
            names = [one.group for one, of in zip(todo, sent, strict=True) if not isinstance(of, Written)]
        stored = stored_commits(names, self.cluster.groups)
        ended = [self._result(one, result, stored) for one, result in zip(todo, sent, strict=True)]
        empty = [w.group for w in ended if w.outcome is WriteOutcome.WRITTEN and not stored[w.group]]
        if empty:  # they would be listed for minutes more, without a commit
            self.cluster.groups.delete(empty)
        return Moved(self.rows(ended), failure_of_writing(ended, self.cluster.alias))

    def _sent(self, plan: UndoGroup) -> Written | Mapping[TopicPartition, Problem]:
        """Restore or delete a group's commits; return the failed partitions, or the result if nothing was sent."""
        groups = self.cluster.groups
        if plan.refused:
            reasons = sorted(set(plan.refused.values()))
            said = [
                _WHY_NOT[why].format(
                    group=f"group {plan.group}", where=self.cluster.alias, tool=plan.kind.writer
                )
                for why in reasons
            ]
            return Written(plan.group, WriteOutcome.REFUSED, problems=tuple(said))
        if time.monotonic() - self.looked_at > FRESH_SECONDS and (
            why := overtaken(groups, plan.group, plan.now, plan.places)
        ):
            problems = (f"{plan.group}: {why.sentence}",)
            return Written(plan.group, WriteOutcome.REFUSED, problems=problems, causes=(why.name,))
        failed = dict(groups.alter(plan.group, plan.restore)) if plan.restore else {}
        if failed:  # it would be half put back, and begin anew where nothing is left
            return failed | dict.fromkeys(plan.delete, _NOT_SENT)
        return groups.forget(plan.group, plan.delete) if plan.delete else {}

    def _result(
        self,
        plan: UndoGroup,
        sent: Written | Mapping[TopicPartition, Problem],
        stored: Mapping[str, Stands],
    ) -> Written:
        if isinstance(sent, Written):
            return sent
        found = stored[plan.group]
        if isinstance(found, MmtoolError):
            return unread(plan.group, plan.places, sent, found)
        stands = frozenset(place for place in plan.places if found.get(place) == plan.restore.get(place))
        if stands == set(plan.places):
            return Written(plan.group, WriteOutcome.WRITTEN, stands)
        unknown = may_come(sent, stands)
        outcome = WriteOutcome.PARTLY if stands or unknown else WriteOutcome.REFUSED
        sentences = tuple(f"{place}: {problem}" for place, problem in sorted(sent.items()))
        return Written(plan.group, outcome, stands, sentences, unknown, names_of(sent))


def check_undo(clusters: Iterable[ClusterPort], undo: Undo) -> Undoing:
    """Find the cluster that an undo file is for, and check what can be restored there; change nothing.

    Raises:
        RefusedError: The file is for none of these clusters.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies the request.
    """
    for cluster in clusters:
        if cluster.probe() == undo.cluster_id:
            return look_at(cluster, undo)
    raise RefusedError(
        f"the file is for cluster {undo.cluster_id}, which is not a cluster of the flow",
        remedy="name the flow whose groups were moved: -s ALIAS -t ALIAS",
        code="wrong_cluster",
    )


def look_at(cluster: ClusterPort, undo: Undo) -> Undoing:
    """Check which replaced commits can be restored on a given cluster, from the groups' current state.

    Raises:
        UnreachableError, NotAuthorisedError: The cluster does not answer, or denies the request.
    """
    looked_at, names = time.monotonic(), list(dict.fromkeys(one.group for one in undo.replaced))
    standing, now = cluster.groups.describe(names), cluster.groups.commits(names)
    return Undoing(cluster, tuple(plan_undo(undo, now, standing)), looked_at)
