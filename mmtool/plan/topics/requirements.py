"""The topics that a flow needs, and how those of a cluster differ from them (``mmtool.create.topics = false``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mmtool.plan.topics.configs import ConfigEntry, cleanup_policies
from mmtool.plan.topics.facts import CLEANUP_POLICY, CreateTopic, HaltReason
from mmtool.plan.words import are, counted, named_topics

MISSING_TOPICS = "topics_missing"
"""The code of the error about topics that mmtool may not create."""
PRINT_TOPICS = "run the commands that `mmtool acls --topics -c FILE` prints, as a user who may create topics"
_OWN_TOPIC = "mmtool-"
_OWN_KEY = "mmtool.create.topics = false"
NOT_CREATED = HaltReason(_OWN_KEY, PRINT_TOPICS)
"""Why mmtool does not create a topic, or add partitions to it."""


@dataclass(frozen=True, slots=True)
class NeededTopic:
    """A topic that a flow needs, as mmtool would create it.

    Attributes:
        cluster: The alias of its cluster.
        topic: Its name there.
        source_topic: The mirrored topic; null for an internal topic.
        partitions: The least number of partitions.
        replication_factor: -1: the broker's default.
        configs: The topic's configs.
        state: ``ready``, ``missing`` or ``different``.
        reason: What is missing or differs; empty for ``ready``.
        has_partitions: The partitions that the topic has now; null for a missing topic.
        policy: The ``cleanup.policy`` that an existing topic has to get; null where it need not change.
    """

    cluster: str
    topic: str
    source_topic: str | None
    partitions: int
    replication_factor: int
    state: Literal["ready", "missing", "different"]
    reason: str
    has_partitions: int | None
    policy: str | None
    configs: dict[str, str] = field(default_factory=dict)


def needed_topic(
    alias: str, wanted: CreateTopic, count: int | None, configs: Mapping[str, ConfigEntry]
) -> NeededTopic:
    """Compare a topic with the one that mmtool would create.

    An internal topic of mmtool's with one partition must not have more: the assignment of the only one is a lease.

    Args:
        alias: The cluster's alias.
        wanted: The topic that mmtool would create.
        count: The partitions of the topic on the cluster; None if it is missing.
        configs: Its configs, as far as they are shown.
    """
    about = wanted.name, wanted.source_topic or None, wanted.partitions, wanted.replication_factor
    if count is None:
        missing = f"topic {wanted.name} on {alias} is missing"
        return NeededTopic(alias, *about, "missing", missing, None, None, dict(wanted.configs))
    faults: list[str] = []
    is_own = not wanted.source_topic and wanted.name.startswith(_OWN_TOPIC)
    if count < wanted.partitions or (is_own and wanted.partitions == 1 < count):
        faults.append(f"{counted(count, 'partition')} instead of {wanted.partitions}")
    policy, there = wanted.configs.get(CLEANUP_POLICY, wanted.policy), cleanup_policies(configs)
    differs = policy is not None and there and there != {word.strip() for word in policy.split(",")}
    if differs:
        faults.append(f"{CLEANUP_POLICY}={','.join(sorted(there))} instead of {policy}")
    return NeededTopic(
        alias,
        *about,
        "different" if faults else "ready",
        f"topic {wanted.name} on {alias} has {' and '.join(faults)}" if faults else "",
        count,
        policy if differs else None,
        dict(wanted.configs),
    )


def faults_of(topics: Sequence[NeededTopic]) -> str:
    """What is missing or differs of topics of one cluster, and the setting that forbids a change; empty for nothing."""
    missing = [topic.topic for topic in topics if topic.state == "missing"]
    faults = [topic.reason for topic in topics if topic.state == "different"]
    if missing:
        names, number = named_topics(missing, len(missing)), len(missing)
        faults.insert(0, f"{names} on {topics[0].cluster} {are(number)} missing")
    return f"{'; '.join(faults)}; {_OWN_KEY}" if faults else ""
