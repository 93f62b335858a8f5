"""What `mmtool doctor` asks a cluster: read-only requests over the batch wire, each asked once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.admin.listeners import try_listeners
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import failure_of, unreachable
from mmtool.kafka.patience import handfuls, seconds_for_each
from mmtool.kafka.ports import Answers
from mmtool.kafka.tokens.source import principal_of
from mmtool.kafka.wire.acls import DescribeAclsRequest, DescribeClusterRequest, Rights
from mmtool.kafka.wire.answers import answers_of
from mmtool.kafka.wire.blocking_client import BlockingWireClient, run_beside
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.kafka.wire.groups import DescribeGroupsRequest, HeartbeatTrial, OffsetDeleteRequest
from mmtool.kafka.wire.metadata import (
    DescribeBrokerConfigRequest,
    DescribeLogDirsRequest,
    DescribeTopicConfigsRequest,
    LogDir,
    MetadataRequest,
    TopicMetadata,
)
from mmtool.kafka.wire.request import UnsupportedByBrokerError, WireRequest
from mmtool.kafka.wire.scan import Patience, offsets_each
from mmtool.kafka.wire.transactions import REQUESTS, check_markers, claim_trial
from mmtool.plan.topics.configs import ConfigEntry
from mmtool.plan.topics.facts import DENIALS, CreateTopic
from mmtool.runtime.threads import Once
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition, Unknown

T = TypeVar("T")
Q = TypeVar("Q")

_AT_ONCE = 500
"""Rights checks that are sent together on one connection."""
_NO_TOPIC = "mmtool-topic-without-acls"
_READ_DIRS = "DESCRIBE on the cluster (to read its log directories)"


class KafkaClusterDetails:
    """Reads the details of one cluster; connects at the first request. It writes, creates and joins nothing.

    Every call but `listeners` raises `UnreachableError` or `NotAuthorisedError` when the cluster does not answer, or
    not us.

    Attributes:
        listeners: Tries each bootstrap server and each advertised listener, all at the same time.
        brokers: ``host:port`` of each live broker, by broker id.
        rights: mmtool's rights on the cluster resource; UNKNOWN from brokers before 2.8.
    """

    def __init__(self, settings: ClusterSettings, timeout_seconds: float) -> None:
        """Take the cluster's settings and the longest time of one request, in seconds."""
        self._settings = settings
        self._seconds = timeout_seconds
        self._wire = BlockingWireClient(wire_cluster(settings, "doctor", role="admin"), timeout_seconds)
        self.listeners = Once(lambda: run_beside(try_listeners(settings)))
        self.brokers = Once(
            lambda: {
                broker.node: broker.address
                for broker in self._any("listing brokers", MetadataRequest(())).brokers
            }
        )
        self.rights = Once(self._cluster_rights)
        self._topics = Once(lambda: self._described(None))

    @property
    def alias(self) -> str:
        return self._settings.alias

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers: ``host:port``, separated by commas."""
        return self._settings.bootstrap_servers_for("admin")

    @property
    def principal(self) -> str:
        """mmtool's own principal on the cluster, as ``User:mm``, as far as the settings show it."""
        security = self._settings.security_for("admin")
        if security.sasl is None and security.certificate is not None:
            from mmtool.keystores.certificates import leaf_subject

            return f"User:{leaf_subject(security.certificate.text.get_secret_value()) or 'unknown'}"
        with suppress(UnreachableError):
            found = principal_of(self.alias, security)
            if found is not UNKNOWN:
                return found
        return "User:unknown"

    # --- metadata -----------------------------------------------------------------------------------------

    def topics(self) -> dict[str, TopicMetadata]:
        """Every topic that mmtool may DESCRIBE, by name."""
        return {
            topic.name: topic._replace(partitions=sorted(topic.partitions))
            for topic in self._topics()
            if topic.error_code == Code.NONE
        }

    def _described(self, names: Sequence[str] | None) -> list[TopicMetadata]:
        return self._any("listing topics", MetadataRequest(names, with_rights=True)).topics

    def hidden(self, topics: Collection[str]) -> frozenset[str]:
        """The given topics that mmtool may not DESCRIBE."""
        found = self._described(sorted(topics)) if topics else []
        return frozenset(topic.name for topic in found if topic.error_code in DENIED)

    # --- configuration and disks --------------------------------------------------------------------------

    def configs(self, topics: Collection[str], names: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Read the named configs of topics; topics without DESCRIBE_CONFIGS are left out."""
        if not topics:
            return {}
        found = self._any("reading topic properties", DescribeTopicConfigsRequest(sorted(topics), names))
        return {topic: one.entries for topic, one in found.items() if one.error_code == Code.NONE}

    def broker_configs(self, names: Collection[str]) -> dict[int, dict[str, str | None]]:
        """Read the named configs of each broker; brokers that do not show them are left out."""

        async def told(wire: WireCluster) -> dict[int, dict[str, str | None]]:
            await wire.refresh(())
            requests = {node: DescribeBrokerConfigRequest(node, names) for node in wire.nodes}
            answers = await answers_of(wire, requests)
            return {node: one.values for node, one in answers.items() if one.error_code == Code.NONE}

        return self._wire.ask(told, "reading broker properties")

    def log_dirs(self, topics: Collection[str]) -> Answers[int, tuple[LogDir, ...]]:
        """Each broker's log directories, with the sizes of the given topics.

        Brokers without an answer are in ``failed``.
        """
        known = self.topics()
        wanted = {name: len(known[name].partitions) for name in sorted(topics) if name in known}

        async def asked(wire: WireCluster) -> Answers[int, tuple[LogDir, ...]]:
            await wire.refresh(())
            answers = await answers_of(wire, dict.fromkeys(wire.nodes, DescribeLogDirsRequest(wanted)))
            result: Answers[int, tuple[LogDir, ...]] = Answers()
            for node in wire.nodes:
                what, answer = f"reading the log directories of broker {node}", answers.get(node)
                if answer is None:
                    result.failed[node] = unreachable(self.alias, what, "no answer")
                elif answer.error_code != Code.NONE:
                    right, error = _READ_DIRS, KafkaError(answer.error_code)
                    result.failed[node] = failure_of(self._settings, error, what, right=right)
                else:
                    result[node] = answer.directories
            return result

        return self._wire.ask(asked, "reading log directories")

    # --- rights -------------------------------------------------------------------------------------------

    def _cluster_rights(self) -> Rights | Unknown:
        try:
            answer = self._any("reading mmtool's rights", DescribeClusterRequest())
        except UnsupportedByBrokerError:  # before Kafka 2.8
            return UNKNOWN
        return answer.rights if answer.error_code == Code.NONE else UNKNOWN

    def has_authorizer(self) -> bool:
        """Whether the cluster has an authorizer."""
        answer = self._any("looking for an authorizer", DescribeAclsRequest(_NO_TOPIC))
        return answer.error_code != Code.SECURITY_DISABLED

    def uncreatable(self, topics: Collection[str]) -> frozenset[str]:
        """The given topics that do not exist and that mmtool may not create.

        Validated only: no topic is created.
        """
        admin = TopicAdmin(self._settings)
        wanted = [CreateTopic("", name, 1, -1, {}) for name in sorted(topics)]
        failed = admin.create(wanted, validate_only=True)
        return frozenset(name for name, problem in failed.items() if problem.name in DENIALS)

    def unclaimable(self, transactional_ids: Collection[str]) -> frozenset[str]:
        """The given transactional ids that mmtool may not WRITE; no epoch is taken."""
        return self._denied(transactional_ids, claim_trial, lambda answer: answer.error_code)

    def unreadable_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not READ; none is joined, and none has to exist."""
        return self._denied(groups, HeartbeatTrial, int)

    def undeletable_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not DELETE; checked by deleting the offsets of no partition."""
        try:
            return self._denied(
                groups, lambda group: OffsetDeleteRequest(group, ()), lambda answer: answer.error_code
            )
        except UnsupportedByBrokerError:  # before Kafka 2.4
            return frozenset()

    def hidden_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not DESCRIBE; any broker checks it before it looks for the group."""
        found = self._any("reading mmtool's rights", DescribeGroupsRequest(sorted(groups))) if groups else {}
        return frozenset(name for name, one in found.items() if one.error_code in DENIED)

    def _denied(
        self,
        names: Collection[str],
        trial: Callable[[str], WireRequest[T]],
        code_of: Callable[[T], int],
    ) -> frozenset[str]:
        """The names whose trial is answered with a missing right."""

        async def tried(wire: WireCluster) -> frozenset[str]:
            denied: list[str] = []
            for some in handfuls(sorted(names), _AT_ONCE):
                answers = await asyncio.gather(*(wire.ask_any(trial(name)) for name in some))
                denied += (name for name, one in zip(some, answers, strict=True) if code_of(one) in DENIED)
            return frozenset(denied)

        return self._wire.ask(tried, "reading mmtool's rights") if names else frozenset()

    # --- offsets ------------------------------------------------------------------------------------------

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Answers[TopicPartition, int | None]:
        """The first offset at or after a timestamp (ms since 1970), by partition; None without such a record."""
        if not times:
            return Answers()
        patience = Patience(answer=seconds_for_each(self._seconds), leader=0.0)
        found = self._wire.ask(
            lambda wire: offsets_each(wire, times, patience, read_committed=False), "reading offsets"
        )
        result = Answers({place: found.get(place) for place in times if place not in found.failed})
        result.failed = found.failed
        return result

    def marker_trip_seconds(self) -> float:
        """The time of a request for transaction markers, as `check_markers` sends it; raises its errors, too."""

        async def timed(wire: WireCluster) -> float:
            await check_markers(wire)  # opens the connection
            began = time.monotonic()
            await check_markers(wire)
            return (time.monotonic() - began) / REQUESTS

        return self._wire.ask(timed, "asking for the right to write markers")

    def samples(
        self,
        questions: Mapping[TopicPartition, Q],
        sample: Callable[[WireCluster, TopicPartition, TopicId, Q], Awaitable[T]],
    ) -> Answers[TopicPartition, T]:
        """What ``sample`` (of `mmtool.kafka.logs.samples`) finds in each partition; needs READ on the topics."""

        async def sampled(wire: WireCluster) -> Answers[TopicPartition, T]:
            await wire.refresh({place.topic for place in questions})
            result: Answers[TopicPartition, T] = Answers()
            for place, question in questions.items():  # one after the other: a sample may be megabytes
                try:
                    topic_id = wire.topic_id(place.topic) or TopicId(place.topic)
                    result[place] = await sample(wire, place, topic_id, question)
                except (MmtoolError, ConnectionLostError) as error:
                    failed = unreachable(self.alias, f"reading {place}", error)
                    if isinstance(error, MmtoolError):
                        failed.remedy = error.remedy or failed.remedy
                    result.failed[place] = failed
            return result

        return self._wire.ask(sampled, "reading records") if questions else Answers()

    # --- asking -------------------------------------------------------------------------------------------

    def _any(self, what: str, request: WireRequest[T]) -> T:
        return self._wire.ask(lambda wire: wire.ask_any(request), what)
