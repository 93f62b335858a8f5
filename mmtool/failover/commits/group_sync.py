"""Sync group offsets (KIP-545): commit translated offsets when they change; as a command, at an interval."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, PartlyAppliedError, RefusedError, is_away
from mmtool.failover.commits.group_configs import Configs, bring_configs, share_groups
from mmtool.failover.commits.write import AT_ONCE, FRESH_SECONDS, MOVED_JUST_NOW, moved_since
from mmtool.insight.external_mirror import with_compared
from mmtool.insight.group_lookup import ShownCommits
from mmtool.insight.group_names import claim_names
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import (
    look,
    metadata_warnings,
    selected_groups,
    selection_warnings,
    unsupported,
)
from mmtool.kafka.ports import Problem
from mmtool.plain_text import did_you_mean, duration, shell_word
from mmtool.plan.groups.facts import ONLY_CONSUMERS, Commit, GroupFacts, GroupKind, occupied, only_of_kind
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.groups.sync import SyncRow, SyncState, lead, percentile, plan_group_sync
from mmtool.plan.words import counted, few, joined, tally
from mmtool.translation.answers import Reason, Sides
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.groups.sync import TranslatedCommits
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.records.marks import MovedGroupRecord


Offsets = dict[TopicPartition, Commit]


_EVERYTHING_SECONDS = 60.0
_STILL_SECONDS = 60.0
_RENEWALS = 4


@dataclass(frozen=True, slots=True)
class SyncedGroup:
    """The result of one sync for one group.

    Attributes:
        occupied: Why its offsets cannot be written on the target: members, or a group of another kind; empty where they
            can.
        stands: Partitions of the target whose commit is the wanted one.
        written: How many of those this sync changed; commits that were only renewed do not count.
        ahead: Partitions whose commit is ahead of the wanted one.
        others: Whether another client commits for it, although it has no members.
        problem: What was refused, in a sentence; empty when nothing was.
        causes: The names of the refusals' causes, as far as they are known, for `remedy_of`.
    """

    occupied: str
    stands: frozenset[TopicPartition] = frozenset()
    written: int = 0
    ahead: frozenset[TopicPartition] = frozenset()
    others: bool = False
    problem: str = ""
    causes: frozenset[str] = frozenset()


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
    _kinds: Mapping[str, GroupKind] = field(default_factory=dict)
    _retention_seconds: float = 0.0
    _at_work: threading.Lock = field(default_factory=threading.Lock)

    def turn(
        self, wanted: Mapping[str, Offsets], kinds: Mapping[str, GroupKind] = ONLY_CONSUMERS
    ) -> dict[str, SyncedGroup]:
        """Check the groups that are due, and commit their offsets where needed; return the result for each of them.

        Groups that now belong to the target are left out. Turns do not overlap: an abandoned turn ends before the next
        one starts, as its offsets are older.

        Args:
            wanted: The offsets of each group.
            kinds: The kinds of groups that are no consumer groups.

        Raises:
            MmtoolError: The target does not answer, or shows none of the groups.
        """
        with self._at_work:
            self._kinds = kinds
            return self._turn(wanted)

    def _turn(self, wanted: Mapping[str, Offsets]) -> dict[str, SyncedGroup]:
        moved = self.moved()
        for group in [group for group in wanted if group in moved]:
            # what is known of it is dropped: after a failback its sync starts fresh
            for known in (self._done, self._stood, self._renewed, self._moved_at):
                known.pop(group, None)
        stay = {group: offsets for group, offsets in wanted.items() if group not in moved}
        self._denied = {
            group: error for group, error in self._denied.items() if not is_away(error)
        }  # a coordinator that did not answer is asked in each turn
        due = self._due(stay)
        self._looked_at = self.now()
        facts = self._told(due) if due else []
        untold = {group: self._denied[group] for group in stay if group in self._denied}
        if untold and len(untold) == len(stay):
            raise next(iter(untold.values()))
        return self._led(facts, wanted) | {
            group: SyncedGroup("", problem=error.message, causes=frozenset({error.code}))
            for group, error in untold.items()
        }

    def _told(self, groups: list[str]) -> list[GroupFacts]:
        """The groups' commits and states on the target; groups that it does not show are asked again in a minute."""
        standing, before = self.target.groups.describe_each(groups), self.target.groups.commits_each(groups)
        failed = before.failed | standing.failed
        self._denied |= failed
        return [
            GroupFacts(
                name,
                {},
                before[name],
                only_of_kind(self._kinds.get(name, GroupKind.CONSUMER)),
                standing[name],
            )
            for name in groups
            if name not in failed
        ]

    def _led(self, facts: list[GroupFacts], wanted: Mapping[str, Offsets]) -> dict[str, SyncedGroup]:
        if not facts:
            return {}
        self._retention_seconds = self._retention_seconds or self.target.offsets_retention_seconds()
        # renewed before Kafka expires them: all partitions of a group, as a commit that does not change ages while
        # others are committed; their age is unknown at the start
        due = self.now() - self._retention_seconds / _RENEWALS
        old = {group.group for group in facts if self._renewed.get(group.group, -inf) < due}
        planned = self._inside(
            {
                group.group: {}
                if self._is_moved_by_others(group)
                else plan_group_sync(group, wanted[group.group], renew=group.group in old)
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
    ) -> tuple[Offsets, Mapping[TopicPartition, Problem]]:
        """Commit a group's offsets in one request; return the offsets sent, and the problems by partition."""
        name = group.group
        if not offsets or name in self.moved():
            return {}, {}
        try:
            moved = self._moved_since(group, offsets)
            offsets = {place: commit for place, commit in offsets.items() if place not in moved}
            problems = self.target.groups.alter(name, offsets, group.here.kind) if offsets else {}
        except MmtoolError as error:
            return offsets, dict.fromkeys(offsets, Problem(error.code, error.message))
        refused = {at: Problem(found.name, f"{at}: {found}") for at, found in sorted(problems.items())}
        return offsets, refused | moved

    def _moved_since(self, group: GroupFacts, offsets: Offsets) -> dict[TopicPartition, Problem]:
        """Partitions that another client has committed since the check; the cause has no name, as it has no remedy."""
        if self.now() - self._looked_at < FRESH_SECONDS:
            return {}
        moved = moved_since(self.target.groups, group.group, group.before, offsets)
        return {place: Problem("", f"{place} {MOVED_JUST_NOW}") for place in moved}

    def _followed(
        self,
        group: GroupFacts,
        wanted: Offsets,
        sent: Offsets,
        problems: Mapping[TopicPartition, Problem],
        *,
        renewed: bool,
    ) -> SyncedGroup:
        now, name = self.now(), group.group
        others = self._is_left_alone(name)
        if (
            not problems and group.can_be_written and not others
        ):  # else it is looked at again in the next turn
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
        causes = frozenset(one.name for one in problems.values() if one.name)
        other_kind = occupied(name, self.target.alias, group.there)
        why_not = other_kind if group.there.idle else group.there.sentence
        why_not = "" if group.can_be_written else why_not
        return SyncedGroup(why_not, frozenset(stands), moved, frozenset(ahead), others, problem, causes)


_WINDOW_SECONDS = 300.0
_MARKS_SECONDS = 1.0
"""How old the known marks of moved groups may be, in seconds, as with ``replicate``; a turn may take minutes."""
_PRECISION = 1  # digits of an age in seconds: few different ones, however many positions there are
_REMEDIES = {
    SyncState.BEHIND: "for a refused offset, run `mmtool translate-offsets -c FILE -s {source} -t {target} -g"
    " {group}{map}`, which says what to do; for a request that failed, see the column REASON, remove the cause, and"
    " run the same command again",
    SyncState.ACTIVE_ON_TARGET: "for groups that are active_on_target, such as {group}, see the column REASON:"
    " leave out a group that a failover has moved to {target}; otherwise stop, on {target}, the group's consumers or"
    " the other client that commits for it",
    SyncState.UNKNOWN_GROUP: "name groups of {source} with -g: {source} has no group {group}",
}
"""What to do about groups that are not completely synced, with the first one of each state."""
_OTHERS = (
    "the group has no members on {}, but another client (a consumer with assign(), or a tool) commits for it:"
    " offset sync skips the group until its offsets have not changed for 60 s"
)


@dataclass(frozen=True, slots=True)
class SyncTurn:
    """The result of one sync.

    Attributes:
        rows: By group.
        ages: Of the last minutes: how many offsets on the target had which age (seconds) before they were renewed.
    """

    flow: FlowSettings
    rows: tuple[SyncRow, ...]
    ages: Mapping[float, int]
    warnings: tuple[str, ...]

    def documents(self) -> list[dict[str, object]]:
        """The rows as dictionaries, with the aliases of the flow's clusters."""
        aliases = {"source": self.flow.source.alias, "target": self.flow.target.alias}
        return [aliases | asdict(row) for row in self.rows]

    @property
    def headline(self) -> str:
        """One line with the number of groups in each state, the offsets written, and the age of the synced offsets."""
        counts = Counter(row.state for row in self.rows)
        said = [f"{counts[state]} {state}" for state in SyncState if counts[state]]
        written = sum(row.written for row in self.rows)
        found = ", ".join([*said, f"{counted(written, 'offset')} written"])
        half, most = (duration(percentile(self.ages, share)) for share in (0.5, 0.99))
        fresh = f"; age of the replaced offsets p50 {half}, p99 {most}" if self.ages else ""
        return f"{self.flow.name}: {counted(len(self.rows), 'group')}; {found}{fresh}"

    @property
    def error(self) -> MmtoolError | None:
        """The error with which one requested turn ends: groups that are not completely synced; None if all are."""
        names = [row.group for row in self.rows if row.state in _REMEDIES]
        if not names:
            return None
        kind = PartlyAppliedError if any(row.written for row in self.rows) else RefusedError
        source, target = self.flow.source.alias, self.flow.target.alias
        firsts = {row.state: row.group for row in reversed(self.rows)}
        of = (
            self.flow.group_map
        )  # an inverse one is that of the reverse flow's key, which every command reads
        named = f" --group-map {shell_word(of.file)}" if of.file and not of.is_inverse else ""
        remedies = [
            remedy.format(group=shell_word(firsts[state]), source=source, target=target, map=named)
            for state, remedy in _REMEDIES.items()
            if state in firsts
        ]
        return kind(f"not completely synced to {target}: {few(names)}", remedy=joined(*remedies))


@dataclass(slots=True)
class GroupSync:
    """Syncs the groups of one flow, once per call.

    Attributes:
        clusters: The flow.
        selection: Which groups; groups that appear later are included.
        topics: ``--topic``.
        now: The clock, in seconds.
    """

    clusters: FlowClusters
    selection: GroupSelection
    topics: Collection[str] = ()
    now: Callable[[], float] = time.monotonic
    _follower: OffsetSyncer = field(init=False)
    _shown: ShownCommits = field(init=False)
    _identity: FlowIdentity = field(init=False)
    _moved: Mapping[str, MovedGroupRecord] = field(default_factory=dict)
    _configs: dict[str, Configs] = field(default_factory=dict)
    _moved_at: float = 0.0
    _asking: threading.Lock = field(default_factory=threading.Lock)
    _followed: dict[str, SyncedGroup] = field(default_factory=dict)
    _told: dict[tuple[str, TopicPartition], float] = field(default_factory=dict)
    _ages: deque[tuple[float, Counter[float]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._follower = OffsetSyncer(self.clusters.target, self.now, self._moved_by_now)
        self._shown = ShownCommits(self.now)

    def turn(self) -> SyncTurn:
        """Translate the groups' commits on the source, and commit them on the target, once.

        Raises:
            UnreachableError, NotAuthorisedError: A cluster does not answer, or denies the request.
            UsageError, RefusedError: As `look`, and stored state that cannot be read.
        """
        warnings = list[str]()
        flow = look(self.clusters, self.topics)
        self._identity = flow.identity
        self._read_marks()
        selected = selected_groups(flow, self.selection, Direction.FORWARD)
        read_at = self.now()
        commits = self._shown.of(self.clusters.source, selected.known)
        topics = {place.topic for of_group in commits.values() for place in of_group}
        partitions = partition_facts(flow, Direction.FORWARD, warnings, topics=topics)
        if flow.clusters.settings.is_external:
            asked = [(place, one.offset) for of_group in commits.values() for place, one in of_group.items()]
            partitions = dict(with_compared(flow, partitions, asked, Direction.FORWARD))
        led = {name: lead(GroupFacts(name, of_group), partitions) for name, of_group in commits.items()}
        moved, names = self._moved, self.clusters.names
        share = share_groups(selected.kinds)
        written = [name for name, of in led.items() if (of.wanted or name in share) and name not in moved]
        refused = {**claim_names(flow, written), **unsupported(selected.kinds, self.clusters.target)}
        if share := [name for name in share if name in written and name not in refused]:
            brought, problems, replaced = bring_configs(
                share, self.clusters.source, self.clusters.target, self._configs, names.there
            )
            self._configs |= brought
            warnings += problems + replaced
        stay = {name: of for name, of in led.items() if name not in moved and name not in refused}
        before = {name: replace(of, written=0) for name, of in self._followed.items() if name in stay}
        self._followed = before | self._follower.turn(
            {name: of.wanted for name, of in stay.items() if of.wanted}, selected.kinds
        )
        self._renew(stay, read_at)
        moved = {**moved, **self._moved}
        rows = [
            _moved(of, moved[name]) if name in moved else self._row(name, of, refused.get(name, ""))
            for name, of in led.items()
        ]
        rows += [_unknown(*names, self.clusters.settings) for names in selected.unknown.items()]
        rows += [
            SyncRow(name, SyncState.BEHIND, 0, 0, 0, None, error.message)
            for name, error in self._shown.denied.items()
        ]
        ages = sum((counts for _, counts in self._ages), Counter[float]())
        groups = [GroupFacts(name, of_group) for name, of_group in commits.items()]
        said = (
            *selection_warnings(selected),
            *metadata_warnings(flow, groups, Direction.FORWARD),
            *warnings,
        )
        named = tuple(replace(row, target_group=names.there(row.group)) for row in rows)
        return SyncTurn(self.clusters.settings, named, ages, (*names.warnings(selected.known), *said))

    def _read_marks(self) -> None:
        began = time.monotonic()
        self._moved = self.clusters.state.control(self._identity).moved
        self._moved_at = began

    def _moved_by_now(self) -> Mapping[str, MovedGroupRecord]:
        """The marks of moved groups, read again if older than a second; of concurrent threads only one reads."""
        with self._asking:
            if time.monotonic() - self._moved_at >= _MARKS_SECONDS:
                self._read_marks()
            return self._moved

    def _renew(self, led: dict[str, TranslatedCommits], read_at: float) -> None:
        now, ages = self.now(), Counter[float]()
        for name, of in led.items():
            followed = self._followed.get(name)
            for place in (*of.wanted, *of.refused):
                before = self._told.get((name, place))
                if before is not None:
                    ages[round(now - before, _PRECISION)] += 1
                if followed is not None and place in followed.stands and place in of.wanted:
                    self._told[name, place] = read_at
        self._ages.append((now, ages))
        while self._ages and now - self._ages[0][0] > _WINDOW_SECONDS:
            self._ages.popleft()

    def _row(self, name: str, led: TranslatedCommits, refused: str) -> SyncRow:
        followed = self._followed.get(name)
        places = [*led.wanted, *led.refused]
        state, reason = _judged(followed, led, self.clusters.settings.target.alias)
        state, reason = (SyncState.BEHIND, refused) if refused else (state, reason)
        told = [self._told.get((name, place)) for place in places]
        since = None if None in told or not told else min(moment for moment in told if moment is not None)
        running = state in (SyncState.ACTIVE_ON_TARGET, SyncState.AHEAD)
        short = len(places) - (
            0 if followed is None else len((followed.stands | followed.ahead) & led.wanted.keys())
        )
        return SyncRow(
            name,
            state,
            len(places),
            0 if followed is None else followed.written,
            short,
            None if since is None or running else self.now() - since,
            reason,
        )


def _unknown(name: str, near: str | None, flow: FlowSettings) -> SyncRow:
    reason = Reason.UNKNOWN_GROUP.said_of(Sides(flow.source.alias, flow.target.alias))
    return SyncRow(name, SyncState.UNKNOWN_GROUP, 0, 0, 0, None, reason + did_you_mean([near]))


def _moved(led: TranslatedCommits, mark: MovedGroupRecord) -> SyncRow:
    places = len(led.wanted) + len(led.refused)
    return SyncRow(mark.group, SyncState.ACTIVE_ON_TARGET, places, 0, places, None, mark.sentence)


def _judged(followed: SyncedGroup | None, led: TranslatedCommits, where: str) -> tuple[SyncState, str]:
    problems = f": {few(list(dict.fromkeys(led.problems)), 1)}" if led.problems else ""
    refused = tally(led.refused.values()) + problems
    if followed is None or not led.wanted:
        return (SyncState.BEHIND, refused) if refused else (SyncState.NO_COMMIT, "")
    if followed.occupied:
        return SyncState.ACTIVE_ON_TARGET, followed.occupied
    if followed.others:
        return SyncState.ACTIVE_ON_TARGET, _OTHERS.format(where)
    short = led.wanted.keys() - followed.stands - followed.ahead
    gone = f"{len(short)} {Reason.TARGET_LOG_START_PASSED}" if short and not followed.problem else ""
    if why := ", ".join(filter(None, (followed.problem, refused, gone))):
        return SyncState.BEHIND, why
    return (SyncState.AHEAD if followed.ahead else SyncState.SYNCED), ""
