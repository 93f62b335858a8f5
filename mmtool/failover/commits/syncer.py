"""Sync group offsets (KIP-545): commit translated offsets on the target whenever they change.

F  a group is never moved back, never touched while it has members, and never for a minute after another client
   has committed for it
L  a commit that another client made between the check and the sync's own commit is left as it is
M  a group that belongs to the target is not committed for: not even one whose mark is written during a sync, as long
   as the request for it has not been sent
O  a group that the target does not answer for does not block the others
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.failover.commits.write import AT_ONCE, FRESH_SECONDS, MOVED_JUST_NOW, moved_since
from mmtool.plan.groups.checkpoints import plan_group_sync
from mmtool.plan.groups.facts import ABSENT, Commit, GroupFacts, GroupStanding
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from mmtool.kafka.ports import ClusterPort

Offsets = dict[TopicPartition, Commit]


def _may_pass(error: MmtoolError) -> bool:
    return isinstance(error, UnreachableError) and not isinstance(error, NotAuthorisedError)


_EVERYTHING_SECONDS = 60.0
_STILL_SECONDS = 60.0
_RENEWALS = 4


@dataclass(frozen=True, slots=True)
class SyncedGroup:
    """The result of one sync for one group.

    Attributes:
        there: Its state on the target.
        stands: Partitions of the target whose commit is the wanted one.
        written: How many of those this sync changed; commits that were only renewed do not count.
        ahead: Partitions whose commit is ahead of the wanted one.
        others: Whether another client commits for it, although it has no members.
        problem: What was refused, in a sentence; empty when nothing was.
        causes: The names of the refusals' causes, as far as they are known, for `remedy_of`.
    """

    there: GroupStanding
    stands: frozenset[TopicPartition] = frozenset()
    written: int = 0
    ahead: frozenset[TopicPartition] = frozenset()
    others: bool = False
    problem: str = ""
    causes: frozenset[str] = frozenset()


class _Refused(NamedTuple):
    """Why an offset was not committed, in a sentence; the name of the cause, empty where it has no remedy."""

    sentence: str
    cause: str = ""


@dataclass(slots=True)
class OffsetSyncer:
    """Commits for groups without members on the target, and renews commits that Kafka would expire.

    A group whose position has changed, or that is at work on the target, is looked at in the next turn, all of them
    once a minute.

    Attributes:
        target: Where to commit.
        now: The clock, in seconds.
        moved: Groups that now belong to the target; read again before each commit.
    """

    target: ClusterPort
    now: Callable[[], float] = time.monotonic
    moved: Callable[[], Container[str]] = frozenset
    _done: dict[str, Offsets] = field(default_factory=dict)
    _stood: dict[str, Offsets] = field(default_factory=dict)
    _renewed: dict[str, float] = field(default_factory=dict)
    _moved_at: dict[str, float] = field(default_factory=dict)
    _denied: dict[str, MmtoolError] = field(default_factory=dict)
    _everything_at: float | None = None
    _looked_at: float = 0.0
    _retention_seconds: float = 0.0
    _at_work: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, wanted: Mapping[str, Offsets]) -> dict[str, SyncedGroup]:
        """Check the groups that are due, and commit their offsets where needed; return the result for each of them.

        Groups that now belong to the target are left out. Turns do not overlap: an abandoned turn ends before the next
        one starts, as its offsets are older.

        Raises:
            MmtoolError: The target does not answer, or shows none of the groups.
        """
        with self._at_work:
            return self._turn(wanted)

    def _turn(self, wanted: Mapping[str, Offsets]) -> dict[str, SyncedGroup]:
        moved = self.moved()
        for group in [group for group in wanted if group in moved]:
            self._forget(group)
        stay = {group: offsets for group, offsets in wanted.items() if group not in moved}
        self._denied = {
            group: error for group, error in self._denied.items() if not _may_pass(error)
        }  # a coordinator that did not answer is asked in each turn
        due = self._due(stay)
        self._looked_at = self.now()
        facts = self._told(due) if due else []
        untold = {group: self._denied[group] for group in stay if group in self._denied}
        if untold and len(untold) == len(stay):
            raise next(iter(untold.values()))
        return self._led(facts, wanted) | {
            group: SyncedGroup(ABSENT, problem=error.message, causes=frozenset({error.code}))
            for group, error in untold.items()
        }

    def _told(self, groups: list[str]) -> list[GroupFacts]:
        """The groups' commits and states on the target; groups that it does not show are asked again in a minute."""
        standing, before = self.target.groups.describe_each(groups), self.target.groups.commits_each(groups)
        failed = before.failed | standing.failed
        self._denied |= failed
        return [
            GroupFacts(name, {}, before[name], there=standing[name]) for name in groups if name not in failed
        ]

    def _led(self, facts: list[GroupFacts], wanted: Mapping[str, Offsets]) -> dict[str, SyncedGroup]:
        if not facts:
            return {}
        self._retention_seconds = self._retention_seconds or self.target.offsets_retention_seconds()
        old = {group.group for group in facts if self._is_old(group.group)}
        planned = self._inside(
            {
                group.group: self._planned(group, wanted[group.group], renew=group.group in old)
                for group in facts
            }
        )
        with ThreadPoolExecutor(AT_ONCE) as pool:
            sent = list(pool.map(self._commit, facts, planned.values()))
        return {
            group.group: self._followed(
                group, wanted[group.group], offsets, problems, renewed=group.group in old
            )
            for group, (offsets, problems) in zip(facts, sent, strict=True)
            if group.group not in self.moved()
        }

    def _forget(self, group: str) -> None:
        """Drop what is known of a group that now belongs to the target: after a failback its sync starts fresh."""
        for known in (self._done, self._stood, self._renewed, self._moved_at):
            known.pop(group, None)

    def _planned(self, group: GroupFacts, wanted: Offsets, *, renew: bool) -> Offsets:
        if self._is_moved_by_others(group):
            return {}
        return plan_group_sync(group, wanted, renew=renew)

    def _is_moved_by_others(self, group: GroupFacts) -> bool:
        """Whether another client commits for a group without members, now or within the last minute.

        A consumer with ``assign()`` commits without being a member. MirrorMaker 2 syncs offsets too, but never moves a
        commit back: a commit that went back is another client's.
        """
        stood, before = self._stood.get(group.group, {}), group.before
        moved = [at for at, commit in stood.items() if at in before and before[at] != commit]
        back = any(before[at].offset < stood[at].offset for at in moved)
        if back or (moved and self._is_left_alone(group.group)):
            self._moved_at[group.group] = self.now()
            self._stood[group.group] = {at: before.get(at, commit) for at, commit in stood.items()}
            self._done.pop(group.group, None)  # it is looked at in each turn
        return self._is_left_alone(group.group)

    def _is_left_alone(self, group: str) -> bool:
        moved_at = self._moved_at.get(group)
        return moved_at is not None and self.now() - moved_at < _STILL_SECONDS

    def _due(self, wanted: Mapping[str, Offsets]) -> list[str]:
        if self._everything_at is not None and self.now() < self._everything_at:
            changed = [group for group, offsets in wanted.items() if self._done.get(group) != offsets]
            return [group for group in changed if group not in self._denied]
        self._everything_at = self.now() + _EVERYTHING_SECONDS
        self._denied.clear()
        return list(wanted)

    def _is_old(self, group: str) -> bool:
        """Whether a group's commits have to be renewed before Kafka expires them; their age is unknown at the start.

        Renewal covers all partitions of a group: one whose commit does not change ages while others are committed.
        """
        last = self._renewed.get(group)
        return last is None or self.now() - last > self._retention_seconds / _RENEWALS

    def _inside(self, planned: Mapping[str, Offsets]) -> dict[str, Offsets]:
        """The planned commits without offsets outside the target's log, from which retention may have deleted them."""
        places = {place for offsets in planned.values() for place in offsets}
        bounds = self.target.bounds_each(places) if places else {}
        return {
            group: {
                place: commit
                for place, commit in offsets.items()
                if place in bounds and bounds[place].log_start <= commit.offset <= bounds[place].log_end
            }
            for group, offsets in planned.items()
        }

    def _commit(
        self, group: GroupFacts, offsets: Offsets
    ) -> tuple[Offsets, Mapping[TopicPartition, _Refused]]:
        """Commit a group's offsets in one request; return the offsets sent, and the problems by partition."""
        name = group.group
        if not offsets or name in self.moved():
            return {}, {}
        try:
            moved = self._moved_since(group, offsets)
            offsets = {place: commit for place, commit in offsets.items() if place not in moved}
            problems = self.target.groups.alter(name, offsets) if offsets else {}
        except MmtoolError as error:
            return offsets, dict.fromkeys(offsets, _Refused(error.message, error.code))
        refused = {at: _Refused(f"{at}: {found}", found.name) for at, found in sorted(problems.items())}
        return offsets, refused | moved

    def _moved_since(self, group: GroupFacts, offsets: Offsets) -> dict[TopicPartition, _Refused]:
        """Partitions that another client has committed since the check, each with a sentence; see L."""
        if self.now() - self._looked_at < FRESH_SECONDS:
            return {}
        moved = moved_since(self.target.groups, group.group, group.before, offsets)
        return {place: _Refused(f"{place} {MOVED_JUST_NOW}") for place in moved}

    def _followed(
        self,
        group: GroupFacts,
        wanted: Offsets,
        sent: Offsets,
        problems: Mapping[TopicPartition, _Refused],
        *,
        renewed: bool,
    ) -> SyncedGroup:
        now, name = self.now(), group.group
        others = self._is_left_alone(name)
        if not problems and group.there.idle and not others:  # else it is looked at again in the next turn
            self._done[name] = wanted
            if renewed:
                self._renewed[name] = now
        written = sent.keys() - problems.keys()
        before = {place: found.offset for place, found in group.before.items()}
        stands = {
            place
            for place, commit in wanted.items()
            if place in written or before.get(place) == commit.offset
        }
        if not others:
            self._stood[name] = {place: wanted[place] for place in stands}
        ahead = {place for place, commit in wanted.items() if before.get(place, 0) > commit.offset}
        told = "; ".join(dict.fromkeys(one.sentence for one in problems.values()))
        problem = f"group {name}: {told}" if told else ""
        moved = sum(before.get(place) != sent[place].offset for place in written)
        causes = frozenset(one.cause for one in problems.values() if one.cause)
        return SyncedGroup(group.there, frozenset(stands), moved, frozenset(ahead), others, problem, causes)
