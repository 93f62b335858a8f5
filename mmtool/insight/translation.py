"""Translate the committed offsets of a flow's groups to the other cluster, from live clusters.

The order of the requests matters, because commits and logs move meanwhile:

1. the groups' commits; a running group only advances, so later answers know at least as much
2. the log of the cluster where commits are read, after the commits: a commit is never past a later log end
3. the offset runs, after the commits: read before, a newer commit would seem to be ahead of the mirror
4. the target's logs, after the offset runs: read before, a record of the runs could be past the log's end

For ``--reverse`` commits are the target's; the same order gives the same guarantee.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, RefusedError, UsageError
from mmtool.insight.external_mirror import with_compared
from mmtool.insight.flow_now import FlowClusters, FlowNow, identify_pair
from mmtool.insight.group_names import check_names, listed_groups
from mmtool.insight.partitions import partition_facts, standstill
from mmtool.kafka.ports import LogPart
from mmtool.plain_text import did_you_mean, nearest
from mmtool.plan.groups.facts import (
    GroupFacts,
    GroupKind,
    SelectedGroups,
    no_share_groups,
    occupied,
    select_groups,
)
from mmtool.plan.groups.offsets import (
    Direction,
    GroupPlan,
    PartitionFacts,
    Rules,
    ever_ran,
    plan_group,
    unknown_groups,
)
from mmtool.plan.groups.outside_offsets import copied_metadata_warnings, sink_warnings
from mmtool.plan.records.identity import CANARY_TOPIC, is_runs_topic
from mmtool.plan.topics.facts import check_filters_and_rights
from mmtool.plan.words import are, counted, few, named_topics
from mmtool.runtime.threads import Unawaited
from mmtool.translation.answers import Bounded, Knowledge, Reason
from mmtool.translation.lockstep import NO_PROOF, Placed, Stretch, StretchRecords, stretch_before, stretch_of
from mmtool.translation.types import UNKNOWN, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.facts import GroupSelection, GroupStanding
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.types import TopicPartition


_NAMED = 3


@dataclass(frozen=True, slots=True)
class Translation:
    """The result: a plan for each group, with warnings.

    Attributes:
        ran: Whether anything was mirrored by the flow, by mmtool or MirrorMaker 2.
    """

    flow: FlowNow
    rules: Rules
    plans: tuple[GroupPlan, ...]
    warnings: tuple[str, ...] = ()
    ran: bool = True

    @property
    def writable(self) -> bool:
        """Whether any plan has an offset to commit."""
        return any(plan.to_write() for plan in self.plans)

    @property
    def error(self) -> RefusedError | None:
        """The refusal of a flow that has mirrored nothing: perhaps the other direction was meant; else None."""
        if self.ran:
            return None
        settings = self.flow.clusters.settings
        here, there = settings.source.alias, settings.target.alias
        enabled = "" if settings.enabled else " is not enabled, and"
        enable = "" if settings.enabled else f"set `{settings.name}.enabled = true`, and "
        read, written, option = (
            (here, there, " --reverse") if self.rules.direction is Direction.FORWARD else (there, here, "")
        )
        return RefusedError(
            f"flow {settings.name}{enabled} never ran: it has mirrored no topic from {here} to {there}",
            remedy=f"{enable}start it: `mmtool replicate -c FILE -s {here} -t {there}`; if it runs, `mmtool status -c"
            f" FILE` shows why nothing is mirrored; if {there}->{here} has run, that flow translates commits on {read}"
            f" to offsets of {written}: `mmtool translate-offsets -c FILE -s {there} -t {here}{option}`",
            code=Reason.NEVER_RAN,
        )

    @property
    def has_proof(self) -> bool:
        """Whether any translation was proven by comparing records."""
        return any(verdict.proof != NO_PROOF for plan in self.plans for verdict in plan.verdicts)


def look(clusters: FlowClusters, topics: Collection[str] = (), *, past: bool = False) -> FlowNow:
    """Ask both clusters, at the same time, for their ids and topics, and return what the flow mirrors.

    Args:
        clusters: The flow.
        topics: ``--topic``: only these of the flow's topics.
        past: Topics that were mirrored and no longer exist on the source suffice as a match.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a request.
        RefusedError: A cluster has another id than ``mmtool.cluster.id`` says.
        UsageError: Both aliases are one cluster; an alias clash; no topic is matched.
    """
    identity = identify_pair(clusters)
    with Unawaited() as pool:
        there, here = pool.map(lambda cluster: cluster.topics(), (clusters.target, clusters.source))
    control = clusters.state.check_aliases(identity, there)
    clusters.names.adopt(control.group_names, control.moved, partial(listed_groups, clusters.target))
    if clusters.back is not None:
        clusters.back.check_aliases(identity.way_back, here)
    reading = {Direction.FORWARD: (here, identity.way_back), Direction.REVERSE: (there, identity)}
    others = frozenset(d for d, (names, ours) in reading.items() if mirrors_others(names, ours))
    mirrored = _mirrored(clusters, identity, here, topics, past=past)
    return FlowNow(clusters, identity, mirrored, bool(topics), there, others)


def look_again(flow: FlowNow) -> FlowNow:
    """The flow with the partitions and topics that its clusters have now; partitions that are gone stay.

    Requests about a partition that is gone then fail, as they do when it goes later.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a request.
    """
    here, there = flow.clusters.source.topics(), flow.clusters.target.topics()
    now = {
        name: topic
        for name, topic in here.items()
        if flow.clusters.settings.mirrors_topic(name)
        if (was := flow.topics.get(name, topic)).topic_id != topic.topic_id
        or was.partitions <= topic.partitions
    }
    return replace(flow, topics={**flow.topics, **now}, target_topics=there)


def look_along(chain: Sequence[FlowClusters], topics: Collection[str] = ()) -> FlowNow:
    """`look` at each flow of a chain: the topics of the first flow, as far as the other flows mirror them too."""
    first, *others = chain
    flow = look(first, topics)
    return replace(flow, then=look_along(others)) if others else flow


def mirrors_others(topics: Iterable[str], ours: FlowIdentity) -> bool:
    """Whether another flow than ``ours`` mirrors to a cluster that has these topics."""
    return any(is_runs_topic(name) and name != ours.runs_topic for name in topics)


def _mirrored(
    clusters: FlowClusters,
    identity: FlowIdentity,
    topics: Mapping[str, TopicFacts],
    wanted: Collection[str],
    *,
    past: bool,
) -> dict[str, TopicFacts]:
    flow, known = clusters.settings, list[str]()
    mirrored = {name: topic for name, topic in topics.items() if flow.mirrors_topic(name)}
    missing = sorted(set(wanted) - mirrored.keys())
    ours = mirrored.keys() - {CANARY_TOPIC}
    if past and (missing or not ours):
        positions = clusters.state.control(identity).positions.values()
        known = [position.topic for position in positions if flow.mirrors_topic(position.topic)]
    missing = [name for name in missing if name not in known]
    cycles = [name for name in missing if flow.came_from_target(name)]
    if cycles:
        what = "it is a mirror" if len(cycles) == 1 else "they are mirrors"
        raise UsageError(
            f"{flow.name} does not mirror {', '.join(cycles)}: by the naming policy, {what} from {flow.target.alias}",
            remedy=f"name topics that were created on {flow.source.alias}",
        )
    nothing = not ours and not wanted and not set(known) - {CANARY_TOPIC}
    unseen = sorted({*missing, *(flow.literal_topics if nothing else ())} - topics.keys())
    absent = clusters.source.lacks(unseen) if unseen else ()
    if hidden := [name for name in unseen if name not in absent]:
        raise NotAuthorisedError(
            f"cluster {flow.source.alias} denies DESCRIBE, and so does not list {named_topics(hidden)}",
            remedy="grant mmtool's principal READ, which includes DESCRIBE: `mmtool acls -c FILE --for read` lists"
            " every right that it needs",
        )
    if missing:
        raise UsageError(
            f"{flow.name} does not mirror {', '.join(missing)}"
            + did_you_mean(nearest(name, {*ours, *known}) for name in missing),
            remedy=f"name topics that exist on {flow.source.alias} and that `topics` and `topics.exclude` of"
            f" {flow.name} allow",
        )
    if nothing:
        raise _nothing_matches(flow, topics)
    return {name: topic for name, topic in mirrored.items() if not wanted or name in wanted}


def _nothing_matches(flow: FlowSettings, topics: Collection[str]) -> UsageError:
    here, there = flow.source.alias, flow.target.alias
    if any(map(flow.came_from_target, topics)):
        return UsageError(
            f"{flow.name} matches no topic of {here}: topics that were mirrored from {there} are not mirrored back",
            remedy=f"select the flow that mirrors topics of {there}: -s {there} -t {here} (with `mmtool"
            f" translate-offsets`, add --reverse to translate commits on {here}); or check `topics` and"
            f" `topics.exclude` of {flow.name}",
        )
    return UsageError(
        f"{flow.name} matches no topic of {here}", remedy=check_filters_and_rights(flow.name, here)
    )


def translate_groups(
    flow: FlowNow, selection: GroupSelection, rules: Rules, *, refine: bool = False
) -> Translation:
    """Translate the commits of the selected groups, by both clusters' present answers: a plan for each group.

    Args:
        flow: The flow.
        selection: The groups whose commits are translated.
        rules: The direction, and what is allowed.
        refine: Compare records where MM2's syncs give only bounds.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster stopped answering, or denies a part.
        RefusedError: Stored state that cannot be read.
    """
    selected = selected_groups(flow, selection, rules.direction)
    selected = replace(selected, said=check_names(flow, selected.known, rules.direction))
    groups = read_groups(flow, selected.known, rules.direction)
    warnings = [*selection_warnings(selected), *metadata_warnings(flow, groups, rules.direction)]
    partitions = partition_facts(flow, rules.direction, warnings, topics=topics_of(groups))
    if refine:
        _, plans = refined_plans(flow, groups, partitions, rules, warnings)
    else:
        plans = plans_by(flow, groups, partitions, rules)
    warnings += active_groups(
        plans, {group.group: group.there for group in groups}, flow.written_at(rules.direction).alias
    )
    warnings += standstill(flow, plans)
    sides = flow.sides(rules.direction)
    plans += unknown_groups(selected.unknown, rules.direction, sides)
    known = ever_ran(partitions.values())
    ordered = tuple(sorted(plans, key=lambda plan: plan.group))
    return Translation(flow, rules, ordered, tuple(warnings), known or flow.narrowed or flow.then is not None)


def plan_groups(
    flow: FlowNow, groups: Collection[GroupFacts], rules: Rules, warnings: list[str] | None = None
) -> list[GroupPlan]:
    """Plans for groups whose commits have been read already.

    Args:
        flow: The flow.
        groups: Read before this is called; see the order above.
        rules: The direction, and what is allowed.
        warnings: Takes sentences about unreadable records.
    """
    partitions = partition_facts(flow, rules.direction, warnings, topics=topics_of(groups))
    return plans_by(flow, groups, partitions, rules)


def topics_of(groups: Iterable[GroupFacts]) -> frozenset[str]:
    """The topics in which groups have commits, by their names where commits are read."""
    return frozenset(place.topic for group in groups for place in group.commits)


def plans_by(
    flow: FlowNow,
    groups: Collection[GroupFacts],
    partitions: Mapping[TopicPartition, PartitionFacts],
    rules: Rules,
) -> list[GroupPlan]:
    """As `plan_groups`, with partition facts that are known already; ``--topic`` narrows the commits."""
    if flow.narrowed:
        topics = {place.topic for place in partitions}
        groups = [
            replace(group, commits={at: one for at, one in group.commits.items() if at.topic in topics})
            for group in groups
        ]
    if flow.clusters.settings.is_external:
        commits = [(at, one.offset) for group in groups for at, one in group.commits.items()]
        partitions = with_compared(flow, partitions, commits, rules.direction)
    rules = replace(rules, sides=flow.sides(rules.direction))
    return [plan_group(group, partitions, rules) for group in groups]


def refined_plans(
    flow: FlowNow,
    groups: Collection[GroupFacts],
    partitions: Mapping[TopicPartition, PartitionFacts],
    rules: Rules,
    warnings: list[str],
) -> tuple[Mapping[TopicPartition, PartitionFacts], list[GroupPlan]]:
    """As `plans_by`, after comparing the records of both logs for commits that lie between two of MM2's syncs.

    Raises:
        UnreachableError, NotAuthorisedError: A log cannot be read.
    """
    told = plans_by(flow, groups, partitions, rules)
    known = refined(flow, partitions, told, warnings)
    return known, plans_by(flow, groups, known, rules)


def active_groups(plans: Iterable[GroupPlan], standing: Mapping[str, GroupStanding], where: str) -> list[str]:
    """Sentences about groups that are active on the cluster ``where``: the first three with their members and hosts."""
    refused = sorted(
        {v.group for plan in plans for v in plan.verdicts if v.refusal is Reason.ACTIVE_ON_TARGET}
    )
    named = [occupied(name, where, standing[name]) for name in refused[:_NAMED]]
    more = refused[_NAMED:]
    return (
        [*named, f"{counted(len(more), 'more group')} {are(len(more))} active on {where}"] if more else named
    )


def selected_groups(flow: FlowNow, selection: GroupSelection, direction: Direction) -> SelectedGroups:
    """The selected groups, among those of the cluster where commits are read."""
    listed = flow.read_at(direction).groups.listing()
    passes = flow.clusters.settings.groups.accepts
    return select_groups(selection, listed.states, passes, listed.kinds)


def selection_warnings(selected: SelectedGroups) -> tuple[str, ...]:
    """Warnings about groups that the operator may have expected and that were not selected."""
    found = list(selected.said)
    if selected.excluded:
        found.append(left_out(selected.excluded))
    if not selected.known and not selected.unknown:
        found.append(
            "no consumer group matches the command's options and the filters `groups` and `groups.exclude`; brokers"
            " list only groups on which mmtool's principal has DESCRIBE"
        )
    return tuple(found)


def left_out(groups: Iterable[str]) -> str:
    """The sentence about groups that match the command line and are excluded by the configuration."""
    return f"`groups` and `groups.exclude` leave out {few(sorted(groups))}: add -g NAME to include one"


def metadata_warnings(flow: FlowNow, groups: Iterable[GroupFacts], direction: Direction) -> tuple[str, ...]:
    """Warnings about offsets of the cluster where commits are read, in their metadata or outside Kafka."""
    read, written, groups = flow.read_at(direction).alias, flow.written_at(direction).alias, tuple(groups)
    found = copied_metadata_warnings(groups, read, written)
    return (*found, *sink_warnings((group.group for group in groups), read, written))


def read_groups(
    flow: FlowNow, names: Collection[str], direction: Direction, *, stable: bool = False
) -> list[GroupFacts]:
    """Commits and members of these groups on both clusters; ``stable`` as in `GroupsPort.commits`.

    Raises:
        MmtoolError: A cluster does not answer, or shows none of the groups; with ``stable``, not all of them.
    """
    here, there = (
        flow.read_at(direction).groups,
        flow.written_at(direction).groups,
    )
    # standing first: what a group without members had committed by then is its last word
    standing_here, standing_there = here.describe_each(names), there.describe_each(names)
    commits, before = here.commits_each(names, stable=stable), there.commits_each(names)
    failed = before.failed | standing_there.failed | commits.failed | standing_here.failed
    if failed and (stable or len(failed) == len(names)):
        raise next(iter(failed.values()))
    problems = {name: error.message for name, error in failed.items()}
    problems |= unsupported({name: of.kind for name, of in standing_here.items()}, flow.written_at(direction))
    found = [
        GroupFacts(name, {}, problem=problems[name])
        if name in problems
        else GroupFacts(name, commits[name], before[name], standing_here[name], standing_there[name])
        for name in names
    ]
    renamed = flow.end.clusters.names.renamed
    return [replace(group, target_group=renamed(group.group)) for group in found]


def unsupported(kinds: Mapping[str, GroupKind], where: ClusterPort) -> dict[str, str]:
    """Why a cluster cannot hold each share group among some groups; none where its brokers know them.

    Raises:
        UnreachableError, NotAuthorisedError: The cluster does not answer.
    """
    share = [name for name, kind in kinds.items() if kind is GroupKind.SHARE]
    if not share or where.groups.has_share_groups():
        return {}
    return dict.fromkeys(share, no_share_groups(where.alias))


_LONGEST = 200_000
"""The most records of either log that are read and held in memory for one commit."""


class _Search:
    """One commit that is to be placed."""

    def __init__(
        self,
        flow: FlowNow,
        facts: PartitionFacts,
        commit: UpstreamOffset,
        told: Bounded | None,
        stretch: Stretch,
    ) -> None:
        self.facts, self.commit, self.told, self.stretch = facts, commit, told, stretch
        known = flow.topics[facts.source.topic].topic_id
        self.here = LogPart(facts.source, known, stretch.upstream, stretch.most)
        there = flow.target_topics[facts.target.topic].topic_id
        self.there = LogPart(facts.target, there, stretch.downstream, len(stretch.downstream))


def refined(
    flow: FlowNow,
    partitions: Mapping[TopicPartition, PartitionFacts],
    plans: Iterable[GroupPlan],
    warnings: list[str],
) -> dict[TopicPartition, PartitionFacts]:
    """The facts, with exact places of commits that MM2's syncs leave bounded or ambiguous, found in both logs.

    Args:
        flow: The flow.
        partitions: By source partition.
        plans: The translations by the syncs alone.
        warnings: Takes sentences about what was not compared.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer.
    """
    searches = list(_searches(flow, partitions, plans))
    if not searches:
        return dict(partitions)
    near = [search for search in searches if search.stretch.longest <= _LONGEST]
    if len(near) < len(searches):
        far = [search.facts.source for search in searches if search.stretch.longest > _LONGEST]
        warnings.append(
            f"--refine compares at most {_LONGEST:,} records for each commit, so the translated offsets of"
            f" {counted(len(far), 'commit')} stay bounded or ambiguous: {few(sorted(set(far)))}"
        )
    placed = _placed(flow, near, warnings)
    return {
        at: replace(facts, placed=placed[at]) if at in placed else facts for at, facts in partitions.items()
    }


def _searches(
    flow: FlowNow, partitions: Mapping[TopicPartition, PartitionFacts], plans: Iterable[GroupPlan]
) -> Iterator[_Search]:
    """The log ranges to compare for each distinct commit, however many groups are there."""
    asked = {
        (verdict.source, verdict.commit.offset): verdict.answer
        for plan in plans
        for verdict in plan.verdicts
        if verdict.knowledge is Knowledge.OFFSET_SYNCS
        and verdict.commit is not None
        and verdict.source is not None
        and (isinstance(verdict.answer, Bounded) or verdict.refusal is Reason.AMBIGUOUS)
    }
    # asked after the target's ends: of what is there by then no copy looks like a stranger's record
    ends = flow.clusters.source.bounds_each({place for place, _ in asked})
    for (place, offset), told in asked.items():
        facts, commit = partitions[place], UpstreamOffset(offset)
        if facts.synced is None or facts.target_log is UNKNOWN or place not in ends:
            continue
        here, there, stretch = ends[place], facts.target_log, None
        if isinstance(told, Bounded):
            ends_at = {"source_end": here.log_end, "target_end": there.log_end}
            stretch = stretch_of(facts.synced, commit, told, **ends_at)
        if stretch is None:
            begins_at = {"source_start": here.log_start, "target_start": there.log_start}
            stretch = stretch_before(facts.synced, commit, **begins_at)
        if stretch is not None:
            yield _Search(flow, facts, commit, told if isinstance(told, Bounded) else None, stretch)


def _placed(
    flow: FlowNow, searches: Collection[_Search], warnings: list[str]
) -> dict[TopicPartition, dict[int, Placed]]:
    """The exact places of commits by source partition; unreadable commits are left out and stay bounded."""
    committed = flow.clusters.settings.reads_committed
    there = flow.clusters.target.records_each([search.there for search in searches], committed=True)
    here = flow.clusters.source.records_each([search.here for search in searches], committed=committed)
    unread = {part.place: error.message for part, error in (here.failed | there.failed).items()}
    warnings += [
        f"the translated offsets in {place} stay bounded or ambiguous, because its records cannot be read: {why}"
        for place, why in sorted(unread.items())
    ]
    searches = [search for search in searches if search.here in here and search.there in there]
    found: dict[TopicPartition, dict[int, Placed]] = defaultdict(dict)
    for search in searches:
        sides = StretchRecords(search.stretch, here[search.here], there[search.there])
        found[search.facts.source][search.commit] = sides.place(search.commit, search.told)
    return found
