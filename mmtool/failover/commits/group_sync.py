"""``groups sync``: commit a flow's translated group offsets on the target at an interval, and measure their age."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, PartlyAppliedError, RefusedError
from mmtool.failover.commits.syncer import OffsetSyncer, SyncedGroup
from mmtool.insight.group_lookup import ShownCommits
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import (
    look,
    metadata_warnings,
    selected_groups,
    selection_warnings,
)
from mmtool.plain_text import did_you_mean, duration, shell_word
from mmtool.plan.groups.facts import GroupFacts
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.groups.sync import SyncRow, SyncState, lead, percentile
from mmtool.plan.words import counted, few, joined, tally
from mmtool.translation.refusals import Reason, Sides

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.groups.sync import TranslatedCommits
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.records.marks import MovedGroupRecord
    from mmtool.translation.types import TopicPartition

_WINDOW_SECONDS = 300.0
_MARKS_SECONDS = 1.0
"""How old the known marks of moved groups may be, in seconds, as with ``replicate``; a turn may take minutes."""
_PRECISION = 1  # digits of an age in seconds: few different ones, however many positions there are
_REMEDIES = {
    SyncState.BEHIND: "for a refused offset, run `mmtool translate-offsets -c FILE -s {source} -t {target} -g {group}`,"
    " which says what to do; for a request that failed, see the column REASON, remove the cause, and run the same"
    " command again",
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
        return kind(
            f"not completely synced to {self.flow.target.alias}: {few(names)}", remedy=joined(*self._remedies)
        )

    @property
    def _remedies(self) -> Iterator[str]:
        named = {"source": self.flow.source.alias, "target": self.flow.target.alias}
        for state, remedy in _REMEDIES.items():
            if groups := [row.group for row in self.rows if row.state is state]:
                yield remedy.format(group=shell_word(groups[0]), **named)


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
        led = {name: lead(GroupFacts(name, of_group), partitions) for name, of_group in commits.items()}
        moved = self._moved
        stay = {name: of for name, of in led.items() if name not in moved}
        before = {name: replace(of, written=0) for name, of in self._followed.items() if name in stay}
        self._followed = before | self._follower.turn(
            {name: of.wanted for name, of in stay.items() if of.wanted}
        )
        self._renew(stay, read_at)
        moved = {**moved, **self._moved}
        rows = [_moved(of, moved[name]) if name in moved else self._row(name, of) for name, of in led.items()]
        rows += [_unknown(*names, self.clusters.settings) for names in selected.unknown.items()]
        rows += [_not_shown(name, error) for name, error in self._shown.denied.items()]
        ages = sum((counts for _, counts in self._ages), Counter[float]())
        groups = [GroupFacts(name, of_group) for name, of_group in commits.items()]
        said = (
            *selection_warnings(selected),
            *metadata_warnings(flow, groups, Direction.FORWARD),
            *warnings,
        )
        return SyncTurn(self.clusters.settings, tuple(rows), ages, said)

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

    def _row(self, name: str, led: TranslatedCommits) -> SyncRow:
        followed = self._followed.get(name)
        places = [*led.wanted, *led.refused]
        state, reason = _judged(followed, led, self.clusters.settings.target.alias)
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


def _not_shown(name: str, error: MmtoolError) -> SyncRow:
    return SyncRow(name, SyncState.BEHIND, 0, 0, 0, None, error.message)


def _moved(led: TranslatedCommits, mark: MovedGroupRecord) -> SyncRow:
    places = len(led.wanted) + len(led.refused)
    return SyncRow(mark.group, SyncState.ACTIVE_ON_TARGET, places, 0, places, None, mark.sentence)


def _judged(followed: SyncedGroup | None, led: TranslatedCommits, where: str) -> tuple[SyncState, str]:
    problems = f": {few(list(dict.fromkeys(led.problems)), 1)}" if led.problems else ""
    refused = tally(led.refused.values()) + problems
    if followed is None or not led.wanted:
        return (SyncState.BEHIND, refused) if refused else (SyncState.NO_COMMIT, "")
    if not followed.there.idle:
        return SyncState.ACTIVE_ON_TARGET, followed.there.sentence
    if followed.others:
        return SyncState.ACTIVE_ON_TARGET, _OTHERS.format(where)
    short = led.wanted.keys() - followed.stands - followed.ahead
    gone = f"{len(short)} {Reason.TARGET_LOG_START_PASSED}" if short and not followed.problem else ""
    if why := ", ".join(filter(None, (followed.problem, refused, gone))):
        return SyncState.BEHIND, why
    return (SyncState.AHEAD if followed.ahead else SyncState.SYNCED), ""
