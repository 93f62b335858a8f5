"""Topics of one cluster: read configs, create, add partitions. Blocking; the engine calls it in a thread."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, admin

from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.admin.config_trials import apply_configs
from mmtool.kafka.errors import KINDS, Kind, failure_of, unreachable
from mmtool.kafka.kept_clients import admin_client
from mmtool.kafka.remedies import remedy_of_refusal
from mmtool.plan.topics.configs import ConfigEntry, Origin, ResetConfig, SetConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.kafka.admin.config_trials import Changes, TrialResult
    from mmtool.plan.topics.facts import CreateTopic, GrowTopic

_TIMEOUT_SECONDS = 30.0
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

        def attempt(changes: Mapping[str, Changes], *, validate_only: bool) -> dict[str, str]:
            some = {topic: _steps(of) for topic, of in changes.items() if of}
            return self.alter(some, validate_only=validate_only)

        return apply_configs({topic: _changes(of_topic) for topic, of_topic in steps.items()}, attempt)

    def alter(
        self, steps: Mapping[str, Sequence[SetConfig | ResetConfig]], *, validate_only: bool = False
    ) -> dict[str, str]:
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

        def attempt(changes: Mapping[str, Changes], *, validate_only: bool) -> dict[str, str]:
            some = [
                replace(by_name[name], configs={key: value for key, value in of.items() if value is not None})
                for name, of in changes.items()
            ]
            return self.create(some, validate_only=validate_only)

        return apply_configs({name: dict(topic.configs) for name, topic in by_name.items()}, attempt, needed)

    def create(self, topics: Iterable[CreateTopic], *, validate_only: bool = False) -> dict[str, str]:
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

    def grow(self, topics: Iterable[GrowTopic]) -> dict[str, str]:
        """Add partitions; return the broker's error for each topic that could not grow."""
        new = [admin.NewPartitions(t.name, t.partitions) for t in topics]
        return self._collect(
            self._client.create_partitions(new, request_timeout=_TIMEOUT_SECONDS) if new else {}
        )

    def _collect(self, futures: Mapping[str, Any]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for topic, future in futures.items():
            try:
                future.result(_TIMEOUT_SECONDS + 5)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    failed[topic] = f"{error.args[0].name()}: {error.args[0].str()}"
        return failed

    def create_internal(self, topics: Iterable[CreateTopic]) -> None:
        """Create internal topics of mmtool or MirrorMaker 2; raises as `create_needed`."""
        self.create_needed(topics, "mmtool-*", "offset-syncs.topic.replication.factor")

    def create_needed(self, topics: Iterable[CreateTopic], names: str, factor: str) -> None:
        """Create topics that mmtool needs; raise on the first that cannot be created.

        Args:
            topics: The topics; one that exists already is accepted.
            names: Pattern of their names, for the sentence about missing rights.
            factor: The key of their replication factor.

        Raises:
            NotAuthorisedError: without CREATE on it.
            UnreachableError: when the target does not answer, or cannot now.
            RefusedError: when the target refuses one for another reason; the message has the broker's.
        """
        for topic, reason in self.create_adjusted(topics, _OWN_NEED).failed.items():
            cause, alias = reason.partition(":")[0], self._cluster.alias
            if KINDS.get(cause) is Kind.AWAY:
                raise unreachable(alias, f"creating {topic}", reason, cause)
            if "AUTHORIZATION_FAILED" in reason:
                covered = names if topic.startswith(names.removesuffix("*")) else topic
                raise NotAuthorisedError(
                    f"cluster {alias} denies CREATE on topic {topic}: {reason}",
                    remedy=f"grant mmtool's principal CREATE, READ and WRITE on {_topics(covered)}",
                )
            raise RefusedError(
                f"cluster {alias} refuses to create {topic}: {reason}",
                remedy=f"set {factor} to at most the number of brokers of {alias}, or start the brokers that are down"
                if cause == "INVALID_REPLICATION_FACTOR"
                else remedy_of_refusal(cause, alias, f"topic {topic}"),
            )


def _topics(names: str) -> str:
    return f"topics {names}" if names.endswith("*") else f"topic {names}"


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
        origin=Origin.DEFAULT if default else Origin.OVERRIDE,
        on_topic=source is admin.ConfigSource.DYNAMIC_TOPIC_CONFIG,
        carried=not entry.is_read_only and not entry.is_sensitive,
    )
