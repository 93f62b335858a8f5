"""What `mmtool doctor` asks a cluster: read-only requests over the batch wire, each asked once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from confluent_kafka import KafkaError

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.admin.listeners import ListenerTrial, addresses, entrances
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import failure_of, unreachable
from mmtool.kafka.logs.samples import sample_holes, sample_sizes
from mmtool.kafka.patience import handfuls, seconds_for_each
from mmtool.kafka.ports import Answers
from mmtool.kafka.tokens.source import principal_of
from mmtool.kafka.wire.acls import DescribeAclsRequest, DescribeClusterRequest
from mmtool.kafka.wire.answers import answers_of
from mmtool.kafka.wire.api_versions import HeartbeatTrial, claim_trial
from mmtool.kafka.wire.blocking_client import BlockingWireClient, run_beside
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import DescribeGroupsRequest, OffsetDeleteRequest
from mmtool.kafka.wire.metadata import (
    DescribeBrokerConfigRequest,
    DescribeLogDirsRequest,
    DescribeTopicConfigsRequest,
    MetadataRequest,
)
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.scan import Patience, offsets_each
from mmtool.kafka.wire.transactions import REQUESTS, check_markers
from mmtool.plan.topics.facts import DENIALS, CreateTopic
from mmtool.runtime.threads import Once
from mmtool.translation.types import UNKNOWN, TopicId, Unknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.config.credentials import Security
    from mmtool.kafka.admin.listeners import Entrance, ListenerAnswer
    from mmtool.kafka.logs.samples import HoleQuestion, HoleSample, SizeQuestion, SizeSample
    from mmtool.kafka.wire.acls import Rights
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.metadata import (
        BrokerAddress,
        DescribedLogDirs,
        LogDir,
        TopicMetadata,
    )
    from mmtool.kafka.wire.request import WireRequest
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.translation.types import TopicPartition

T = TypeVar("T")
Q = TypeVar("Q")

_AT_ONCE = 500
"""Rights checks that are sent together on one connection."""
_NO_TOPIC = "mmtool-topic-without-acls"
_LONGEST_METADATA_SECONDS = 4.0


class Replicas(NamedTuple):
    """The leader and replicas of a partition.

    Attributes:
        leader: None while the partition has no leader.
    """

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic as its metadata describes it.

    Attributes:
        partitions: In the order of their numbers.
        rights: The operations that mmtool may do on it; UNKNOWN from brokers before 2.8.
    """

    name: str
    partitions: tuple[Replicas, ...]
    rights: Rights | Unknown = UNKNOWN


class KafkaClusterDetails:
    """Reads the details of one cluster; connects at the first request. It writes, creates and joins nothing.

    Every call but `listeners` raises `UnreachableError` or `NotAuthorisedError` when the cluster does not answer, or
    not us.
    """

    def __init__(self, settings: ClusterSettings, timeout_seconds: float) -> None:
        """Take the cluster's settings and the longest time of one request, in seconds."""
        self._settings = settings
        self._seconds = timeout_seconds
        self._wire = BlockingWireClient(wire_cluster(settings, "doctor", role="admin"), timeout_seconds)
        self._listeners = Once(self._try_listeners)
        self._topics = Once(lambda: self._described(None))
        self._brokers = Once(self._known_brokers)
        self._rights = Once(self._cluster_rights)

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
        if security.sasl is not None:
            return self._login_principal(security)
        if security.certificate is not None:
            from mmtool.keystores.certificates import leaf_subject

            return f"User:{leaf_subject(security.certificate.text.get_secret_value()) or 'unknown'}"
        return "User:ANONYMOUS"

    def _login_principal(self, security: Security) -> str:
        with suppress(UnreachableError):
            found = principal_of(self.alias, security)
            if found is not UNKNOWN:
                return found
        return "User:unknown"

    # --- listeners ----------------------------------------------------------------------------------------

    def listeners(self) -> Sequence[ListenerAnswer]:
        """Try each bootstrap server and each advertised listener, all at the same time."""
        return self._listeners()

    def _try_listeners(self) -> list[ListenerAnswer]:
        async def all_of(found: Iterable[Entrance]) -> list[ListenerAnswer]:
            tried = await asyncio.gather(*(self._try_entrance(one) for one in found))
            return [answer for answers in tried for answer in answers]

        return run_beside(all_of(entrances(self._settings)))

    async def _try_entrance(self, entrance: Entrance) -> list[ListenerAnswer]:
        """Try the bootstrap servers first, then the advertised listeners that one of them returned."""
        trial = ListenerTrial(self._settings, entrance)
        first = await trial.run([(server, None) for server in entrance.servers])
        if all(answer.failed for answer in first):
            return first
        advertised = await self._advertised(entrance)
        wanted = addresses(entrance, advertised)
        tried = {answer.address: answer for answer in first}
        rest = await trial.run([place for place in wanted if place[0] not in tried])
        numbers = {address: node for node, address in advertised.items()}
        return [*(replace(one, broker=numbers.get(one.address)) for one in first), *rest]

    async def _advertised(self, entrance: Entrance) -> dict[int, str]:
        settings = self._settings.model_copy(
            update={
                "bootstrap_servers": ",".join(entrance.servers),
                "security": entrance.security,
                "role_bootstrap_servers": {},
                "role_security": {},
            }
        )
        wire = wire_cluster(settings, "doctor")
        try:
            async with asyncio.timeout(_LONGEST_METADATA_SECONDS):
                await wire.start()
            return {broker.node: _address(broker) for broker in wire.brokers}
        except (MmtoolError, TimeoutError):
            return {}
        finally:
            await wire.close()

    # --- metadata -----------------------------------------------------------------------------------------

    def brokers(self) -> dict[int, str]:
        """``host:port`` of each live broker, by broker id."""
        return self._brokers()

    def _known_brokers(self) -> dict[int, str]:
        async def known(wire: WireCluster) -> dict[int, str]:
            await wire.refresh(())
            return {broker.node: _address(broker) for broker in wire.brokers}

        return self._wire.ask(known, "listing brokers")

    def topics(self) -> dict[str, TopicDetails]:
        """Every topic that mmtool may DESCRIBE, by name."""
        return {topic.name: _topic(topic) for topic in self._topics() if topic.error_code == Code.NONE}

    def _described(self, names: Sequence[str] | None) -> list[TopicMetadata]:
        return self._any("listing topics", MetadataRequest(names, with_rights=True)).topics

    def hidden(self, topics: Collection[str]) -> frozenset[str]:
        """The given topics that mmtool may not DESCRIBE."""
        if not topics:
            return frozenset()
        denied = Code.TOPIC_AUTHORIZATION_FAILED
        return frozenset(
            topic.name for topic in self._described(sorted(topics)) if topic.error_code == denied
        )

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

        async def told(wire: WireCluster) -> Answers[int, tuple[LogDir, ...]]:
            await wire.refresh(())
            answers = await answers_of(wire, dict.fromkeys(wire.nodes, DescribeLogDirsRequest(wanted)))
            found = {node: one.directories for node, one in answers.items() if one.error_code == Code.NONE}
            result = Answers(found)
            for node in set(wire.nodes) - found.keys():
                result.failed[node] = self._no_log_dirs(node, answers.get(node))
            return result

        return self._wire.ask(told, "reading log directories")

    def _no_log_dirs(self, node: int, answer: DescribedLogDirs | None) -> MmtoolError:
        what = f"reading the log directories of broker {node}"
        if answer is not None:
            right = "DESCRIBE on the cluster (to read its log directories)"
            return failure_of(self._settings, KafkaError(answer.error_code), what, right=right)
        return unreachable(self.alias, what, "no answer")

    # --- rights -------------------------------------------------------------------------------------------

    def rights(self) -> Rights | Unknown:
        """mmtool's rights on the cluster resource; UNKNOWN from brokers before 2.8."""
        return self._rights()

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
        answers = self._tried(transactional_ids, claim_trial)
        denied = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return frozenset(name for name, one in answers.items() if one.error_code == denied)

    def unreadable_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not READ; none is joined, and none has to exist."""
        answers = self._tried(groups, HeartbeatTrial)
        return frozenset(name for name, code in answers.items() if code == Code.GROUP_AUTHORIZATION_FAILED)

    def undeletable_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not DELETE; checked by deleting the offsets of no partition."""
        try:
            answers = self._tried(groups, lambda group: OffsetDeleteRequest(group, ()))
        except UnsupportedByBrokerError:  # before Kafka 2.4
            return frozenset()
        denied = Code.GROUP_AUTHORIZATION_FAILED
        return frozenset(name for name, one in answers.items() if one.error_code == denied)

    def hidden_groups(self, groups: Collection[str]) -> frozenset[str]:
        """The given groups that mmtool may not DESCRIBE; any broker checks it before it looks for the group."""
        found = self._any("reading mmtool's rights", DescribeGroupsRequest(sorted(groups))) if groups else {}
        denied = Code.GROUP_AUTHORIZATION_FAILED
        return frozenset(name for name, one in found.items() if one.error_code == denied)

    def _tried(self, names: Collection[str], trial: Callable[[str], WireRequest[T]]) -> dict[str, T]:
        async def tried(wire: WireCluster) -> dict[str, T]:
            found: dict[str, T] = {}
            for some in handfuls(sorted(names), _AT_ONCE):
                answers = await asyncio.gather(*(wire.ask_any(trial(name)) for name in some))
                found |= dict(zip(some, answers, strict=True))
            return found

        return self._wire.ask(tried, "reading mmtool's rights") if names else {}

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

    def size_samples(
        self, questions: Mapping[TopicPartition, SizeQuestion]
    ) -> Answers[TopicPartition, SizeSample]:
        """Whether records fit the target's limit, from a sample of each partition; needs READ on the topics."""
        return self._samples(questions, sample_sizes)

    def hole_samples(
        self, questions: Mapping[TopicPartition, HoleQuestion]
    ) -> Answers[TopicPartition, HoleSample]:
        """The offsets without a record, from a sample of each partition; needs READ on the topics."""
        return self._samples(questions, sample_holes)

    def marker_trip_seconds(self) -> float:
        """The time of a request for transaction markers, as `check_markers` sends it; raises its errors, too."""

        async def timed(wire: WireCluster) -> float:
            await check_markers(wire)  # opens the connection
            began = time.monotonic()
            await check_markers(wire)
            return (time.monotonic() - began) / REQUESTS

        return self._wire.ask(timed, "asking for the right to write markers")

    def _samples(
        self,
        questions: Mapping[TopicPartition, Q],
        sample: Callable[[WireCluster, TopicPartition, TopicId, Q], Awaitable[T]],
    ) -> Answers[TopicPartition, T]:
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
        async def asked(wire: WireCluster) -> T:
            return await wire.ask_any(request)

        return self._wire.ask(asked, what)


def _address(broker: BrokerAddress) -> str:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return f"{host}:{broker.port}"


def _topic(topic: TopicMetadata) -> TopicDetails:
    partitions = tuple(
        Replicas(one.leader if one.leader >= 0 else None, one.replicas, one.in_sync)
        for one in sorted(topic.partitions)
    )
    return TopicDetails(topic.name, partitions, topic.rights)
