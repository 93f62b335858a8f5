"""A topic as one cluster has it, the partitions that its mirror needs, and why a topic is not mirrored."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mmtool.plan.words import counted, few
from mmtool.translation.types import TopicId

_PASSES = frozenset(
    {
        "_TIMED_OUT",
        "_TRANSPORT",
        "REQUEST_TIMED_OUT",
        "NOT_CONTROLLER",
        "THROTTLING_QUOTA_EXCEEDED",
        "REASSIGNMENT_IN_PROGRESS",
    }
)
_NO_REFRESH = "refresh.topics.enabled = false"
AT_NEXT_REFRESH = "mmtool tries again at the next refresh of topics (refresh.topics.interval.seconds)"

BEGIN_AGAIN = (
    "set mmtool.on.topic.recreated = restart, then stop and start `mmtool replicate`, to mirror the topic again from"
    " `mmtool.start`"
)
"""The remedy for a deleted target topic."""


class HaltReason(str):
    """Why a partition is halted, as one sentence with its remedy.

    Attributes:
        cause: The sentence without the remedy.
        cure: The remedy; empty where the sentence has none.
        between: What joins the two.
    """

    __slots__ = ("between", "cause", "cure")
    cause: str
    cure: str
    between: str

    def __new__(cls, cause: str, cure: str = "", between: str = ": ") -> Self:
        made = super().__new__(cls, f"{cause}{between}{cure}" if cure else cause)
        made.cause, made.cure, made.between = cause, cure, between
        return made

    def after(self, effect: str) -> Self:
        """The reason of an effect that this is the cause of, with the same remedy."""
        return type(self)(f"{effect}: {self.cause}", self.cure, self.between)

    @classmethod
    def stored(cls, text: str) -> Self:
        """The reason that a worker has written as text, in which only a missing right is known again."""
        cause = text.removesuffix(f": {_GRANT_AND_WAIT}")
        return cls(text) if cause == text else cls(cause, _GRANT_AND_WAIT)

    @property
    def lacks_right(self) -> bool:
        """Whether `mmtool replicate` continues by itself once a right is granted."""
        return self.cure == _GRANT_AND_WAIT


_GRANT = "grant it to mmtool's principal"
_GRANT_AND_WAIT = f"{_GRANT}; `mmtool replicate` then tries again by itself"


def missing_right(right: str) -> HaltReason:
    """The reason that a right is denied, as ``READ on source topic orders``."""
    return HaltReason(f"{right} is denied", _GRANT_AND_WAIT)


_LONGEST_NAME = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str:
    """Why no Kafka cluster accepts this topic name; empty for a valid name (Kafka's own rule, class Topic)."""
    if len(name) > _LONGEST_NAME:
        return f"its name of {len(name)} characters is longer than Kafka's limit of {_LONGEST_NAME}"
    if not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        return f"Kafka allows letters, digits, '.', '_' and '-' in a topic's name, and not {name!r}"
    return ""


def not_the_same(
    name: str,
    topic_id: TopicId,
    mirrored: Collection[TopicId],
    *,
    begins_again: bool = False,
    kept_in: str = "",
) -> str:
    """Why a source topic is not mirrored because another one was mirrored under its name; empty where it may be.

    Args:
        name: The topic's name.
        topic_id: Its current id; its name where the cluster has no topic ids.
        mirrored: The ids of all topics that were mirrored under that name.
        begins_again: ``mmtool.on.topic.recreated = restart``.
        kept_in: The target topic whose records have the source's own offsets; empty where they are translated.
    """
    if not mirrored or topic_id in mirrored:
        return ""
    if set(mirrored) == {name}:  # it has no second try: one that was mirrored whole would come a second time
        return (
            f"source topic {name} had no topic id when it was mirrored and has one now, as after an"
            f" upgrade of its cluster: stop `mmtool replicate`, run `mmtool flow rebuild -c FILE --topic {name}"
            " --execute`, which finds where both logs agree, and start `mmtool replicate` again"
        )
    return "" if begins_again and not kept_in else source_made_again(name, kept_in)


def source_made_again(name: str, kept_in: str = "") -> HaltReason:
    """The sentence that a mirrored source topic was deleted and created again, with the remedy.

    Args:
        name: The topic's name.
        kept_in: As in `not_the_same`: two topics cannot have their offsets in one log.
    """
    cause = f"source topic {name} was deleted and created again"
    if kept_in:
        return HaltReason(
            f"{cause}, and {kept_in} on the target holds the old topic's records at the offsets that the new ones need"
            " (mmtool.offsets = same)",
            f"to mirror the new topic, stop `mmtool replicate`, delete topic {kept_in} on the target, run `mmtool flow"
            f" forget -c FILE --topic {name} --execute`, and start `mmtool replicate` again",
        )
    return HaltReason(
        cause,
        "to mirror the new topic after the old topic's records, set mmtool.on.topic.recreated = restart; a running"
        " `mmtool replicate` applies it",
    )


def source_deleted(name: str, missing: int, *, forgets: bool = True) -> str:
    """The sentence that a mirrored source topic was deleted, with its unmirrored offsets and the remedy.

    Args:
        name: The topic's name.
        missing: The number of unmirrored offsets below the last seen end of the source.
        forgets: Whether `mmtool flow forget` may remove the topic's stored state.
    """
    said = "; all its known records are on the target, and nothing has to be done"
    if missing:
        said = f", with {counted(missing, 'offset')} or more that were not mirrored and are lost"
    return f"source topic {name} was deleted{said}{f'; {forget_deleted(name)}' if forgets else ''}"


def forget_deleted(name: str) -> str:
    """The remedy for a mirrored source topic that was deleted."""
    return (
        "to remove the topic from `mmtool status` when no group needs its offsets any more, stop `mmtool replicate`,"
        f" run `mmtool flow forget -c FILE --topic {name} --execute`, and start `mmtool replicate` again"
    )


def source_denied(name: str, *, refreshes: bool = True) -> HaltReason:
    """The sentence that DESCRIBE on a mirrored source topic is denied, with the remedy.

    Args:
        name: The topic's name.
        refreshes: ``refresh.topics.enabled``.
    """
    return _describe_denied(f"source topic {name}", refreshes=refreshes)


def configs_hidden(names: Sequence[str], alias: str) -> HaltReason:
    """The sentence that topics do not show their configuration, with the permission to check.

    A topic that was created a moment ago may show it later.

    Args:
        names: The topics' names.
        alias: Their cluster's alias.
    """
    topics, show, them = (
        ("topic", "does not show its", "it") if len(names) == 1 else ("topics", "do not show their", "them")
    )
    return HaltReason(
        f"{topics} {few(names)} of {alias} {show} configuration",
        f"check that mmtool's principal has DESCRIBE_CONFIGS on {them}",
    )


def target_denied(name: str, *, refreshes: bool = True) -> HaltReason:
    """The sentence that DESCRIBE on a target topic is denied, with the remedy: whether it exists is unknown.

    Args:
        name: The topic's name.
        refreshes: ``refresh.topics.enabled``.
    """
    return _describe_denied(f"target topic {name}", refreshes=refreshes)


def _describe_denied(topic: str, *, refreshes: bool) -> HaltReason:
    reason = missing_right(f"DESCRIBE on {topic}")
    return reason if refreshes else HaltReason(reason.cause, restarting(_GRANT))


def restarting(remedy: str) -> str:
    """A remedy that a flow without a refresh of its topics notices only at its next start."""
    return f"{remedy}; then stop and start `mmtool replicate` ({_NO_REFRESH})"


def too_few_replicas(
    names: Sequence[str], replicas: int, in_sync: int, alias: str, key: str = "replication.factor"
) -> str:
    """The sentence that new topics have fewer replicas than ``min.insync.replicas``, with the remedy.

    Args:
        names: The topics' names.
        replicas: The number of replicas of each of their partitions.
        in_sync: Their ``min.insync.replicas``, set on the topic or by its brokers.
        alias: The cluster's alias.
        key: The property that sets the replication factor of new topics.
    """
    have = f"topic {names[0]} on {alias} has" if len(names) == 1 else f"topics {few(names)} on {alias} have"
    return (
        f"{have} {counted(replicas, 'replica')}, below min.insync.replicas = {in_sync}: brokers before Kafka 3.7 refuse"
        f" all records, later ones accept them with {replicas} in sync; set {key} to {in_sync} or more for new topics,"
        " and add replicas with kafka-reassign-partitions.sh"
    )


def what_helps(
    cause: str | None,
    source_topic: str,
    target_topic: str,
    partitions: int,
    *,
    exists: bool,
    refreshes: bool,
) -> str:
    """The remedy for a topic that the target refuses to create, or refuses to give more partitions.

    Args:
        cause: Kafka's or librdkafka's name of the broker's error; None where no broker answered.
        source_topic: The topic's name on the source.
        target_topic: Its name on the target.
        partitions: The number of partitions that it needs.
        exists: Whether the target has the topic, with too few partitions.
        refreshes: ``refresh.topics.enabled``.
    """
    if cause is None or cause in _PASSES:
        if refreshes:
            return AT_NEXT_REFRESH
        return f"stop and start `mmtool replicate` to try again ({_NO_REFRESH})"
    exclude = f"or add {source_topic} to topics.exclude"
    if cause == "TOPIC_EXCEPTION" and not exists:
        names = "shorter" if len(target_topic) > _LONGEST_NAME else "other"
        helps = (
            f"{exclude.removeprefix('or ')}; mmtool.topic.rename.format can give topics {names} names only in a flow"
            " that has mirrored no topic yet, at the next start of `mmtool replicate`"
        )
    else:
        template = (_HELPS_TO_GROW if exists else _HELPS_TO_CREATE).get(cause, _BY_HAND[exists])
        number = {"partitions": partitions, "counted": counted(partitions, "partition")}
        helps = template.format(topic=target_topic, exclude=exclude, **number)
    return helps if refreshes else restarting(helps)


DENIALS = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})
"""The names of the errors by which a broker denies a right on a topic."""

_HELPS_TO_CREATE = {
    "INVALID_REPLICATION_FACTOR": "set replication.factor to no more than the target has brokers",
    "POLICY_VIOLATION": "let the target's create.topic.policy.class.name accept it, {exclude}",
    **dict.fromkeys(DENIALS, "grant CREATE and ALTER on the topic to mmtool's principal"),
}
_HELPS_TO_GROW = {
    "INVALID_REPLICATION_FACTOR": "start as many brokers on the target as {topic} has replicas",
    "POLICY_VIOLATION": "let the target's policy allow {counted}, {exclude}",
    **dict.fromkeys(DENIALS, "grant ALTER on topic {topic} to mmtool's principal"),
}
_BY_HAND = {
    False: "create it with {counted} on the target by hand, {exclude}",
    True: "add partitions to {topic} on the target by hand"
    " (kafka-topics.sh --alter --topic {topic} --partitions {partitions}), {exclude}",
}
"""For any other error, by whether the target has the topic."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as one cluster has it; ``configs`` are the overrides that a mirror gets too."""

    name: str
    topic_id: TopicId
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A topic to create.

    Attributes:
        source_topic: The mirrored topic; empty for an internal topic.
        configs: Those to set.
        policy: The ``cleanup.policy`` that an existing topic must have, if ``configs`` do not set it; None for any.
    """

    source_topic: str
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    policy: str | None = None


CLEANUP_POLICY = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """The target's topic has fewer partitions than the source's."""

    source_topic: str
    name: str
    have: int
    partitions: int


TopicStep = CreateTopic | GrowTopic


def check_filters_and_rights(flow: str, source: str) -> str:
    """The remedy for a flow that matches no topic.

    Args:
        flow: ``A->B``.
        source: The source's alias.
    """
    return (
        f"check `topics` and `topics.exclude` of {flow}, and that mmtool's principal has DESCRIBE on the topics of"
        f" {source}: brokers hide topics without it"
    )


def meeting(names: Iterable[str], remote_topic: Callable[[str], str], alias: str) -> dict[str, HaltReason]:
    """Topics of one flow that would share a name on the target, each with the reason why it is not mirrored."""
    by_remote: dict[str, list[str]] = {}
    for name in names:
        by_remote.setdefault(remote_topic(name), []).append(name)
    return {
        name: HaltReason(
            f"topics {' and '.join(sorted(together))} would have the same name on {alias}, {remote}",
            "add all but one of them to topics.exclude",
        )
        for remote, together in by_remote.items()
        if len(together) > 1
        for name in together
    }


def taken_names(
    names: Iterable[str], remote_topic: Callable[[str], str], taken: Mapping[str, str], alias: str
) -> dict[str, HaltReason]:
    """Topics whose name on the target another flow uses, each with the reason why it is not mirrored.

    Args:
        names: Topics of the source.
        remote_topic: The flow's naming policy.
        taken: Topics of the target, and the name of the flow that mirrors into each.
        alias: The target's alias.
    """
    return {
        name: HaltReason(
            f"{name} would be called {remote} on {alias}, where {taken[remote]} mirrors another topic into {remote}",
            "add one of the two topics to topics.exclude of its flow",
        )
        for name in names
        if (remote := remote_topic(name)) in taken
    }


def plan_topics(
    source: Iterable[TopicFacts],
    target: Mapping[str, int],
    remote_topic: Callable[[str], str],
    replication_factor: int,
) -> list[TopicStep]:
    """The steps that give every mirrored topic its partitions on the target; nothing is shrunk or deleted.

    Args:
        source: Topics that the flow mirrors.
        target: Partition counts of the topics that the target has.
        remote_topic: The flow's naming policy.
        replication_factor: Of topics to create; the source's is not copied (as MM2).
    """
    steps: list[TopicStep] = []
    for topic in source:
        name = remote_topic(topic.name)
        have = target.get(name)
        if have is None:
            steps.append(CreateTopic(topic.name, name, topic.partitions, replication_factor, topic.configs))
        elif have < topic.partitions:
            steps.append(GrowTopic(topic.name, name, have, topic.partitions))
    return steps
