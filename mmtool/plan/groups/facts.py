"""Consumer groups as a cluster reports them, selections of them, and units that are configured to move together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from mmtool.plain_text import nearest
from mmtool.plan.words import Names, few
from mmtool.translation.types import TopicPartition, Unknown


@dataclass(frozen=True, slots=True)
class ChosenUnit:
    """``--unit NAME``.

    Attributes:
        groups: Whether a group belongs to the unit.
        topics: Whether a topic of the source does.
        has_topics: Whether the configuration names any; without, no topic is outside.
    """

    name: str
    groups: Callable[[str], bool]
    topics: Callable[[str], bool]
    has_topics: bool = True


def dependencies(
    unit: ChosenUnit, read_by: Mapping[str, Collection[str]], moving: Collection[str], names: Names
) -> Iterator[str]:
    """Yield a sentence for each group that moves and reads topics outside the unit, or stays and reads topics in it.

    Args:
        unit: The unit.
        read_by: The flow's topics that each group reads, by their names on the source.
        moving: The groups that move.
        names: The clusters' names.
    """
    if not unit.has_topics:
        return
    staying = {group: topics for group, topics in read_by.items() if group not in moving}
    key = f"`mmtool.unit.{unit.name}.groups`"
    for group in sorted(set(moving) & read_by.keys()):
        outside = sorted(topic for topic in read_by[group] if not unit.topics(topic))
        if outside:
            left = sorted(other for other, topics in staying.items() if set(topics) & set(outside))
            read, stay = ("reads", "stays") if len(left) == 1 else ("read", "stay")
            it, kind = ("it", "group") if len(left) == 1 else ("them", "groups")
            shared = (
                f"; {kind} {few(left)}, which also {read} these topics, {stay} on {names.source}: to move {it}, add"
                f" {it} to {key}"
                if left
                else ""
            )
            yield (
                f"group {group} of unit {unit.name} also reads topics outside the unit ({few(outside)}): its offsets in"
                f" these topics move with it{shared}"
            )
    for group in sorted(staying):
        inside = sorted(filter(unit.topics, staying[group]))
        if inside:
            yield (
                f"group {group} stays on {names.source}, and reads topics of unit {unit.name} ({few(inside)}): to move"
                f" it as well, add it to {key}"
            )


OWN_GROUP_PREFIX = "mmtool."
"""The prefix of mmtool's own groups (ownership of flows); no selector ever matches them."""

_NOBODY = frozenset({"Empty", "Dead"})
_NAMED = 3
_STREAMS_STAY = "Kafka Streams members stay until session.timeout.ms after a clean close"
_STATIC_STAY = "a static member that has closed stays until its session times out"


class GroupKind(StrEnum):
    """What a group's positions are; the values are Kafka's names of the types, and those of rows."""

    CONSUMER = "consumer"
    """Committed offsets, by the classic protocol or the new one (KIP-848)."""
    SHARE = "share"
    """Where each share partition starts (KIP-932); records behind it may be acknowledged."""
    STREAMS = "streams"
    """Committed offsets of a Kafka Streams application (KIP-1071)."""

    @property
    def writer(self) -> str:
        """Kafka's tool that resets positions of this kind, without ``kafka-``.

        Not ``streams-groups`` for an application: with the offsets it resets, it deletes the internal topics.
        """
        return "share-groups" if self is GroupKind.SHARE else "consumer-groups"

    @property
    def starts_by(self) -> str:
        """The config that decides where a group of this kind starts in a partition without a position."""
        return "share.auto.offset.reset" if self is GroupKind.SHARE else "auto.offset.reset"

    @property
    def session_timeout(self) -> str:
        """The config that decides how long a lost member stays in a group of this kind."""
        return "session.timeout.ms" if self is GroupKind.CONSUMER else f"{self}.session.timeout.ms"


ONLY_CONSUMERS: Mapping[str, GroupKind] = MappingProxyType({})
"""The kinds of groups, by name, where all are consumer groups."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset: the next one to read, and the string that the client stored with it.

    Kafka Streams keeps its stream time in ``metadata``, so it is copied with the offset. The leader epoch
    is not: it has no meaning on another cluster, and a consumer that finds one above the target's own asks
    for metadata without end (KIP-320, KIP-1279's discussion).

    Attributes:
        acknowledged: Of a share group: how many records from the offset on it has acknowledged, and is given again
            where it continues at the offset, at most. UNKNOWN from brokers that do not count (before KIP-1226).
    """

    offset: int
    metadata: str = ""
    acknowledged: int | Unknown = field(default=0, compare=False)

    @property
    def pair(self) -> tuple[int, str]:
        """Offset and metadata, as documents have them."""
        return self.offset, self.metadata


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        client_id: The client's own name.
        host: The host that it connects from.
        instance_id: Its ``group.instance.id``, if it is a static member.
        has_closed: Whether the broker says that this static member has closed.
    """

    client_id: str
    host: str
    instance_id: str = field(default="", compare=False)
    has_closed: bool = field(default=False, compare=False)

    @property
    def is_of_streams(self) -> bool:
        """Whether the client id is one that Kafka Streams gives to its threads."""
        return "-StreamThread-" in self.client_id

    def __str__(self) -> str:
        static = f" (group.instance.id {self.instance_id}{', closed' * self.has_closed})" * bool(
            self.instance_id
        )
        return f"{self.client_id} on {self.host.removeprefix('/')}{static}"


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """A group's state and members.

    Attributes:
        state: Kafka's word: Empty, Stable, PreparingRebalance, Assigning... A group that the cluster does not
            know is Dead.
        kind: Its kind; a group that does not exist counts as a consumer group.
    """

    state: str
    members: tuple[Member, ...] = ()
    kind: GroupKind = GroupKind.CONSUMER

    @property
    def idle(self) -> bool:
        """Whether the group has no members: it is in state Empty or Dead."""
        return self.state in _NOBODY and not self.members

    def fits(self, kind: GroupKind) -> bool:
        """Whether it takes positions of a group of a kind, or is not there.

        An application that has changed to the streams protocol has a consumer group where it was mirrored to before.
        """
        was_classic = kind is GroupKind.STREAMS and self.kind is GroupKind.CONSUMER
        return self == ABSENT or self.kind is kind or was_classic

    @property
    def sentence(self) -> str:
        """The group's state and members: ``Stable: app-1 on 10.0.0.7, app-2 on 10.0.0.8 and 3 more``."""
        who = few(self.members, _NAMED)
        stay = f"; {_STREAMS_STAY}" if any(member.is_of_streams for member in self.members) else ""
        static = f"; {_STATIC_STAY}" if self.static else ""
        kind = "" if self.kind is GroupKind.CONSUMER else f"a {self.kind} group, "
        return f"{kind}{self.state}: {who}{stay}{static}" if who else f"{kind}{self.state}"

    @property
    def static(self) -> tuple[str, ...]:
        """The ``group.instance.id`` of each static member, those that are known to have closed first."""
        members = sorted(self.members, key=lambda member: not member.has_closed)
        return tuple(member.instance_id for member in members if member.instance_id)


ABSENT = GroupStanding("Dead")
"""Kafka's answer for a group that does not exist."""


def only_of_kind(kind: GroupKind) -> GroupStanding:
    """A group of which nothing but the kind counts, or is known."""
    return GroupStanding(ABSENT.state, kind=kind)


def occupied(group: str, cluster: str, standing: GroupStanding) -> str:
    """Why a group's positions cannot be written on a cluster, as a sentence."""
    if standing.idle:
        return f"on {cluster}, group {group} is a {standing.kind} group, and here it is one of another kind"
    return f"group {group} is active on {cluster} ({standing.sentence})"


def no_share_groups(cluster: str) -> str:
    """Why a cluster takes no share group, as a sentence."""
    return f"the brokers of {cluster} have no share groups (KIP-932: Kafka 4.2 or later)"


def make_room(group: str, cluster: str, standing: GroupStanding) -> str:
    """The remedy for a group that has members, or that is of another kind."""
    if standing.idle:
        return (
            f"delete {standing.kind} group {group} on {cluster}, or give one of the two groups another name"
        )
    timeout = standing.kind.session_timeout
    stop = f"stop the group's consumers on {cluster}, and wait until their sessions end ({timeout})"
    if not standing.static:
        return stop
    return (
        f"{stop}; to remove a static member that has closed before that, call"
        f" Admin.removeMembersFromConsumerGroup for group {group} with group.instance.id {few(standing.static, _NAMED)}"
    )


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group, as both clusters report it.

    Attributes:
        commits: Its committed offsets on the cluster that they are read from.
        before: Its committed offsets on the cluster that they would be written to.
        here: Its state on the cluster that commits are read from.
        there: Its state on the cluster that commits would be written to.
        problem: Why a cluster did not answer for it; empty where both did.
        target_group: Its name on the flow's target, where that is another; None where it is the same.
    """

    group: str
    commits: Mapping[TopicPartition, Commit]
    before: Mapping[TopicPartition, Commit] = field(default_factory=dict)
    here: GroupStanding = ABSENT
    there: GroupStanding = ABSENT
    problem: str = ""
    target_group: str | None = None

    @property
    def shown(self) -> str:
        """Its name in sentences, as `shown_name`."""
        return shown_name(self.group, self.target_group)

    @property
    def can_be_written(self) -> bool:
        """Whether the group's positions may be written there: no members, and no group of another kind."""
        return self.there.idle and self.there.fits(self.here.kind)


def shown_name(group: str, renamed: str | None) -> str:
    """A group in sentences about either cluster: with its name on the target, where that is another."""
    return group if renamed is None else f"{group} ({renamed} on the target)"


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The groups that a command line selects: all given options add up; none selects every accepted group.

    Attributes:
        names: ``-g``; takes precedence over groups.exclude.
        matching: ``--groups``: whether it matches a name; ``groups``/``groups.exclude`` must accept that as well.
        everything: ``--all-groups``.
        unit: ``--unit``: its groups, as far as ``groups``/``groups.exclude`` accept them.
    """

    names: tuple[str, ...] = ()
    matching: Callable[[str], bool] | None = None
    everything: bool = False
    unit: ChosenUnit | None = None

    @property
    def given(self) -> bool:
        """Whether the command line names any group at all."""
        return bool(self.names) or self.everything or bool(self.patterns)

    @property
    def patterns(self) -> tuple[Callable[[str], bool], ...]:
        """The predicates that select groups by name: those of ``--groups`` and ``--unit``."""
        unit = None if self.unit is None else self.unit.groups
        return tuple(pattern for pattern in (self.matching, unit) if pattern is not None)

    @property
    def is_one(self) -> bool:
        """Whether exactly one group is named: Kafka's reset file then has no column for it."""
        return len(self.names) == 1 and not self.patterns and not self.everything


@dataclass(frozen=True, slots=True)
class SelectedGroups:
    """The result of a selection on a cluster, each part in alphabetical order.

    Attributes:
        known: The selected groups.
        unknown: Named with ``-g``, and the cluster has no such group; with the nearest name that it has.
        excluded: Matched by ``--groups`` or ``--unit``, but not accepted by ``groups``/``groups.exclude``.
        kinds: The kinds of selected groups that are no consumer groups.
        said: Warnings about the group map.
    """

    known: tuple[str, ...]
    unknown: Mapping[str, str | None] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    kinds: Mapping[str, GroupKind] = field(default_factory=dict)
    said: tuple[str, ...] = ()


def select_groups(
    selection: GroupSelection,
    listed: Iterable[str],
    passes: Callable[[str], bool],
    kinds: Mapping[str, GroupKind] = ONLY_CONSUMERS,
) -> SelectedGroups:
    """Apply a selection to the groups that a cluster lists.

    Args:
        selection: The groups that the command line selects.
        listed: The cluster's groups.
        passes: Whether ``groups`` and ``groups.exclude`` accept a group.
        kinds: The kinds of listed groups that are no consumer groups.
    """
    theirs = {group for group in listed if not group.startswith(OWN_GROUP_PREFIX)}
    everything = selection.everything or not selection.given
    matched = theirs if everything else set()
    excluded: set[str] = set()
    for pattern in selection.patterns:
        found = set(filter(pattern, theirs))
        excluded |= {group for group in found if not passes(group)} - set(selection.names)
        matched = matched | found
    named = set(selection.names)
    known = {group for group in matched if passes(group)} | (named & theirs)
    unknown = {name: nearest(name, theirs) for name in sorted(named - theirs)}
    return SelectedGroups(
        tuple(sorted(known)),
        unknown,
        tuple(sorted(excluded)),
        {name: kinds[name] for name in known & kinds.keys()},
    )
