"""Topics of one cluster, blocking: read and change configs, also where a broker refuses some; create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicCollection, admin

from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.clients import admin_client
from mmtool.kafka.errors import KINDS, ErrorSubject, failure_of, remedy_of_refusal, unreachable
from mmtool.kafka.ports import Problem
from mmtool.plan.topics.configs import (
    ABOUT_CONFIGS,
    ConfigAdjustment,
    ConfigEntry,
    ConfigOrigin,
    ResetConfig,
    SetConfig,
    named_config,
    nearest_value,
)
from mmtool.plan.topics.facts import DENIALS, CreateTopic, GrowTopic
from mmtool.plan.topics.requirements import MISSING_TOPICS, PRINT_TOPICS, NeededTopic, faults_of, needed_topic

_TIMEOUT_SECONDS = 30.0

Changes = dict[str, "str | None"]
"""Configs of one topic by name; None removes the override."""


class Attempt(Protocol):
    """One request for several topics; returns the broker's error for each that is refused."""

    def __call__(self, changes: Mapping[str, Changes], *, validate_only: bool) -> Mapping[str, Problem]: ...


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result for the topics.

    Attributes:
        failed: Topics that were refused for a reason other than one of their configs.
        adjustments: Configs of the other topics that were adjusted or left out.
    """

    failed: dict[str, Problem] = field(default_factory=dict)
    adjustments: list[ConfigAdjustment] = field(default_factory=list)


def apply_configs(
    wanted: Mapping[str, Changes], attempt: Attempt, needed: frozenset[str] = frozenset()
) -> TrialResult:
    """Set the configs of each topic; adjust or leave out those that the broker refuses.

    Args:
        wanted: The configs to set, by topic.
        attempt: The request that creates topics with the configs, or alters them.
        needed: Configs that are never adjusted or left out: a topic for which one is refused fails.
    """
    return _Trials(wanted, attempt, needed).run()


@dataclass
class _Trials:
    wanted: Mapping[str, Changes]
    attempt: Attempt
    needed: frozenset[str]

    def __post_init__(self) -> None:
        self._changes = {topic: dict(changes) for topic, changes in self.wanted.items()}
        self._reasons: dict[str, dict[str, str]] = defaultdict(dict)
        self._tried: set[tuple[str, str, str | None]] = set()

    def run(self) -> TrialResult:
        failed = dict(self.attempt(self._changes, validate_only=False)) if self._changes else {}
        refused = self._about_configs(failed)
        while named := {topic for topic in refused if self._settle_named(topic, failed[topic])}:
            failed |= self._again(named, failed)
            refused = self._about_configs(failed) & (named | refused)
        if refused:
            failed |= self._one_by_one(refused, failed)
        return TrialResult(failed, [one for topic in self._reasons for one in self._adjusted(topic, failed)])

    def _about_configs(self, failed: Mapping[str, Problem]) -> set[str]:
        return {t for t, why in failed.items() if why.name in ABOUT_CONFIGS and self._changes[t]}

    def _again(self, topics: set[str], failed: dict[str, Problem]) -> Mapping[str, Problem]:
        """Repeat the request for some topics with their remaining configs; clear their earlier failures."""
        for topic in topics:
            del failed[topic]
        return self.attempt({topic: self._changes[topic] for topic in topics}, validate_only=False)

    def _settle_named(self, topic: str, why: Problem) -> bool:
        """Adjust or leave out the config that a refusal names; False where it names none, or a needed one."""
        name = named_config(why.sentence, self._changes[topic])
        if name is None or name in self.needed:
            return False
        self._settle(topic, name, why)
        return True

    def _settle(self, topic: str, name: str, why: Problem) -> None:
        """Give a refused config the nearest value that was not tried yet, or leave it out."""
        changes = self._changes[topic]
        value = changes.pop(name)
        self._tried.add((topic, name, value))
        nearest = None if value is None else nearest_value(value, why.sentence)
        if nearest is not None and (topic, name, nearest) not in self._tried:
            changes[name] = nearest
        self._reasons[topic].setdefault(name, why.sentence)

    def _one_by_one(self, topics: set[str], failed: dict[str, Problem]) -> Mapping[str, Problem]:
        """Add the configs of some topics one after the other, and leave out those that are refused."""
        full = {topic: self._changes[topic] for topic in topics}
        self._changes |= {topic: {} for topic in topics}
        bare = self.attempt(self._changes_of(topics), validate_only=True)
        topics = {
            topic for topic in topics if topic not in bare
        }  # the others are refused without any config too
        for place in range(max((len(full[topic]) for topic in topics), default=0)):
            names = {topic: sorted(full[topic])[place] for topic in topics if place < len(full[topic])}
            self._add(names, full)
        return self._again(topics, failed)

    def _add(self, names: Mapping[str, str], full: Mapping[str, Changes]) -> None:
        """Add one more config to each topic; only a refusal because of that config removes it."""
        for topic, name in names.items():
            self._changes[topic][name] = full[topic][name]
        trying = set(names)
        while trying:
            answers = self.attempt(self._changes_of(trying), validate_only=True)
            refused = {
                topic: why
                for topic, why in answers.items()
                if why.name in ABOUT_CONFIGS and names[topic] not in self.needed
            }
            for topic, why in refused.items():
                self._settle(topic, names[topic], why)
            trying = {topic for topic in refused if names[topic] in self._changes[topic]}

    def _changes_of(self, topics: set[str]) -> dict[str, Changes]:
        return {topic: self._changes[topic] for topic in sorted(topics)}

    def _adjusted(self, topic: str, failed: Mapping[str, Problem]) -> list[ConfigAdjustment]:
        if topic in failed:
            return []
        wanted, given = self.wanted[topic], self._changes[topic]
        return [
            ConfigAdjustment(topic, name, wanted[name], given.get(name), why)
            for name, why in self._reasons[topic].items()
        ]


_OWN_NEED = frozenset({"cleanup.policy", "message.timestamp.type", "retention.ms"})
"""Configs that an internal topic must have to keep its records; others may be adjusted or left out."""


_OF_ONE_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
)


class TopicAdmin:
    """Admin calls about topics."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster

    @property
    def _client(self) -> admin.AdminClient:
        return admin_client(self._cluster).client

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Read each topic's configs, by topic and name; deleted topics and those without DESCRIBE_CONFIGS are left out.

        Raises:
            MmtoolError: no topic's configs can be read, for a reason other than the topics.
        """
        resources = [admin.ConfigResource(admin.ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        futures = self._client.describe_configs(resources, request_timeout=_TIMEOUT_SECONDS)
        found: dict[str, dict[str, ConfigEntry]] = {}
        failed: dict[str, Any] = {}
        for resource, future in futures.items():
            try:
                entries = future.result(_TIMEOUT_SECONDS + 5)
                found[resource.name] = {name: _entry(entry) for name, entry in entries.items()}
            except KafkaException as error:
                if error.args[0].code() not in _OF_ONE_TOPIC:
                    failed[resource.name] = error.args[0]
        if failed and not found:
            name, first = next(iter(failed.items()))
            raise failure_of(
                self._cluster,
                first,
                f"reading configs of topic {name}",
                right=f"DESCRIBE_CONFIGS on topic {name}",
            )
        return found

    def alter_adjusted(self, steps: Mapping[str, Sequence[SetConfig | ResetConfig]]) -> TrialResult:
        """Set and reset configs as `alter` does, but adjust or leave out each config that the target refuses."""

        def attempt(changes: Mapping[str, Changes], *, validate_only: bool) -> dict[str, Problem]:
            some = {topic: _steps(of) for topic, of in changes.items() if of}
            return self.alter(some, validate_only=validate_only)

        return apply_configs({topic: _changes(of_topic) for topic, of_topic in steps.items()}, attempt)

    def alter(
        self, steps: Mapping[str, Sequence[SetConfig | ResetConfig]], *, validate_only: bool = False
    ) -> dict[str, Problem]:
        """Set and reset configs of topics (KIP-339); return the broker's error for each topic that failed."""
        resources = [
            admin.ConfigResource(
                admin.ResourceType.TOPIC,
                topic,
                incremental_configs=[
                    admin.ConfigEntry(s.name, s.value, incremental_operation=admin.AlterConfigOpType.SET)
                    if isinstance(s, SetConfig)
                    else admin.ConfigEntry(s.name, None, incremental_operation=admin.AlterConfigOpType.DELETE)
                    for s in of_topic
                ],
            )
            for topic, of_topic in steps.items()
        ]
        if not resources:
            return {}
        futures = self._client.incremental_alter_configs(
            resources, request_timeout=_TIMEOUT_SECONDS, validate_only=validate_only
        )
        return self._collect({resource.name: future for resource, future in futures.items()})

    def create_adjusted(
        self, topics: Iterable[CreateTopic], needed: frozenset[str] = frozenset()
    ) -> TrialResult:
        """Create topics as `create` does, but adjust or leave out each refused config that is not ``needed``."""
        by_name = {topic.name: topic for topic in topics}

        def attempt(changes: Mapping[str, Changes], *, validate_only: bool) -> dict[str, Problem]:
            some = [
                replace(by_name[name], configs={key: value for key, value in of.items() if value is not None})
                for name, of in changes.items()
            ]
            return self.create(some, validate_only=validate_only)

        return apply_configs({name: dict(topic.configs) for name, topic in by_name.items()}, attempt, needed)

    def create(self, topics: Iterable[CreateTopic], *, validate_only: bool = False) -> dict[str, Problem]:
        """Create topics; return the broker's error for each that could not be created. Existing topics are no error."""
        new = [
            admin.NewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.configs)) for t in topics
        ]
        if not new:
            return {}
        return self._collect(
            self._client.create_topics(new, request_timeout=_TIMEOUT_SECONDS, validate_only=validate_only)
        )

    def replicas(self, topics: Iterable[str]) -> dict[str, int]:
        """The replication factor of each topic (of its smallest partition); topics without DESCRIBE are left out."""
        names = list(topics)
        if not names:
            return {}
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_SECONDS)
        found: dict[str, int] = {}
        for name, future in futures.items():
            with suppress(KafkaException, TimeoutError):
                counts = [
                    len(partition.replicas) for partition in future.result(_TIMEOUT_SECONDS + 5).partitions
                ]
                found |= {name: min(counts)} if counts else {}
        return found

    def grow(self, topics: Iterable[GrowTopic]) -> dict[str, Problem]:
        """Add partitions; return the broker's error for each topic that could not grow."""
        new = [admin.NewPartitions(t.name, t.partitions) for t in topics]
        return self._collect(
            self._client.create_partitions(new, request_timeout=_TIMEOUT_SECONDS) if new else {}
        )

    def compare(self, topics: Iterable[CreateTopic]) -> list[NeededTopic]:
        """Compare topics, as mmtool would create them, with those of the cluster (`needed_topic`).

        Raises:
            UnreachableError: the cluster does not answer.
            NotAuthorisedError: without DESCRIBE on a topic: whether it exists is unknown.
        """
        wanted = {topic.name: topic for topic in topics}
        counts: dict[str, int] = {}
        collection = TopicCollection(list(wanted))
        futures = self._client.describe_topics(collection, request_timeout=_TIMEOUT_SECONDS) if wanted else {}
        for name, future in futures.items():
            try:
                counts[name] = len(future.result(_TIMEOUT_SECONDS + 5).partitions)
            except KafkaException as error:
                # a name that Kafka does not allow is missing too: whoever tries to create it is told
                if error.args[0].code() not in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION}:
                    right = f"DESCRIBE on topic {name}"
                    raise failure_of(
                        self._cluster, error.args[0], f"describing {name}", right=right
                    ) from error
        configs = self.configs(counts)
        return [
            needed_topic(self._cluster.alias, topic, counts.get(name), configs.get(name, {}))
            for name, topic in wanted.items()
        ]

    def _collect(self, futures: Mapping[str, Any]) -> dict[str, Problem]:
        failed: dict[str, Problem] = {}
        for topic, future in futures.items():
            try:
                future.result(_TIMEOUT_SECONDS + 5)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    failed[topic] = Problem(error.args[0].name(), error.args[0].str())
        return failed

    def create_internal(self, topics: Iterable[CreateTopic]) -> None:
        """Create internal topics of mmtool or MirrorMaker 2; raises as `create_needed`."""
        self.create_needed(topics, "mmtool-*", "offset-syncs.topic.replication.factor")

    def create_needed(self, topics: Iterable[CreateTopic], names: str, factor: str) -> None:
        """Create topics that mmtool needs; raise on the first that cannot be created.

        With ``mmtool.create.topics = false`` it creates none, and refuses if one is missing or differs.

        Args:
            topics: The topics; one that exists already is accepted.
            names: Pattern of their names, for the sentence about missing rights.
            factor: The key of their replication factor.

        Raises:
            NotAuthorisedError: without CREATE on it.
            UnreachableError: when the target does not answer, or cannot now.
            RefusedError: when the target refuses one for another reason; the message has the broker's.
        """
        if not self._cluster.creates_topics:
            if faults := faults_of(self.compare(topics)):
                raise RefusedError(faults, remedy=PRINT_TOPICS, code=MISSING_TOPICS)
            return
        for topic, problem in self.create_adjusted(topics, _OWN_NEED).failed.items():
            cause, reason, alias = problem.name, problem.by_name, self._cluster.alias
            if KINDS.get(cause) is ErrorSubject.AWAY:
                raise unreachable(alias, f"creating {topic}", reason, cause)
            if cause in DENIALS:
                covered = names if topic.startswith(names.removesuffix("*")) else topic
                kind = "topics" if covered.endswith("*") else "topic"
                raise NotAuthorisedError(
                    f"cluster {alias} denies CREATE on topic {topic}: {reason}",
                    remedy=f"grant mmtool's principal CREATE, READ and WRITE on {kind} {covered}",
                )
            raise RefusedError(
                f"cluster {alias} refuses to create {topic}: {reason}",
                remedy=f"set {factor} to at most the number of brokers of {alias}, or start the brokers that are down"
                if cause == "INVALID_REPLICATION_FACTOR"
                else remedy_of_refusal(cause, alias, f"topic {topic}"),
            )


def _changes(steps: Iterable[SetConfig | ResetConfig]) -> Changes:
    return {step.name: step.value if isinstance(step, SetConfig) else None for step in steps}


def _steps(changes: Changes) -> list[SetConfig | ResetConfig]:
    return [ResetConfig(name) if value is None else SetConfig(name, value) for name, value in changes.items()]


def _entry(entry: Any) -> ConfigEntry:
    """Convert librdkafka's config entry to mmtool's."""
    source = admin.ConfigSource(entry.source)
    default = source in {admin.ConfigSource.STATIC_BROKER_CONFIG, admin.ConfigSource.DEFAULT_CONFIG}
    return ConfigEntry(
        value=entry.value,
        origin=ConfigOrigin.DEFAULT if default else ConfigOrigin.OVERRIDE,
        on_topic=source is admin.ConfigSource.DYNAMIC_TOPIC_CONFIG,
        carried=not entry.is_read_only and not entry.is_sensitive,
    )
