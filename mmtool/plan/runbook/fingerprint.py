"""A plan's fingerprint: the facts that it depends on, and which change of them makes a saved plan stale.

F  a fact of the fingerprint that has changed makes the plan stale; other facts (lag, log ends) never do
N  a topic that did not exist when the plan was made may appear: mirroring creates it, and so would the plan itself
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from mmtool.plan.groups.facts import Commit, Member
from mmtool.plan.records.shapes import made
from mmtool.plan.words import counted
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition, Unknown, or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.words import Names

Commits = dict[TopicPartition, Commit]
Key = TypeVar("Key")
_ABSENT = "none"


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic's id and partition count, which tell it from another topic of its name."""

    topic_id: str
    partitions: int

    def __str__(self) -> str:
        return f"id {self.topic_id} and {counted(self.partitions, 'partition')}"


@dataclass(frozen=True, slots=True)
class SideSeen:
    """The facts of one cluster.

    Attributes:
        cluster_id: UNKNOWN where it is neither answered nor stored.
        topics: The topics that the groups read, or will read, as far as they exist.
    """

    cluster_id: ClusterId | Unknown
    topics: Mapping[str, TopicSeen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """The facts of one group.

    Attributes:
        commits: Its commits on the cluster that it leaves; in an emergency the last known ones.
        before: Its commits on the destination.
        here, there: Its members on each of them.
    """

    commits: Mapping[TopicPartition, Commit]
    before: Mapping[TopicPartition, Commit]
    here: tuple[Member, ...] = ()
    there: tuple[Member, ...] = ()

    @classmethod
    def of(cls, facts: GroupFacts) -> GroupSeen:
        """The facts of a group by its current commits and members."""
        return cls(
            dict(facts.commits),
            dict(facts.before),
            _in_order(facts.here.members),
            _in_order(facts.there.members),
        )


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """All facts that a plan depends on.

    Attributes:
        here: The cluster that groups leave.
        there: The destination.
    """

    here: SideSeen
    there: SideSeen
    groups: Mapping[str, GroupSeen]


def fingerprint_of(
    here: SideSeen, there: SideSeen, groups: Iterable[GroupFacts], renamed: Mapping[str, str]
) -> Fingerprint:
    """The fingerprint of these groups, and of those topics alone that they read.

    Args:
        here: The cluster that groups leave, with its topics.
        there: The destination, with its topics.
        groups: The groups of the plan.
        renamed: The destination's names of the plan's topics, by their names on the cluster `here`.
    """
    facts = tuple(groups)
    read = sorted({place.topic for group in facts for place in group.commits} & renamed.keys())
    return Fingerprint(
        _narrowed(here, read),
        _narrowed(there, [renamed[name] for name in read]),
        {group.group: GroupSeen.of(group) for group in facts},
    )


def _narrowed(side: SideSeen, names: Iterable[str]) -> SideSeen:
    return SideSeen(side.cluster_id, {name: side.topics[name] for name in names if name in side.topics})


def _in_order(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=str))


def differences(saved: Fingerprint, now: Fingerprint, names: Names) -> list[str]:
    """The facts that differ between two fingerprints, as sentences; empty for a plan that is still fresh.

    Args:
        saved: The saved plan's fingerprint.
        now: The current fingerprint.
        names: ``source`` is the cluster that groups leave.
    """
    return [
        *_sides(saved.here, now.here, names.source),
        *_sides(saved.there, now.there, names.target),
        *_groups(saved.groups, now.groups, names),
    ]


def another_cluster(alias: str, was: ClusterId | Unknown, now: ClusterId | Unknown) -> str:
    """The sentence that an alias means another cluster than when the plan was made."""
    today = "its cluster id is unknown now" if now is UNKNOWN else f"is now cluster {now}"
    return f"{alias} was cluster {was} when the plan was made, and {today}"


def _sides(saved: SideSeen, now: SideSeen, alias: str) -> Iterator[str]:
    """Yield the changes of one cluster; where its id has changed, only that."""
    if saved.cluster_id is not UNKNOWN and saved.cluster_id != now.cluster_id:
        yield another_cluster(alias, saved.cluster_id, now.cluster_id)
        return
    for name, was in saved.topics.items():
        there = now.topics.get(name)
        if there != was:
            today = "does not exist now" if there is None else f"now has {there}"
            yield f"topic {name} on {alias} had {was}, and {today}"


def _groups(saved: Mapping[str, GroupSeen], now: Mapping[str, GroupSeen], names: Names) -> Iterator[str]:
    for group in sorted({*saved, *now}):
        was, stands = saved.get(group), now.get(group)
        if was is None or stands is None:
            before, after = ("was not", "is") if was is None else ("was", "is not")
            yield f"group {group} {before} found when the plan was made, and {after} found now"
            continue
        yield from _commits(group, was.commits, stands.commits, names.source)
        yield from _commits(group, was.before, stands.before, names.target)
        yield from _members(group, was.here, stands.here, names.source)
        yield from _members(group, was.there, stands.there, names.target)


def _commits(
    group: str, was: Mapping[TopicPartition, Commit], now: Mapping[TopicPartition, Commit], alias: str
) -> Iterator[str]:
    for place in sorted({*was, *now}):
        if was.get(place) != now.get(place):
            then, today = _offset(was, place), _offset(now, place)
            yield f"group {group}, {place} on {alias}: the committed offset was {then} and is now {today}"


def _offset(commits: Mapping[TopicPartition, Commit], place: TopicPartition) -> str:
    commit = commits.get(place)
    if commit is None:
        return _ABSENT
    return f"{commit.offset} (metadata {commit.metadata})" if commit.metadata else str(commit.offset)


def _members(group: str, was: tuple[Member, ...], now: tuple[Member, ...], alias: str) -> Iterator[str]:
    if was != now:
        yield f"group {group} on {alias} had {_who(was)}; it now has {_who(now)}"


def _who(members: tuple[Member, ...]) -> str:
    return "the members " + ", ".join(map(str, members)) if members else "no members"


class SideValues(TypedDict):
    """The facts of one cluster.

    Attributes:
        cluster_id: Its id; null if the cluster did not answer and its id is not stored.
        topics: By name: the topic's id and its number of partitions.
    """

    cluster_id: str | None
    topics: dict[str, tuple[str, int]]


class GroupValues(TypedDict):
    """The facts of one group.

    Attributes:
        commits: On the cluster that it leaves: topic, partition, offset, metadata.
        before: On the destination: topic, partition, offset, metadata.
        members_here: Its members on the cluster that it leaves: client id, host.
        members_there: Its members on the destination: client id, host.
    """

    commits: list[tuple[str, int, int, str]]
    before: list[tuple[str, int, int, str]]
    members_here: list[tuple[str, str]]
    members_there: list[tuple[str, str]]


class SeenValues(TypedDict):
    """The facts that a plan depends on.

    Attributes:
        here: The facts of the cluster that the groups leave.
        there: The facts of the destination.
        groups: The facts of each group, by its name.
    """

    here: SideValues
    there: SideValues
    groups: dict[str, GroupValues]


def as_values(seen: Fingerprint) -> SeenValues:
    """A fingerprint as JSON values."""
    return {
        "here": _side_values(seen.here),
        "there": _side_values(seen.there),
        "groups": {
            name: {
                "commits": _commit_values(group.commits),
                "before": _commit_values(group.before),
                "members_here": [(member.client_id, member.host) for member in group.here],
                "members_there": [(member.client_id, member.host) for member in group.there],
            }
            for name, group in seen.groups.items()
        },
    }


def from_values(values: Mapping[str, Any]) -> Fingerprint:
    """A fingerprint from the JSON values of `as_values`.

    Raises:
        KeyError, ValueError, TypeError: The values are not those of a fingerprint.
    """
    groups = {
        name: GroupSeen(
            _commits_from(group["commits"]),
            _commits_from(group["before"]),
            tuple(made(Member, *member) for member in group["members_here"]),
            tuple(made(Member, *member) for member in group["members_there"]),
        )
        for name, group in values["groups"].items()
    }
    return Fingerprint(_side_from(values["here"]), _side_from(values["there"]), groups)


def _side_values(side: SideSeen) -> SideValues:
    return {
        "cluster_id": or_none(side.cluster_id),
        "topics": {name: (topic.topic_id, topic.partitions) for name, topic in side.topics.items()},
    }


def _side_from(values: Mapping[str, Any]) -> SideSeen:
    told = values["cluster_id"]
    topics = {name: made(TopicSeen, *topic) for name, topic in values["topics"].items()}
    return SideSeen(UNKNOWN if told is None else ClusterId(told), topics)


def _commit_values(commits: Mapping[TopicPartition, Commit]) -> list[tuple[str, int, int, str]]:
    return [(*place, *commit.pair) for place, commit in sorted(commits.items())]


def _commits_from(rows: Iterable[list[Any]]) -> Commits:
    return {
        made(TopicPartition, topic, number): made(Commit, offset, text)
        for topic, number, offset, text in rows
    }
