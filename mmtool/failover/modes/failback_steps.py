"""What a failback reads from both clusters, of its flow and the reverse flow, and its warnings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from mmtool.failover.diverged_tail.tail_file import default_name
from mmtool.failover.diverged_tail.tails import FoundTails, PartitionTail, TailKind, find_tail
from mmtool.failover.report.rows import offset_of
from mmtool.insight.flow_now import FlowNow
from mmtool.insight.partitions import partition_facts
from mmtool.kafka.ports import BatchesPort
from mmtool.plan.failover.choices import ToTopic
from mmtool.plan.failover.failback import Homecoming, HomeFacts
from mmtool.plan.groups.applications import AppState
from mmtool.plan.groups.facts import GroupFacts
from mmtool.plan.groups.offsets import Direction, GroupPlan
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.plan.words import ID_PLACEHOLDER, Names, are, counted, few, first_part, joined
from mmtool.translation.types import TopicPartition


@dataclass(frozen=True, slots=True)
class BothWays:
    """A flow, its reverse flow, and the logs of both clusters.

    Attributes:
        back: The reverse flow; without topics where all topics of the target came from the source.
        home, away: The logs of the flow's source and target.
    """

    flow: FlowNow
    back: FlowNow
    home: BatchesPort
    away: BatchesPort


class HomeLook:
    """One reading of both clusters for some groups.

    Attributes:
        mirrored: As in `HomeFacts`.
        read: The topics that the groups read, by their names on the target.
        topics: The source's topics among them.
    """

    def __init__(self, both: BothWays, groups: list[GroupFacts], state: AppState) -> None:
        self._both, self._groups, self._state = both, groups, state
        self._going = {group.group for group in groups}
        self.read = {place.topic for group in groups for place in group.commits} | set(state.moved)
        self.mirrored = partition_facts(both.flow, Direction.REVERSE, topics=self.read, complete=True)
        self.topics = self._at_home(self.read)

    @property
    def taken(self) -> set[str]:
        """Every topic on the source that the failback uses: the flow's, and those that the reverse flow creates."""
        back = self._both.back
        brought = {back.remote(topic) for topic in back.topics}
        one_name = self._both.flow.clusters.settings.keeps_names
        return self.topics if one_name else self.topics | brought

    def _at_home(self, names: Collection[str]) -> set[str]:
        return {facts.source.topic for at, facts in self.mirrored.items() if at.topic in names}

    def kept(self, moved: Mapping[str, MovedGroupRecord]) -> tuple[dict[str, list[str]], dict[str, str]]:
        """The topics that moved groups which do not fail back read as well, each with these groups.

        A group whose commits cannot be read is listed for every topic. The second result has why, by group.
        """
        found, staying = dict[str, list[str]](), sorted(moved.keys() - self._going)
        told = self._both.flow.clusters.target.groups.commits_each(staying)
        for topic in self.topics if told.failed else ():
            found[topic] = sorted(told.failed)
        for name, commits in told.items():
            for topic in self._at_home({place.topic for place in commits}) & self.topics:
                found.setdefault(topic, []).append(name)
        return found, {
            name: joined(error.message, first_part(error.remedy)) for name, error in told.failed.items()
        }

    def tails(self) -> FoundTails:
        """The diverged tails on the source of the topics that the groups read."""
        flow = self._both.flow.narrowed_to(self.topics)
        return find_tail(flow, source=self._both.home, target=self._both.away)

    def facts(self, tails: FoundTails, unknown: Mapping[str, str | None] | None = None) -> HomeFacts:
        born = partition_facts(self._both.back, Direction.FORWARD, topics=self.read, complete=True)
        one_name = self._both.flow.clusters.settings.keeps_names
        found = {part.place: part.tail for part in tails.partitions}
        topics = tuple(sorted(self.topics))
        control = self._both.flow.clusters.state.control(self._both.flow.identity)
        kept, unread = self.kept(control.moved)
        back = self._both.back.clusters.settings
        return HomeFacts(
            tuple(self._groups),
            unknown or {},
            self.mirrored,
            born,
            found,
            one_name,
            topics,
            control.failed_over,
            kept,
            unread,
            self._state,
            [topic for topic in topics if one_name and back.keeps_offsets(topic)],
        )


def told(
    tails: FoundTails, homecoming: Homecoming, names: Names, still_mirrored: Collection[str] = ()
) -> Iterable[str]:
    """Warnings about the diverged tail for the operator to read before confirming.

    Args:
        tails: The diverged tails.
        homecoming: The plan, and which diverged records its groups skip.
        names: The aliases of the clusters.
        still_mirrored: Topics of the source without a mark: the failback first mirrors their records after the
            frontier.
    """
    diverged = [found for found in tails.to_export if found.place.topic not in still_mirrored]
    coming = [found for found in tails.to_export if found.place.topic in still_mirrored]
    if diverged:
        yield _diverged(diverged, homecoming, names)
    if coming:
        number = sum(found.tail.records for found in coming)
        where = f"{names.source} {are(number)} not on {names.target} yet ({_places(coming)})"
        yield f"{_counted(coming, number)} of {where}: the failback mirrors {'it' if number == 1 else 'them'} first"
    ahead = sum(homecoming.ahead.get(found.place, 0) for found in diverged)
    if ahead:
        yield (
            f"groups that had not read everything on {names.target} will read {counted(ahead, 'diverged record')} on"
            f" {names.source}; nothing has to be done for these groups"
        )
    for found in tails.partitions:
        if found.kind is TailKind.CUT:
            yield (
                f"{found.place}: {names.source} has lost records that {names.target} has, and mmtool does not copy them"
                f" back: if consumers on {names.source} need these records, produce them again to {names.source}"
            )
        if found.strangers:
            yield (
                f"{found.place}: another producer wrote {counted(found.strangers, 'record')} into the"
                f" mirror on {names.target}; mmtool does not copy them to {names.source}: groups that need them must"
                f" read them on {names.target} before the failback"
            )
        if found.undecided:
            yield (
                f"{found.place} on {names.source}: the diverged records do not include"
                f" {counted(found.undecided, 'offset')} in or after an open transaction; to include them, wait until"
                " that transaction has ended, and rehearse again"
            )


def _diverged(found: list[PartitionTail], homecoming: Homecoming, names: Names) -> str:
    records = sum(one.tail.records for one in found)
    passed = sum(homecoming.passed.get(one.place, 0) for one in found)
    these = "them" if passed == records else f"{passed:,} of them"
    to = homecoming.plan.diverged
    where = (
        f"writes them into topic {to.topic} of {names.source}"
        if isinstance(to, ToTopic)
        else f"exports them to {default_name(ID_PLACEHOLDER)}"
    )
    skipped = f"groups that had read everything on {names.target} skip {these} on {names.source}"
    return joined(
        f"{_counted(found, records)} of {names.source} never reached {names.target} ({_places(found)}):"
        f" the failback {where}",
        skipped if passed else "",
    )


def _counted(found: list[PartitionTail], records: int) -> str:
    up_to = any(one.kind is TailKind.AT_MOST or not one.tail.is_final for one in found)
    return "up to " * up_to + counted(records, "record")


def _places(found: list[PartitionTail]) -> str:
    return few([one.place for one in found], 3)


def stay(facts: HomeFacts, names: Names) -> Iterable[str]:
    """A sentence for each topic that stays failed over: which groups read it, or which may read it, and why."""
    for topic, groups in sorted(facts.kept.items()):
        reading = [name for name in groups if name not in facts.unread]
        one = len(reading or groups) == 1
        if not reading:
            yield (
                f"after the failback {topic} stays failed over: mmtool does not know whether {few(groups)}"
                f" {'reads' if one else 'read'} it on {names.target}: {facts.unread[groups[0]]}; to fail {topic}"
                " back as well, remove this cause, then rehearse again"
            )
            continue
        read, do, they = ("reads", "does", "it does") if one else ("read", "do", "they do")
        yield (
            f"after the failback {topic} stays failed over: {few(reading)} {read} it on {names.target} and {do} not"
            f" fail back; until {they}, {names.flow} does not mirror {topic}"
        )


def at_home_already(plans: Iterable[GroupPlan], moved: Collection[str], names: Names) -> Iterator[str]:
    """Warnings for groups that no recorded failover moved, and that would skip records on the source.

    A group that was moved by hand has no record either; for a group that never moved, the commits on the target are
    copies of older ones.
    """
    for plan in plans:
        if plan.group in moved:
            continue
        ahead: dict[TopicPartition, int] = {}
        for verdict in plan.verdicts:
            offset, before, place = offset_of(verdict), verdict.before, verdict.source
            if verdict.refusal is not None or offset is None or before is None or place is None:
                continue
            if offset > before.offset:
                ahead[place] = offset - before.offset
        if ahead:
            yield (
                f"no recorded failover moved group {plan.group} to {names.target}, and a failback would make it skip"
                f" {counted(sum(ahead.values()), 'record')} on {names.source}"
                f" ({few(sorted(map(str, ahead)), 3)}): leave the group out unless it has read these records on"
                f" {names.target}"
            )
