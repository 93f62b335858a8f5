"""Read a flow from its target alone, for when the source is lost: no request goes to the source.

The order of the requests matters less than with a live source, because little moves; what may (a mirror that still
runs, a client that commits on the target) is read again before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from mmtool.insight.external_mirror import verified_by
from mmtool.insight.group_names import listed_groups
from mmtool.insight.partitions import passed_over, target_log
from mmtool.insight.translation import left_out, unsupported
from mmtool.plan.failover.risks import EmergencyFacts, LastWord
from mmtool.plan.groups.facts import Commit, GroupFacts, GroupKind, only_of_kind, select_groups
from mmtool.plan.groups.names import GroupNames
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.words import few
from mmtool.translation.blocks import SeenOffset
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.kafka.ports import ClusterPort, FlowStatePort, StoredCheckpoint, StoredCheckpoints, SyncedPort
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.groups.facts import GroupSelection, SelectedGroups
    from mmtool.plan.records.marks import RemovedRecord
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import Unknown

    Checkpoints = Mapping[str, Mapping[TopicPartition, StoredCheckpoint]]


@dataclass(frozen=True, slots=True)
class TargetSide:
    """A flow, with connections to its target only.

    Attributes:
        synced: MM2's topics, as far as they are on the target.
        names: The names of its groups on the target.
    """

    settings: FlowSettings
    target: ClusterPort
    state: FlowStatePort
    synced: SyncedPort
    names: GroupNames = field(default_factory=GroupNames)


@dataclass(frozen=True, slots=True)
class TargetNow:
    """The target's answers.

    Attributes:
        source_id: UNKNOWN where mmtool never ran the flow, so that it was never stored.
        identity: The flow, as far as its topics' names say.
        facts: For the plan.
        topics: Of the target, by name.
        read_by: The topics of the source that each group with checkpoints on the target has committed in.
        left_behind: Groups that would be selected, and that the source no longer has.
        warnings: Sentences for the operator.
    """

    side: TargetSide
    target_id: ClusterId
    source_id: ClusterId | Unknown
    identity: FlowIdentity
    control: ControlView
    facts: EmergencyFacts
    topics: Mapping[str, TopicFacts]
    read_by: Mapping[str, frozenset[str]]
    left_behind: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def look_at_target(side: TargetSide, selection: GroupSelection, now_ms: int) -> TargetNow:
    """The target's knowledge of the selected groups and of the partitions that they read.

    Args:
        side: The flow.
        selection: Selects the groups.
        now_ms: The time in ms since 1970.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a part.
        RefusedError: Stored state that cannot be read; it answers as another cluster than ``mmtool.cluster.id`` says.
    """
    identity, control = identity_on_target(side)
    held = side.synced.checkpoints()
    current = current_checkpoints(held.checkpoints, control, selection.names)
    accepts = side.settings.groups.accepts
    selected = select_groups(selection, current, accepts)
    left_behind = select_groups(selection, held.checkpoints.keys() - current.keys(), accepts).known
    topics = side.target.topics()
    maps = _maps(side, identity, topics) if control.flow is not None else {}
    partitions = _partitions(side, topics, maps, held, control)
    kinds = {} if control.look is UNKNOWN else control.look.known_kinds
    groups = _groups(side, selected, current, kinds)
    known = {name: control.removed.get(name) for name in selected.known}
    facts = EmergencyFacts(
        groups,
        selected.unknown,
        _last_words(selected, current, control),
        partitions,
        _source_ends(maps, control, held),
        now_ms,
        born_there=side.settings.keeps_names and side.settings.way_back is not None,
        look_seconds=side.settings.emit_checkpoints_interval_seconds,
        rates=_rates(selected, current, control),
        removed={  # why each checkpoint that was left out of a selected group does not count
            name: {
                at: gone.sentence(side.settings.source.alias, at)
                for at in held.checkpoints[name].keys() - current[name].keys()
            }
            for name, gone in known.items()
            if gone is not None
        },
    )
    return TargetNow(
        side,
        identity.target_id,
        UNKNOWN if control.flow is None else identity.source_id,
        identity,
        control,
        facts,
        topics,
        {name: frozenset(place.topic for place in of) for name, of in current.items()},
        left_behind,
        (
            *passed_over(held.unreadable),
            *removed_groups(left_behind, side.settings.source.alias),
            *_warnings(side, selected, held, known),
        ),
    )


def _warnings(
    side: TargetSide,
    selected: SelectedGroups,
    held: StoredCheckpoints,
    removed: Mapping[str, RemovedRecord | None],
) -> Iterable[str]:
    for name, gone in removed.items():
        if gone is not None and all(map(gone.has, held.checkpoints[name])):
            why = gone.sentence(side.settings.source.alias, min(held.checkpoints[name]))
            yield f"group {name} is included by its name: {why}"
    if selected.excluded:
        yield left_out(selected.excluded)
    if not selected.known and not selected.unknown:
        yield f"no group matches: {side.target.alias} has no checkpoint of a selected group"


def identity_on_target(side: TargetSide) -> tuple[FlowIdentity, ControlView]:
    """The flow's identity by the target's stored state, and the contents of its control topic.

    Raises:
        UnreachableError, NotAuthorisedError, RefusedError: As `look_at_target`.
    """
    target_id = side.target.probe()
    source, alias = side.settings.source, side.settings.target.alias
    # provisional: it finds stored state by the source's alias before the source's id is known
    source_id = ClusterId(source.expected_cluster_id or source.alias)
    identity = FlowIdentity(source_id, target_id, source.alias, alias)
    control = side.state.control(identity)
    side.names.adopt(control.group_names, control.moved, partial(listed_groups, side.target))
    if control.flow is None:
        return identity, control
    return replace(identity, source_id=ClusterId(control.flow.source_cluster_id)), control


def _maps(
    side: TargetSide, identity: FlowIdentity, topics: Mapping[str, TopicFacts]
) -> dict[TopicPartition, PartitionMap]:
    """Offset runs by source partition; where the source topic was recreated, those of the mirror that still exists."""
    found: dict[TopicPartition, PartitionMap] = {}

    def rank(known: PartitionMap) -> tuple[bool, int]:  # the latter: when the source's end was last seen
        seen = known.tail.source_end
        return _is_there(known, topics), 0 if seen is UNKNOWN else seen.at_ms

    for known in side.state.maps(identity).values():
        place = known.about.upstream
        if place not in found or rank(found[place]) < rank(known):
            found[place] = known
    return found


def _is_there(known: PartitionMap, topics: Mapping[str, TopicFacts]) -> bool:
    """Whether the target's topic is still the one that was mirrored to (KIP-516)."""
    there = topics.get(known.about.target_topic)
    return there is not None and there.topic_id == known.about.target_topic_id


def _partitions(
    side: TargetSide,
    topics: Mapping[str, TopicFacts],
    maps: Mapping[TopicPartition, PartitionMap],
    held: StoredCheckpoints,
    control: ControlView,
) -> dict[TopicPartition, PartitionFacts]:
    def target(place: TopicPartition) -> TopicPartition:
        known = maps.get(place)
        name = side.settings.remote_topic(place.topic) if known is None else known.about.target_topic
        return TopicPartition(name, place.partition)

    known = {*maps, *(place for of_group in held.checkpoints.values() for place in of_group)}
    places = set(known)
    for place in known:  # each topic has as many partitions as its mirror
        there = topics.get(target(place).topic)
        places |= {TopicPartition(place.topic, n) for n in range(0 if there is None else there.partitions)}
    targets = {place: target(place) for place in sorted(places)}
    logs = side.target.bounds_each(targets.values())
    lost = {place for place, part in maps.items() if not _is_there(part, topics)}
    incomplete = any(part.mirror_start.upstream for part in maps.values()) or known - maps.keys()
    synced = side.synced.synced().maps if incomplete else {}
    facts = {
        place: PartitionFacts(
            place,
            target,
            maps.get(place),
            UNKNOWN,
            target_log(None if place in lost else logs.get(target)),
            synced=synced.get(place),
            problem=logs.failed[target].message if target in logs.failed else "",
            accepts_unverified=side.settings.accepts_unverified,
        )
        for place, target in targets.items()
    }
    if not side.settings.is_external:
        return facts
    return {place: replace(one, verified=verified_by(control, one, topics)) for place, one in facts.items()}


def current_checkpoints(
    held: Checkpoints, control: ControlView, named: Collection[str]
) -> dict[str, Mapping[TopicPartition, StoredCheckpoint]]:
    """The checkpoints of the commits that groups still had on the source when it last answered.

    A named group that the source no longer has keeps all of its checkpoints.
    """
    found: dict[str, Mapping[TopicPartition, StoredCheckpoint]] = {}
    for group, of_group in held.items():
        gone = control.removed.get(group)
        current = of_group if gone is None else {at: of for at, of in of_group.items() if not gone.has(at)}
        if current or group in named:
            found[group] = current or of_group
    return found


def _groups(
    side: TargetSide, selected: SelectedGroups, held: Checkpoints, kinds: Mapping[str, GroupKind]
) -> tuple[GroupFacts, ...]:
    names = selected.known
    standing, before = side.target.groups.describe_each(names), side.target.groups.commits_each(names)
    failed = before.failed | standing.failed
    if failed and len(failed) == len(names):
        raise next(iter(failed.values()))
    of = {name: kinds.get(name, GroupKind.CONSUMER) for name in names}
    problems = {name: error.message for name, error in failed.items()} | unsupported(of, side.target)
    found = (
        GroupFacts(name, {}, problem=problems[name])
        if name in problems
        else GroupFacts(
            name,
            {
                at: Commit(told.pair.upstream, told.metadata, UNKNOWN if of[name] is GroupKind.SHARE else 0)
                for at, told in held[name].items()
            },
            before[name],
            only_of_kind(of[name]),
            standing[name],
        )
        for name in names
    )
    return tuple(replace(group, target_group=side.names.renamed(group.group)) for group in found)


def _last_words(
    selected: SelectedGroups, held: Checkpoints, control: ControlView
) -> dict[tuple[str, TopicPartition], LastWord]:
    """The last known commit of each group and partition, with the time at which it was known.

    For mmtool's checkpoints that is the owner's last look at the group; for a commit that the source no longer has, the
    last look that found it; for MM2's, only the checkpoint's own time.
    """

    def known_ms(name: str, at: TopicPartition, told: StoredCheckpoint) -> int:
        removed = control.removed.get(name)
        if removed is not None and removed.has(at):
            return removed.last_ms(at) or told.pair.timestamp_ms
        asked_ms = control.asked_ms(name) if told.is_ours else UNKNOWN
        return told.pair.timestamp_ms if asked_ms is UNKNOWN else max(told.pair.timestamp_ms, asked_ms)

    return {
        (name, at): LastWord(told.pair.downstream, known_ms(name, at, told))
        for name in selected.known
        for at, told in held[name].items()
    }


def _rates(
    selected: SelectedGroups, held: Checkpoints, control: ControlView
) -> dict[tuple[str, TopicPartition], float]:
    """The read rates that the flow's owner measured last, by group and partition; none for MM2's checkpoints."""
    known = {record.group: record for record in control.rates.values()}
    found = {
        (name, at): known[name].rate(*at)
        for name in selected.known
        if name in known
        for at, told in held[name].items()
        if told.is_ours
    }
    return {key: rate for key, rate in found.items() if rate is not None}


def _source_ends(
    maps: Mapping[TopicPartition, PartitionMap], control: ControlView, held: StoredCheckpoints
) -> dict[TopicPartition, SeenOffset]:
    """The last known end of each source partition, from position reports, offset runs and groups' checkpoints.

    Halted and paused partitions are left out: their end is not watched, and may have moved by any number.
    """
    found: dict[TopicPartition, SeenOffset] = {}
    unwatched = control.unwatched
    read: dict[TopicPartition, UpstreamOffset] = {}  # the furthest over all groups, selected or not
    for of_group in held.checkpoints.values():
        for place, told in of_group.items():
            read[place] = max(told.pair.upstream, read.get(place, told.pair.upstream))
    for place, known in maps.items():
        here = (known.about.topic_id, known.about.partition)
        seen = [] if known.tail.source_end is UNKNOWN else [known.tail.source_end]
        position = control.positions.get(here)
        if position is not None and position.source_seen_ms:
            seen.append(SeenOffset(UpstreamOffset(position.source_end), position.source_seen_ms))
        if seen and here not in unwatched:
            furthest = max(*(one.offset for one in seen), read.get(place, known.upstream_frontier))
            found[place] = SeenOffset(furthest, max(one.at_ms for one in seen))
    return found


def removed_groups(names: Sequence[str], source: str) -> Iterable[str]:
    """Yield the sentence about groups that the source no longer has, and that were not selected by name."""
    if names:
        yield (
            f"left out: {few(names)}, because {source} no longer has their offsets (the groups were deleted, or their"
            " offsets expired); add -g NAME to include one"
        )
