"""A plan's fingerprint: the facts that it depends on, and which change of them makes a saved plan stale.

F  a fact of the fingerprint that has changed makes the plan stale; other facts (lag, log ends) never do
N  a topic that did not exist when the plan was made may appear: mirroring creates it, and so would the plan itself
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypedDict

from mmtool.plan.groups.facts import Member
from mmtool.plan.words import counted
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.plan.groups.facts import Commit, GroupFacts
    from mmtool.plan.words import Names

Facts: TypeAlias = "Mapping[str, str]"
"""Facts by what they are about: ``{"group billing, orders-0 on east: the committed offset": "42"}``."""
_MISSING = "missing"


class SideSeen(TypedDict):
    """The facts of one cluster.

    Attributes:
        cluster_id: Its id; null if the cluster did not answer and its id is not stored.
        topics: By name: the topic's id and its number of partitions.
    """

    cluster_id: str | None
    topics: dict[str, tuple[str, int]]


class GroupSeen(TypedDict):
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


class Fingerprint(TypedDict):
    """The facts that a plan depends on.

    Attributes:
        here: The facts of the cluster that the groups leave.
        there: The facts of the destination.
        groups: The facts of each group, by its name.
    """

    here: SideSeen
    there: SideSeen
    groups: dict[str, GroupSeen]


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
    return {
        "here": _narrowed(here, read),
        "there": _narrowed(there, [renamed[name] for name in read]),
        "groups": {
            group.group: {
                "commits": _commits(group.commits),
                "before": _commits(group.before),
                "members_here": _members(group.here.members),
                "members_there": _members(group.there.members),
            }
            for group in facts
        },
    }


def _narrowed(side: SideSeen, names: Iterable[str]) -> SideSeen:
    topics = side["topics"]
    return {
        "cluster_id": side["cluster_id"],
        "topics": {name: topics[name] for name in names if name in topics},
    }


def _commits(commits: Mapping[TopicPartition, Commit]) -> list[tuple[str, int, int, str]]:
    return [(*place, *commit.pair) for place, commit in sorted(commits.items())]


def _members(members: Iterable[Member]) -> list[tuple[str, str]]:
    return [(member.client_id, member.host) for member in sorted(members, key=str)]


def differences(saved: Fingerprint, now: Fingerprint, names: Names) -> list[str]:
    """The facts that differ between two fingerprints, as sentences; empty for a plan that is still fresh.

    Where a cluster's id has changed, its topics are not compared.

    Args:
        saved: The saved plan's fingerprint.
        now: The current fingerprint.
        names: ``source`` is the cluster that groups leave.
    """
    found: list[str] = []
    for alias, was, stands in (
        (names.source, saved["here"], now["here"]),
        (names.target, saved["there"], now["there"]),
    ):
        was_topics, topics = topic_facts(alias, was), topic_facts(alias, stands)
        known = {fact: value for fact, value in topics.items() if fact in was_topics}  # N
        another = another_cluster(alias, was["cluster_id"], stands["cluster_id"])
        found += another or changes(was_topics, known)
    return found + changes(group_facts(saved, names), group_facts(now, names))


def changes(was: Facts, now: Facts) -> list[str]:
    """The facts whose values differ, as sentences; one that only one side has is ``missing`` on the other."""
    return [
        f"{fact} was {was.get(fact, _MISSING)} and is now {now.get(fact, _MISSING)}"
        for fact in {**was, **now}
        if was.get(fact) != now.get(fact)
    ]


def another_cluster(alias: str, was: str | None, now: str | None) -> list[str]:
    """The sentence that an alias means another cluster than when the plan was made; none where it does not."""
    told = {alias: f"cluster {was}"} if was is not None else {}
    return changes(told, {alias: f"cluster {now}"} if told and now is not None else {})


def topic_facts(alias: str, side: SideSeen) -> dict[str, str]:
    """Each topic's id and partition count, which tell it from another topic of its name."""
    return {
        f"topic {name} on {alias}": f"id {topic_id} with {counted(partitions, 'partition')}"
        for name, (topic_id, partitions) in side["topics"].items()
    }


def group_facts(seen: Fingerprint, names: Names) -> dict[str, str]:
    """Each group's commits and members on both clusters."""
    facts: dict[str, str] = {}
    for name, group in seen["groups"].items():
        facts[f"group {name}"] = "known"
        for alias, commits, members in (
            (names.source, group["commits"], group["members_here"]),
            (names.target, group["before"], group["members_there"]),
        ):
            for topic, partition, offset, metadata in commits:
                place = TopicPartition(topic, partition)
                text = f"{offset} (metadata {metadata})" if metadata else str(offset)
                facts[f"group {name}, {place} on {alias}: the committed offset"] = text
            who = [str(Member(client_id, host)) for client_id, host in members]
            facts[f"group {name} on {alias}: the list of members"] = ", ".join(who) or "empty"
    return facts
