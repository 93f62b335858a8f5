"""Write MirrorMaker 2's checkpoints, the translated group offsets of the source, and commit them (KIP-545)."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.failover.commits.group_configs import Configs, bring_configs, share_groups
from mmtool.failover.commits.group_sync import Offsets, OffsetSyncer
from mmtool.insight.external_mirror import with_compared
from mmtool.insight.group_lookup import ShownCommits, remedy_of
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import selected_groups, unsupported
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.mirror_maker import source_partition
from mmtool.kafka.state.log_reader import read_log
from mmtool.kafka.state.own_log import MARK, append_records
from mmtool.plan.groups.commit_rates import CommitPace, CommitSample, is_changed, observe
from mmtool.plan.groups.facts import Commit, GroupKind, GroupSelection
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.groups.sync import checkpoint_of, is_news, is_settled
from mmtool.plan.records.documents import CommitRatesRecord
from mmtool.plan.records.marks import LookRecord, RemovedRecord
from mmtool.plan.words import counted
from mmtool.replication.ownership.internal_topics import checkpoints_topic
from mmtool.runtime.threads import LookUps, in_thread
from mmtool.translation.answers import Refused
from mmtool.translation.mm2_records import Checkpoint, decode_checkpoint
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown, or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping
    from concurrent.futures import Future

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import ClusterPort
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.groups.facts import SelectedGroups

    Commits = Mapping[str, Mapping[TopicPartition, Commit]]
    Key = tuple[str, TopicPartition]
    Rates = dict[str, dict[str, int]]
    RatesToWrite = tuple[list[CommitRatesRecord], list[CommitRatesRecord], list[tuple[bytes, bytes | None]]]


_AGAIN_SECONDS = 60.0
_PATIENCE_SECONDS = 2.0
_SPACING_MS = 30_000
"""Milliseconds at least between two records of a group: its rates are averages over a minute or two."""


@dataclass(slots=True)
class GroupList:
    """The cached list; when listing fails, the last list stays valid and no caller waits.

    Only the first one is waited for. Later ones are asked for apart, and where one fails the last one holds: it is
    asked for again in a minute.

    Attributes:
        problem: Why the last listing failed; None where it did not.
        kinds: The kinds of groups that are no consumer groups.
    """

    problem: MmtoolError | None = None
    kinds: Mapping[str, GroupKind] = field(default_factory=dict)
    _names: tuple[str, ...] | None = None
    _due_at: float = 0.0
    _asked: Future[SelectedGroups] | None = None

    def names(self, flow: FlowNow) -> tuple[str, ...]:
        """The source's groups that the flow follows, by the newest list.

        Raises:
            UnreachableError, NotAuthorisedError: there is no list yet, and listing failed.
        """
        settings = flow.clusters.settings

        def listed() -> SelectedGroups:
            return selected_groups(flow, GroupSelection(everything=True), Direction.FORWARD)

        if self._names is None:
            found = listed()
            self._names, self.kinds = found.known, found.kinds
            self._due_at = time.monotonic() + settings.refresh_groups_interval_seconds
        elif self._asked is None and settings.refresh_groups and time.monotonic() >= self._due_at:
            self._asked = LookUps().submit(listed)
            wait([self._asked], _PATIENCE_SECONDS)  # a later list counts the next time
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            try:
                found, self.problem = asked.result(), None
                self._names, self.kinds = found.known, found.kinds
                self._due_at = time.monotonic() + settings.refresh_groups_interval_seconds
            except MmtoolError as error:
                self.problem, self._due_at = error, time.monotonic() + _AGAIN_SECONDS
        return self._names


@dataclass(slots=True)
class GroupOffsets:
    """Commits the current checkpoints on the target.

    Attributes:
        checkpoints: The groups' current checkpoints.
        target: Where to commit.
        moved: Groups that now belong to the target, as far as the control topic says at that moment.
        named: Stores the names of groups on the target, and returns why some of the groups must not be written.
        names_cure: Returns what helps those.
    """

    checkpoints: Checkpoints
    target: ClusterPort
    moved: Callable[[], Container[str]] = frozenset
    named: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}
    names_cure: Callable[[], str] = str
    follower: OffsetSyncer = field(init=False)

    def __post_init__(self) -> None:
        self.follower = OffsetSyncer(self.target, moved=self.moved)

    async def perform(self) -> None:
        """Commit the groups' current checkpoints on the target once.

        Raises:
            MmtoolError: the target refused the offsets of some groups; the others were committed.
        """
        wanted: dict[str, Offsets] = defaultdict(dict)
        for checkpoint in list(self.checkpoints.current.values()):  # a look may be under way in its thread
            offset = Commit(checkpoint.downstream, checkpoint.metadata)
            wanted[checkpoint.group][checkpoint.topic_partition] = offset
        refused = await in_thread(self.named, list(wanted))
        # share groups on brokers without them: said by doctor and by the audit
        lacking = await in_thread(unsupported, self.checkpoints.kinds, self.target)
        ours = {group: of for group, of in wanted.items() if group not in {*refused, *lacking}}
        turn = await in_thread(self.follower.turn, ours, self.checkpoints.kinds)
        failed = [f"group {group}: {why}" for group, why in refused.items()]
        failed += [group.problem for group in turn.values() if group.problem]
        if failed:
            more = f" (and {counted(len(failed) - 1, 'more group')})" if len(failed) > 1 else ""
            causes = sorted({cause for group in turn.values() for cause in group.causes})
            cure = self.names_cure() if refused else remedy_of(causes, self.target.alias)
            raise MmtoolError(failed[0] + more, remedy=cure)


@dataclass(slots=True)
class CommitRates:
    """The rates of all groups of a flow; not thread-safe.

    Attributes:
        written: What the control topic holds, by group.
    """

    written: dict[str, CommitRatesRecord] = field(default_factory=dict)
    _paces: dict[Key, CommitPace] = field(default_factory=dict)
    _written_ms: dict[str, int] = field(default_factory=dict)
    _now_ms: int = 0
    _untold: frozenset[str] = frozenset()

    def look(self, commits: Mapping[Key, Commit], at_ms: int, untold: Collection[str] = ()) -> None:
        """Take in the groups' commits at ``at_ms``; groups in ``untold`` could not be read, and keep their rates."""
        self._now_ms, self._untold = at_ms, frozenset(untold)
        kept = {key: pace for key, pace in self._paces.items() if key[0] in self._untold}
        self._paces = kept | {
            key: observe(self._paces.get(key), CommitSample(at_ms, commit.offset))
            for key, commit in commits.items()
        }

    def news(self) -> list[CommitRatesRecord]:
        """The records of groups with a partition whose rate clearly changed, if none was written within 30 s."""
        found = []
        for group, rates in self._now().items():
            if self._now_ms - self._written_ms.get(group, self._now_ms - _SPACING_MS) < _SPACING_MS:
                continue
            before = self.written.get(group)
            if _is_news(rates, {} if before is None else before.rates):
                found.append(CommitRatesRecord(group, rates))
        return found

    def gone(self) -> list[CommitRatesRecord]:
        """The written records of groups that have no commit any more."""
        there = {group for group, _ in self._paces} | self._untold
        return [record for group, record in self.written.items() if group not in there]

    def note(self, written: Iterable[CommitRatesRecord], struck_out: Iterable[CommitRatesRecord]) -> None:
        """Note that the control topic now has the ``written`` records, and no longer the ``struck_out`` ones."""
        for record in written:
            self.written[record.group] = record
            self._written_ms[record.group] = self._now_ms
        for record in struck_out:
            self.written.pop(record.group, None)
            self._written_ms.pop(record.group, None)

    def take_over(self, stored: Iterable[CommitRatesRecord]) -> None:
        """Start with the records that the control topic holds, also those of earlier owners."""
        self.written = {record.group: record for record in stored}

    def _now(self) -> dict[str, Rates]:
        """The rates by group; for a partition whose rate is not measured yet, the written one."""
        found: dict[str, Rates] = defaultdict(dict)
        for (group, place), pace in self._paces.items():
            if pace.rate is UNKNOWN:
                record = self.written.get(group)
                known = {} if record is None else record.rates.get(place.topic, {})
                rate = known.get(str(place.partition))
            else:  # in offsets per 1,000 seconds; at least 1 where the group commits at all
                rate = max(round(pace.rate * 1000), 1 if pace.rate else 0)
            if rate is not None:
                found[group].setdefault(place.topic, {})[str(place.partition)] = rate
        return found


def _is_news(rates: Rates, before: Rates) -> bool:
    if {topic: set(of) for topic, of in rates.items()} != {topic: set(of) for topic, of in before.items()}:
        return True
    return any(is_changed(before[topic][n], rate) for topic, of in rates.items() for n, rate in of.items())


@dataclass(slots=True)
class Checkpoints:
    """Reads the groups' commits on the source, translates them, and writes each checkpoint that has changed.

    When it did is written in each turn, behind the checkpoints, with the groups that could not be asked: while no
    checkpoint is new, only that tells how old the knowledge is. How fast each group commits is written when that has
    changed, and so are the commits that the source no longer has.

    Attributes:
        flow: The flow as it is now, with the topics that are mirrored.
        target: Its connections.
        named: As in `GroupOffsets`.
        say: Called with each sentence for the operator.
        current: By group and partition of the source: the group's current checkpoint, where its offset can be
            translated.
    """

    flow: Callable[[], FlowNow]
    target: WireCluster
    named: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}
    say: Callable[[str], None] = lambda _: None
    current: dict[Key, Checkpoint] = field(default_factory=dict)
    _settled: dict[Key, Commit] = field(default_factory=dict)
    _written: dict[Key, Checkpoint] = field(default_factory=dict)
    _is_there: bool = False
    _groups: GroupList = field(default_factory=GroupList)
    _shown: ShownCommits = field(default_factory=ShownCommits)
    _last: LookRecord | Unknown = UNKNOWN
    _rates: CommitRates = field(default_factory=CommitRates)
    _removed: dict[str, RemovedRecord] = field(default_factory=dict)
    _removals: dict[str, RemovedRecord] = field(default_factory=dict)
    _configs: dict[str, Configs] = field(default_factory=dict)
    _unbrought: list[str] = field(default_factory=list)
    _configs_at: float = 0.0
    _at_work: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kinds(self) -> dict[str, GroupKind]:
        """The kinds of groups that are no consumer groups, also of those that the source no longer lists."""
        before = {} if self._last is UNKNOWN else self._last.known_kinds
        held = {group for group, _ in self._written}
        kept = {group: kind for group, kind in before.items() if group in held}
        return kept | dict(self._groups.kinds)

    async def perform(self) -> None:
        """Read the groups' commits, and write the checkpoints and rates that changed.

        Raises:
            MmtoolError: the turn failed; or some groups could not be read, and all others were.
        """
        flow = self.flow()
        topic = flow.clusters.settings.checkpoints_topic
        try:
            if not self._is_there:
                await in_thread(self._prepare, flow, topic)
                await self.target.refresh([topic])
            looked_ms = int(time.time() * 1000)
            await in_thread(self._look, flow)
            untold = dict(self._shown.denied)
            excluded = {group for group, _ in self._written if not _accepts(flow, group)}
            await self._write(topic)
            control = flow.identity.control_topic
            # which commits the source no longer has; the record of a group that has them all again is empty
            await append_records(self.target, control, [(r.key, r.encode()) for r in self._removals.values()])
            self._removed |= self._removals
            await self._write_rates(control)
            await self._write_look(control, looked_ms, untold.keys() | excluded)
        except BaseException:
            self._is_there = False  # deleted, perhaps: the next turn makes it again
            raise
        self._is_there = True
        if self._groups.problem is not None:
            raise self._groups.problem
        if untold:
            first, others = next(iter(untold.values())), len(untold) - 1
            more = f" (and {counted(others, 'more group')})" if others else ""
            raise MmtoolError(f"{first.message}{more}", remedy=first.remedy)
        if self._unbrought:
            raise MmtoolError(
                self._unbrought[0],
                remedy="grant mmtool DESCRIBE_CONFIGS on the group on the source and ALTER_CONFIGS on it on the target",
            )

    def _prepare(self, flow: FlowNow, topic: str) -> None:
        """Create the topic as MM2 does, and read its checkpoints, so that none is written twice (KAFKA-15905)."""
        settings = flow.clusters.settings
        TopicAdmin(settings.target).create_internal([checkpoints_topic(settings)])
        self._written.clear()
        for record in read_log(settings.target, topic):
            found = decode_checkpoint(record.key, record.value)
            if isinstance(found, Checkpoint):
                self._written[found.group, source_partition(settings, found.topic_partition)] = found
        control = flow.clusters.state.control(flow.identity)
        self._rates.take_over(control.rates.values())
        self._removed = dict(control.removed)
        self._last = control.look

    def _look(self, flow: FlowNow) -> None:
        """Read and translate the commits, in one thread at a time: an abandoned thread has read older commits."""
        with self._at_work:
            looked_ms = int(time.time() * 1000)
            commits = self._shown.of(flow.clusters.source, self._followed(flow))
            ours = {
                (group, place): commit
                for group, of_group in commits.items()
                for place, commit in of_group.items()
                if place.topic in flow.topics
            }
            untold = self._shown.denied
            self._bring_configs(flow)
            self._rates.look(ours, looked_ms, untold)
            self._removals = self._removals_by(commits)
            for gone in [key for key in self.current if key not in ours and key[0] not in untold]:
                del self.current[gone]
            self._settled = {
                key: commit for key, commit in self._settled.items() if key in ours or key[0] in untold
            }
            self._translate(flow, {key: c for key, c in ours.items() if self._settled.get(key) != c})

    def _bring_configs(self, flow: FlowNow) -> None:
        """Bring the configs of share groups once a minute, without those that belong to the target or are refused."""
        share = share_groups(self._groups.kinds)
        if not share or time.monotonic() < self._configs_at:
            return
        if unsupported(self._groups.kinds, flow.clusters.target):
            share = []
        self._configs_at = time.monotonic() + _AGAIN_SECONDS
        moved = flow.clusters.state.control(flow.identity).moved
        ours = [group for group in share if group not in moved]
        refused = self.named(ours)
        ours = [group for group in ours if group not in refused]
        brought, self._unbrought, replaced = bring_configs(
            ours, flow.clusters.source, flow.clusters.target, self._configs, flow.clusters.names.there
        )
        for sentence in replaced:
            self.say(sentence)
        self._configs |= brought

    def _followed(self, flow: FlowNow) -> list[str]:
        """The listed groups, and others with checkpoints, until they are known to have been removed."""
        listed, removed = self._groups.names(flow), self._removed
        held = {g for g, place in self._written if g not in removed or not removed[g].has(place)}
        return [*listed, *sorted(g for g in held.difference(listed) if _accepts(flow, g))]

    def _removals_by(self, commits: Commits) -> dict[str, RemovedRecord]:
        """The records of removed commits that have changed, by group; a group that did not answer has none."""
        found: dict[str, dict[str, dict[str, int | None]]] = {group: {} for group in commits}
        for group, place in self._written:
            if group in commits and place not in commits[group]:
                before = self._removed.get(group)
                is_known = before is not None and before.has(place)
                last = before.last_ms(place) if before and is_known else or_none(self._asked_ms(group))
                found[group].setdefault(place.topic, {})[str(place.partition)] = last
        now = {group: RemovedRecord(group, of) for group, of in found.items()}
        return {
            group: of for group, of in now.items() if of != self._removed.get(group, RemovedRecord(group))
        }

    def _asked_ms(self, group: str) -> int | Unknown:
        return UNKNOWN if self._last is UNKNOWN else self._last.asked_ms(group)

    def _translate(self, flow: FlowNow, commits: Mapping[Key, Commit]) -> None:
        if not commits:
            return
        facts = partition_facts(flow.narrowed_to({place.topic for _, place in commits}), Direction.FORWARD)
        if flow.clusters.settings.is_external:
            asked = [(place, commit.offset) for (_, place), commit in commits.items()]
            facts = dict(with_compared(flow, facts, asked, Direction.FORWARD))
        for key, commit in commits.items():
            group, place = key
            found = checkpoint_of(group, commit, facts[place]) if place in facts else None
            if found is None or isinstance(found, Refused):
                self.current.pop(key, None)
                continue
            self.current[key] = found  # at once: who follows the groups meanwhile sees each of their places
            if is_settled(found, facts[place]):
                self._settled[key] = commit

    async def _write(self, topic: str) -> None:
        news = {key: c for key, c in self.current.items() if is_news(c, self._written.get(key))}
        await append_records(self.target, topic, [(c.key(), c.value()) for c in news.values()], MARK)
        self._written |= news

    async def _write_look(self, topic: str, looked_ms: int, untold: Iterable[str]) -> None:
        """Record when the groups were read; a group that could not be read keeps its older time."""
        look = LookRecord(
            looked_ms, {group: or_none(self._asked_ms(group)) for group in untold}, {**self.kinds}
        )
        await append_records(self.target, topic, [(look.key, look.encode())])
        self._last = look

    async def _write_rates(self, topic: str) -> None:
        news, gone, records = await in_thread(self._rates_to_write)
        if records:
            await append_records(self.target, topic, records)
            self._rates.note(news, gone)

    def _rates_to_write(self) -> RatesToWrite:
        with self._at_work:
            news, gone = self._rates.news(), self._rates.gone()
        values: list[tuple[bytes, bytes | None]] = [(record.key, record.encode()) for record in news]
        return news, gone, values + [(record.key, None) for record in gone]


def _accepts(flow: FlowNow, group: str) -> bool:
    return flow.clusters.settings.groups.accepts(group)
