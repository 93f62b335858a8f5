"""Kafka Streams applications among consumer groups, and whether their state moves with them.

S  the state of an application is in its internal topics, changelogs and others: it moves with them, or the move is
   refused
A  a group is an application by what it does itself, its commits and its members, and not by the names of topics
N  Kafka Streams finds these topics by name: a copy under another name is no state
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from mmtool.plan.groups.facts import GroupFacts
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.groups.outside_offsets import is_of_streams
from mmtool.plan.words import AGAIN, Names, few, joined
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition

_CHANGELOG = "-changelog"
_INTERNAL = re.compile(r"(-changelog|-repartition|(?i:-subscription-(registration|response))(-\d+)?-topic)$")
"""The ends of the names that Kafka Streams gives; the last one to topics of foreign-key joins (KIP-213)."""
_NAMED = 3


def internal_topics(
    groups: Collection[str], topics: Iterable[str], known_groups: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The topics, in alphabetical order, that are named like internal topics of each of ``groups``.

    ``app-two-counts-changelog`` belongs to group ``app-two`` where there is one, and not to ``app``. A name alone does
    not say that the group is an application: see `is_application`.

    Args:
        groups: The groups to look up.
        topics: The topics of the cluster where they run.
        known_groups: Every group of that cluster.
    """
    longest_first = sorted({*groups, *known_groups}, key=len, reverse=True)
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        end = _INTERNAL.search(topic)
        if end is None:
            continue
        begin = topic[: end.start()]
        owner = next((group for group in longest_first if begin.startswith(f"{group}-")), None)
        if owner in groups and owner is not None:
            found.setdefault(owner, []).append(topic)
    return {group: tuple(of_group) for group, of_group in found.items()}


def is_application(group: GroupFacts, topics: Collection[str]) -> bool:
    """Whether a group is a Kafka Streams application, by its commits, or by its members where it runs.

    Args:
        group: The group.
        topics: The topics that are named like its internal topics. An application reads all of them but its changelogs
            as a member of its group, and so commits there.
    """
    return (
        group.here.kind == "streams"
        or any(member.is_of_streams for member in group.here.members)
        or any(
            is_of_streams(commit.metadata) or (at.topic in topics and not at.topic.endswith(_CHANGELOG))
            for at, commit in group.commits.items()
        )
    )


class StateLoss(NamedTuple):
    """Why a state topic is not on the destination.

    Attributes:
        why: The reason, for a message.
        do: What brings the state there, with ``{group}`` for the application's group; empty where nothing does.
        condition: What must be true for that; empty where nothing must.
        source: The cluster that must answer for it; empty where that is no question.
        repeats: A repetition of the command shows whether the state is lost at all.
    """

    why: str
    do: str = (
        "mirror {group}-.*-(changelog|repartition|topic) and the application's input topics with"
        " IdentityReplicationPolicy, and let `topics` match them"
    )
    condition: str = ""
    source: str = ""
    repeats: bool = False

    @property
    def remedy(self) -> str:
        """What to do, behind its conditions."""
        if not self.source:
            return f"if {self.condition}, {self.do}" if self.condition else self.do
        also = f" and {self.condition}" if self.condition else ""
        return f"as long as {self.source} answers{also}, {self.do}"

    @classmethod
    def again(cls, why: str, do: str = AGAIN) -> Self:
        """A loss that a repetition of the command may not find any more."""
        return cls(why, do, repeats=True)


_AT_ITS_END = {
    Reason.AMBIGUOUS: "no stored offset proves that {target} has its last records",
    Reason.BEYOND_SOURCE_END: "its log on {source} was truncated or recreated",
    Reason.NOT_MIRRORED: "{source}->{target} has not mirrored all of it",
    Reason.TARGET_LOG_START_PASSED: "{target} has already deleted records of it",
}
_CHANGED = "the stored offset runs of {source}->{target} for this partition changed while the command ran"
_FROM_A_NEW_COPY = {Reason.AMBIGUOUS, Reason.NOT_MIRRORED}


def end_loss(reason: Reason, names: Names, mirror_again: Callable[[str], StateLoss] | None) -> StateLoss:
    """Why the last record of a state topic is not on the target, where the target still has all that was copied.

    Args:
        reason: Why the topic's end offset has no translation: no group committed it, so its sentence says too much.
        names: The aliases of the flow that mirrors the topic.
        mirror_again: Makes the loss of a topic that has to be mirrored again; None where there is no such topic.
    """
    why = _AT_ITS_END.get(reason, _CHANGED).format(source=names.source, target=names.target)
    if mirror_again is not None and reason in _FROM_A_NEW_COPY:
        return mirror_again(why)
    return StateLoss.again(why)


@dataclass(frozen=True, slots=True)
class StateTopic:
    """One changelog or repartition topic.

    Attributes:
        group: The application's group.
        partitions: How many it has on the cluster where the application runs; 0 where that is not known.
        lost: Why it is not on the destination under the same name; None where it is.
    """

    group: str
    name: str
    partitions: int
    lost: StateLoss | None = None


@dataclass(frozen=True, slots=True)
class AppState:
    """The state topics of all applications among the groups that move.

    Attributes:
        topics: Of all of them.
        without: ``--without-state``: topics that do not move are left behind.
    """

    topics: tuple[StateTopic, ...] = ()
    without: bool = False

    @property
    def moved(self) -> tuple[str, ...]:
        """The state topics that move with the groups, in alphabetical order."""
        return tuple(sorted({topic.name for topic in self.topics if not topic.lost}))

    def lost(self, group: str) -> tuple[StateTopic, ...]:
        """The state topics of a group that do not move with it."""
        return tuple(topic for topic in self.topics if topic.group == group and topic.lost)

    def why_lost(self, group: str) -> str:
        """The state topics of a group that do not move, each with its reason; at most three by name."""
        return few([f"{name} ({loss.why})" for name, loss in self._losses(group)], _NAMED)

    def remedy(self, group: str, cluster: str) -> str:
        """What to do so that a group starts on ``cluster`` with its state; one clause for each cause."""
        causes = dict.fromkeys(loss.remedy for _, loss in self._losses(group))
        return or_without_state(joined(*(one.replace("{group}", group) for one in causes)), cluster)

    def _losses(self, group: str) -> list[tuple[str, StateLoss]]:
        return [(topic.name, topic.lost) for topic in self.lost(group) if topic.lost]

    @property
    def losing(self) -> tuple[str, ...]:
        """The groups whose state does not move with them, or not all of it."""
        return tuple(sorted({topic.group for topic in self.topics if topic.lost}))


NO_STATE = AppState()


def or_without_state(remedy: str, cluster: str) -> str:
    """A remedy for lost state, and the way to move the application to ``cluster`` without it."""
    return (
        f"{remedy}{'; or, ' * bool(remedy)}to move the application without its state, add --without-state to `mmtool"
        f" failover`, and reset the application on {cluster} with kafka-streams-application-reset.sh before you start"
        " it"
    )


def state_warnings(state: AppState, cluster: str) -> Iterator[str]:
    """Yield a warning for each application that ``--without-state`` moves without all of its state."""
    for group in state.losing if state.without else ():
        yield (
            f"group {group} starts on {cluster} without its state: {state.why_lost(group)}; reset the application on"
            f" {cluster} before you start it"
        )


def with_lost_state(plan: GroupPlan, state: AppState, group: str | None = None) -> GroupPlan:
    """A group's plan with a refusal for each partition of its state that does not move.

    Args:
        plan: The group's plan.
        state: The state topics of all applications.
        group: The application's group, where its name differs from the plan's (a drill's copy).
    """
    forward = plan.direction is Direction.FORWARD
    known = {plan.read_from(verdict) for verdict in plan.verdicts}
    lost = OffsetVerdict(plan.group, None, None, refusal=Reason.STATE_NOT_MIRRORED, blocks=not state.without)
    rows = [
        replace(lost, source=at) if forward else replace(lost, target=at)
        for topic in state.lost(group or plan.group)
        for number in range(topic.partitions)
        if (at := TopicPartition(topic.name, number)) not in known
    ]
    return replace(plan, verdicts=(*plan.verdicts, *rows))
